"""What a worker gives up before it looks at anything that strangers sent: other people's files, the network, other programs.

Linux alone has this: Landlock (5.19 and newer) for files and other processes, a filter of system calls for the rest. Where
either is missing the other one holds, and elsewhere a worker has what its user has. Both bind the thread that asks, and
those it starts later: `confine` comes before the first thread.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

_NO_NEW_PRIVILEGES, _SET_FILTER, _FILTER = 38, 22, 2  # as prctl(2) and seccomp(2) number them
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

# By processor: how the kernel calls it, and its numbers for socket, execve, execveat, ptrace, process_vm_readv and _writev,
# pidfd_getfd, bpf, io_uring_setup, unshare.
_CALLS = {
    "x86_64": (0xC000003E, (41, 59, 322, 101, 310, 311, 438, 321, 425, 272)),
    "aarch64": (0xC00000B7, (198, 221, 281, 117, 270, 271, 438, 280, 425, 97)),
}
_LOAD_WORD, _JUMP_IF_EQUAL, _JUMP_IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_KILL, _REFUSE, _ALLOW = 0x80000000, 0x00050000 | 1, 0x7FFF0000  # the process; the call, as not permitted
_OTHER_NUMBERS = 0x40000000  # x86-64's second way to number its calls

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


def give_up_privileges() -> None:
    """No program gives this process, or one it starts, more than it has."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)


def confine(*, looks_at: Iterable[str], changes: Iterable[str]) -> None:
    """From now on this process sees those paths and what Python is made of, and changes the latter ones; it starts no
    program, opens no connection, and touches no process that is not confined with it."""
    give_up_privileges()
    with suppress(OSError, AttributeError):
        _keep_to_files(_code(), looks_at, changes)
    with suppress(OSError, AttributeError):
        _refuse_calls()


def _code() -> set[str]:
    return {path for path in (*sys.path, sys.prefix, sys.base_prefix) if os.path.isabs(path)}


def _keep_to_files(code: Iterable[str], looks_at: Iterable[str], changes: Iterable[str]) -> None:
    call = ctypes.CDLL(None, use_errno=True).syscall
    version = call(_CREATE_RULES, None, 0, 1)
    if version < 2:  # the first one lets nobody move a file from one folder to another
        return
    all_rights = _RIGHTS[min(version, max(_RIGHTS))]
    connections, others = 3 if version >= 4 else 0, 3 if version >= 6 else 0
    told = struct.pack("=QQQ", all_rights, connections, others)[: 8 if version < 4 else 16 if version < 6 else 24]
    rules = call(_CREATE_RULES, told, len(told), 0)
    if rules < 0:
        raise OSError(ctypes.get_errno(), "no rules")
    try:
        for paths, rights in (
            ((*_SYSTEM, *code, *looks_at), _LOOK),
            (_DEVICES, _READ | _WRITE),
            (changes, _LOOK | _CHANGE),
        ):
            for path in paths:
                with suppress(FileNotFoundError):
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


def _refuse_calls() -> None:
    """A program for the kernel, which decides before every system call: 8 bytes an instruction, jumps are counted on from
    the next one."""
    machine, refused = _CALLS.get(platform.machine(), (None, ()))
    if machine is None:
        return
    steps = [
        (_LOAD_WORD, 0, 0, 4),  # which processor's numbers these are
        (_JUMP_IF_EQUAL, 1, 0, machine),
        (_RETURN, 0, 0, _KILL),
        (_LOAD_WORD, 0, 0, 0),  # the number of the call
        (_JUMP_IF_AT_LEAST, len(refused) + 1, 0, _OTHER_NUMBERS),
        *((_JUMP_IF_EQUAL, len(refused) - at, 0, number) for at, number in enumerate(refused)),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]
    program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    told = struct.pack("@HP", len(steps), ctypes.addressof(program))
    ctypes.CDLL(None).prctl(_SET_FILTER, _FILTER, told, 0, 0)
