"""The processor's shell: gRPC, workers, idle streams, the process around them."""
