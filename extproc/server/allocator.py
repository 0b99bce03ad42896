"""The C library's allocator: how soon it gives memory back that large bodies have taken.

glibc takes a block of megabytes by itself from the kernel, and gives it back when it is freed; but with each that is
freed it takes larger ones from its heap instead (`mallopt(3)`, M_MMAP_THRESHOLD), and a heap with something at its end
stays as large as it ever was. After requests of 30 MB a processor kept 70 MB more for good.
"""

from __future__ import annotations

from functools import lru_cache

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_OF_ITS_OWN = 1024 * 1024
"""Bytes of a block that isn't of the heap."""
_FREE_AT_END = 8 * 1024 * 1024
"""Bytes that the heap may have free at its end: less would be given and taken with every request."""


@lru_cache(maxsize=1)
def give_back_large_blocks() -> None:
    """From now on, in this process. The first call takes some milliseconds; without glibc none does a thing."""
    import ctypes  # hardly anybody sends a large body

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(_M_MMAP_THRESHOLD, _OF_ITS_OWN)
    mallopt(_M_TRIM_THRESHOLD, _FREE_AT_END)
