"""Memory that is freed goes back to the system, so that one large file does not leave a process large for good.

The C library keeps what was freed for the next one who asks, in a pool for every few threads, and after a large piece was
freed it keeps pieces of that size, too. A server that read fifty large headers held 80 MB more than it used.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from pathlib import Path

LARGE_PIECE = 256 << 10
POOLS = 2
# As malloc.h of glibc numbers them (mallopt(3)).
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8


def return_what_is_freed() -> None:
    """From now on, in this process. Elsewhere than under glibc nothing changes."""
    with suppress(OSError, AttributeError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        for option, value in ((_TRIM_THRESHOLD, LARGE_PIECE), (_MMAP_THRESHOLD, LARGE_PIECE), (_ARENA_MAX, POOLS)):
            mallopt(option, value)


def allocated_bytes() -> int:
    """What this process has asked for, used or not: what RLIMIT_DATA bounds; 0 where the system does not say."""
    with suppress(OSError, ValueError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmData:"):
                return int(line.split()[1]) << 10
    return 0
