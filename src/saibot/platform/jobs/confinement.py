"""What a worker gives up before it looks at anything that strangers sent: other people's files, the network, other programs,
and processes that would be there after it.

Linux alone has this: rules over files and a filter of system calls. Where either is missing the other one holds, and
elsewhere a worker has what its user has. Both bind the thread that asks, and those it starts later: `confine` comes before
the first thread.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress

from saibot.platform.jobs.call_filter import refuse_calls
from saibot.platform.jobs.file_rules import keep_to_files

_NO_NEW_PRIVILEGES = 38  # as prctl(2) numbers it
_OVER_FILES = 0b11110  # CAP_DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER and FSETID, as capabilities(7) has them


def give_up_privileges() -> None:
    """No program gives this process, or one it starts, more than it has."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)


def confine(*, looks_at: Iterable[str], changes: Iterable[str]) -> list[str]:
    """From now on this process sees those paths and what Python is made of, and changes the latter ones; it starts no
    program and no other process, opens no connection, and touches no process that is not confined with it.

    What comes back is what of it the system does not do.
    """
    give_up_privileges()
    lacking = []
    for what, work in (
        ("powers", _drop_powers),
        ("files", lambda: keep_to_files(_code(), looks_at, changes)),
        ("calls", refuse_calls),
    ):
        try:
            work()
        except (OSError, AttributeError):
            lacking.append(what)
    return lacking


def _drop_powers() -> None:
    """Those of root over whatever is not a file: files have owners that root may have to pass over, and rules below."""
    if os.geteuid() != 0:
        return
    call = ctypes.CDLL(None, use_errno=True).syscall
    ask, give = {"x86_64": (125, 126), "aarch64": (90, 91)}.get(platform.machine(), (-1, -1))
    this = ctypes.create_string_buffer(struct.pack("=Ii", 0x20080522, 0))
    held = ctypes.create_string_buffer(24)
    if call(ask, this, held):
        raise OSError(ctypes.get_errno(), "nobody knows which powers this has")
    kept = struct.unpack_from("=6I", held)[1] & _OVER_FILES
    if call(give, this, struct.pack("=6I", kept, kept, 0, 0, 0, 0)):
        raise OSError(ctypes.get_errno(), "powers are kept")


def _code() -> set[str]:
    return {path for path in (*sys.path, sys.prefix, sys.base_prefix) if os.path.isabs(path)}
