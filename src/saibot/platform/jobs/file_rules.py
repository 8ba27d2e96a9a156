"""Rules of the kernel over the files that a process sees and changes (Landlock; Linux 5.19 and newer)."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

_CREATE_RULES, _ADD_RULE, _RESTRICT = 444, 445, 446  # the same numbers on every processor
_BELOW_PATH = 1

# Rights as landlock(7) numbers them: those of a file, those to look, and by version of the interface all there are.
_EXECUTE, _WRITE, _READ, _LIST = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _IOCTL = 1 << 14, 1 << 15
_OF_A_FILE = _EXECUTE | _WRITE | _READ | _TRUNCATE | _IOCTL
_RIGHTS = {2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
_LOOK = _EXECUTE | _READ | _LIST
_CHANGE = ((1 << 15) - 1) & ~(
    _EXECUTE | (1 << 6) | (1 << 9) | (1 << 10) | (1 << 11) | (1 << 12)
)  # no devices, sockets, links

# What any program reads: libraries, the time zone, facts about the processor.
_SYSTEM = (
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/sys/devices/system",
    "/sys/fs/cgroup",
)
_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")


def keep_to_files(code: Iterable[str], looks_at: Iterable[str], changes: Iterable[str]) -> None:
    call = ctypes.CDLL(None, use_errno=True).syscall
    version = call(_CREATE_RULES, None, 0, 1)
    if version < 2:  # the first one lets nobody move a file from one folder to another
        raise OSError(ctypes.get_errno(), "no rules here")
    all_rights = _RIGHTS[min(version, max(_RIGHTS))]
    connections, others = 3 if version >= 4 else 0, 3 if version >= 6 else 0
    told = struct.pack("=QQQ", all_rights, connections, others)[: 8 if version < 4 else 16 if version < 6 else 24]
    rules = call(_CREATE_RULES, told, len(told), 0)
    if rules < 0:
        raise OSError(ctypes.get_errno(), "no rules")
    # What is known of this process has an inode that the system makes anew when nobody holds it, and rules are by inode.
    os.open("/proc/self", os.O_PATH | os.O_CLOEXEC)
    try:
        for paths, rights in (
            ((*_SYSTEM, *code, *looks_at), _LOOK),
            (_DEVICES, _READ | _WRITE),
            (changes, _LOOK | _CHANGE),
        ):
            for path in paths:
                with suppress(OSError):  # whatever is not allowed is refused
                    _allow(call, rules, path, rights & all_rights)
        if call(_RESTRICT, rules, 0):
            raise OSError(ctypes.get_errno(), "not confined")
    finally:
        os.close(rules)


def _allow(call: Any, rules: int, path: str, rights: int) -> None:
    handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rights &= -1 if Path(path).is_dir() else _OF_A_FILE
        call(_ADD_RULE, rules, _BELOW_PATH, struct.pack("=Qi", rights, handle), 0)
    finally:
        os.close(handle)
