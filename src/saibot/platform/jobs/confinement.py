"""What a worker gives up before it looks at anything that strangers sent: other people's files, the network, other programs,
and processes that would be there after it.

Linux alone has this: Landlock (5.19 and newer) for files and other processes, a filter of system calls for the rest. Where
either is missing the other one holds, and elsewhere a worker has what its user has. Both bind the thread that asks, and
those it starts later: `confine` comes before the first thread.
"""

from __future__ import annotations

import ctypes
import errno
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
_OVER_FILES = 0b11110  # CAP_DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER and FSETID, as capabilities(7) has them

# Rights as landlock(7) numbers them: those of a file, those to look, and by version of the interface all there are.
_EXECUTE, _WRITE, _READ, _LIST = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _IOCTL = 1 << 14, 1 << 15
_OF_A_FILE = _EXECUTE | _WRITE | _READ | _TRUNCATE | _IOCTL
_RIGHTS = {2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
_LOOK = _EXECUTE | _READ | _LIST
_CHANGE = ((1 << 15) - 1) & ~(
    _EXECUTE | (1 << 6) | (1 << 9) | (1 << 10) | (1 << 11) | (1 << 12)
)  # no devices, sockets, links

# Calls that are refused, and those that are refused for any process but this one, which their first argument names (0 is
# this one, too): their numbers on either processor.
_NONE = 0x3FFFFFFF  # a processor that has no such call
_REFUSED = {
    "socket": (41, 198),
    "fork": (57, _NONE),
    "vfork": (58, _NONE),
    "execve": (59, 221),
    "execveat": (322, 281),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424),
    "process_madvise": (440, 440),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "setns": (308, 268),
    "unshare": (272, 97),
    "mount": (165, 40),
    "move_mount": (429, 429),
    "chroot": (161, 51),
    "pivot_root": (155, 41),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "open_by_handle_at": (304, 265),
    # A signal to one's own group needs no number of a process: it stays the group that this process is alone in.
    "setpgid": (109, 154),
    "setsid": (112, 157),
    # What rules over files leave out: the length (before version 3), mode, owner, times and attributes of all files of its user.
    "truncate": (76, 45),
    "chmod": (90, _NONE),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, _NONE),
    "lchown": (94, _NONE),
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "utime": (132, _NONE),
    "utimes": (235, _NONE),
    "futimesat": (261, _NONE),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
    # Memory and messages that other processes of its user share by number.
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "semctl": (66, 191),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
}
_REFUSED_FOR_OTHERS = {
    "prlimit64": (302, 261),
    "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "kill": (62, 129),
    "tgkill": (234, 131),
    "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
}
# A thread is made by the same calls as a process, which would outlive this one. What the older call is to make stands in its
# first argument; the newer one has it in memory, where a filter does not see it, and libraries do without.
_CLONE, _CLONE_3, _AS_A_THREAD = (56, 220), (435, 435), 0x00010000
# Whoever opens a file to read may empty it with the same call, before version 3 of the rules.
_OPEN, _OPEN_AT, _OPEN_AT_2 = (2, _NONE), (257, 56), (437, 437)
_HOW, _EMPTIED = 0o3 | os.O_TRUNC, (os.O_TRUNC | 0o0, os.O_TRUNC | 0o3)
# A file or pipe may send signals to whoever it is told belongs to it.
_FCNTL, _TO_WHOM = (72, 25), (8, 10, 15)
_IOCTL_CALL, _TO_WHOM_BY_DEVICE = (16, 29), (0x8901, 0x8902)
_PROCESSORS = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # which of the numbers, and how the kernel calls it
_LOAD_WORD, _JUMP_IF_EQUAL, _JUMP_IF_AT_LEAST, _JUMP_IF_HAS, _KEEP_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
# Where the kernel says so, in bytes; both processors' low word comes first.
_CALL, _PROCESSOR, _FIRST_ARGUMENT, _SECOND_ARGUMENT, _THIRD_ARGUMENT = 0, 4, 16, 24, 32
_KILL, _ALLOW = 0x80000000, 0x7FFF0000
_REFUSE, _UNKNOWN = 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
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


