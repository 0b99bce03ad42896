"""Work that would stop all other exchanges, done in processes that may die of it."""

from extproc.server.workers.pool import Workers

__all__ = ["Workers"]
