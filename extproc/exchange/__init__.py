"""One exchange with Envoy, without any I/O: what comes in, what goes out, who is let in, what it counts for."""