def confine(*, looks_at: Iterable[str], changes: Iterable[str]) -> list[str]:
    """From now on this process sees those paths and what Python is made of, and changes the latter ones; it starts no
    program and no other process, opens no connection, and touches no process that is not confined with it. What of it the system does not do."""
    give_up_privileges()
    lacking = []
    for what, work in (
        ("powers", _drop_powers),
        ("files", lambda: _keep_to_files(_code(), looks_at, changes)),
        ("calls", _refuse_calls),
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


def _keep_to_files(code: Iterable[str], looks_at: Iterable[str], changes: Iterable[str]) -> None:
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


def _refuse_calls() -> None:
    if platform.machine() not in _PROCESSORS:
        raise OSError("an unknown processor")
    program = _filter(os.getpid(), *_PROCESSORS[platform.machine()])
    held = ctypes.create_string_buffer(program)
    told = struct.pack("@HP", len(program) // 8, ctypes.addressof(held))
    if ctypes.CDLL(None).prctl(_SET_FILTER, _FILTER, told, 0, 0):
        raise OSError("no filter of calls")


def _filter(this_process: int, which: int, processor: int) -> bytes:
    """A program for the kernel, which decides before every system call: 8 bytes an instruction, jumps are counted on from
    the next one."""
    refused = [numbers[which] for numbers in _REFUSED.values()]
    others = [numbers[which] for numbers in _REFUSED_FOR_OTHERS.values()]
    # What an instruction is called, if any; what it does; and which one is next if so, and if not: the following one if empty.
    steps = [
        ("", _LOAD_WORD, _PROCESSOR, "", ""),  # which processor's numbers these are
        ("", _JUMP_IF_EQUAL, processor, "", "kill"),
        ("", _LOAD_WORD, _CALL, "", ""),
        ("", _JUMP_IF_AT_LEAST, _OTHER_NUMBERS, "refuse", ""),
        *(("", _JUMP_IF_EQUAL, number, "refuse", "") for number in refused),
        *(("", _JUMP_IF_EQUAL, number, "of which process", "") for number in others),
        ("", _JUMP_IF_EQUAL, _CLONE[which], "what to make", ""),
        ("", _JUMP_IF_EQUAL, _OPEN[which], "how to open", ""),
        ("", _JUMP_IF_EQUAL, _OPEN_AT[which], "how to open there", ""),
        ("", _JUMP_IF_EQUAL, _FCNTL[which], "to whom", ""),
        ("", _JUMP_IF_EQUAL, _IOCTL_CALL[which], "to whom", ""),
        ("", _JUMP_IF_EQUAL, _OPEN_AT_2[which], "unknown", ""),
        ("", _JUMP_IF_EQUAL, _CLONE_3[which], "unknown", "allow"),
        ("of which process", _LOAD_WORD, _FIRST_ARGUMENT, "", ""),
        ("", _JUMP_IF_EQUAL, 0, "allow", ""),
        ("", _JUMP_IF_EQUAL, this_process, "allow", "refuse"),
        ("what to make", _LOAD_WORD, _FIRST_ARGUMENT, "", ""),
        ("", _JUMP_IF_HAS, _AS_A_THREAD, "allow", "refuse"),
        ("how to open", _LOAD_WORD, _SECOND_ARGUMENT, "", ""),
        ("", _JUMP_IF_AT_LEAST, 0, "whether to empty", ""),
        ("how to open there", _LOAD_WORD, _THIRD_ARGUMENT, "", ""),
        ("whether to empty", _KEEP_BITS, _HOW, "", ""),
        *(("", _JUMP_IF_EQUAL, how, "refuse", "") for how in _EMPTIED),
        ("", _JUMP_IF_AT_LEAST, 0, "allow", ""),
        ("to whom", _LOAD_WORD, _SECOND_ARGUMENT, "", ""),
        *(("", _JUMP_IF_EQUAL, what, "refuse", "") for what in (*_TO_WHOM, *_TO_WHOM_BY_DEVICE)),
        ("allow", _RETURN, _ALLOW, "", ""),
        ("refuse", _RETURN, _REFUSE, "", ""),
        ("unknown", _RETURN, _UNKNOWN, "", ""),
        ("kill", _RETURN, _KILL, "", ""),
    ]
    places = {name: place for place, (name, *_) in enumerate(steps)}
    program = b""
    for place, (_, operation, value, if_so, if_not) in enumerate(steps):
        so, otherwise = (places[name] - place - 1 if name else 0 for name in (if_so, if_not))
        program += struct.pack("=HBBI", operation, so, otherwise, value)
    return program
