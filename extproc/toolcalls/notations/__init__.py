"""How a call, its arguments and their values are written, and what reads them while they arrive."""
