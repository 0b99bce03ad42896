"""`extproc up`: Envoy and the processor as child processes, started, watched and ended together.

    options.py   what the command line asks for, and the configuration that comes of it
    gateway.py   the life of the two (three with the scripted vLLM), from start to drain
    service.py   one of them, kept running
    run.py       ... under signals, in a private directory
    guide.py     what is printed when all is ready
    child.py     one child process, which ends when we do
    binary.py    the Envoy binary: where it is, and what it says to a configuration
    backends.py  a look at the backends

What goes wrong is a `GatewayError`, whose text says what it is and what to do about it.
"""

from extproc.supervisor.errors import GatewayError

__all__ = ["GatewayError"]
