"""A filter of the kernel over the system calls that a process may make (seccomp): all that rules over files leave out."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct

_SET_FILTER, _FILTER = 22, 2  # as prctl(2) and seccomp(2) number them
# Calls that are refused, and those that are refused for any process but this one, which their first argument names (0 is
# this one, too): their numbers on either processor.
_NONE = 0x3FFFFFFF  # a processor that has no such call
_REFUSED = {
    "socket": (41, 198),
    # A pair of sockets needs no address, but either of them can then send to any other of this machine that has a path.
    "socketpair": (53, 199),
    "connect": (42, 203),
    "bind": (49, 200),
    "sendto": (44, 206),
    "sendmsg": (46, 211),
    "sendmmsg": (307, 269),
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
    # What rules over files leave out: length (before version 3), mode, owner, times and attributes of its user's files.
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


def refuse_calls() -> None:
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
    # What an instruction is called, if any; what it does; which one is next if so, and which if not (empty: the following).
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
