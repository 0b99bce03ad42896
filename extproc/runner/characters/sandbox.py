"""Confines its own process, for good, and then runs a program in it.

    python sandbox.py PARENT MEMORY PROGRAM [ARGUMENT ...]

What runs here is somebody's code, with our user's rights. It gets so many bytes of memory, can't start processes, send
signals to any or look into them, can't write files, and ends when the parent does. Some of that is the kernel's to
give: `confine` says what it gave. What it doesn't take away: reading what our user may read, and the network.

This is a program of its own, with nothing but the standard library, because it has to start fast, and because all of
this has to be in force before the first line of a character runs.

Sources: prctl(2), seccomp(2), landlock(7), and linux/seccomp.h, linux/bpf_common.h, linux/audit.h and linux/landlock.h.
"""

from __future__ import annotations

import ctypes
import os
import resource
import runpy
import signal
import struct
import sys
import time
from contextlib import suppress

FILES = 32
"""Descriptors that a character's code may have open."""
_FIRST_TO_DIE = "900"
_NICE = 10
"""A tenth of what others get of a processor that is fought for: enough for calls that are honest."""
_TRIES, _PAUSE = 3, 0.05

_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 22, 38

# What ends a process that isn't one's own, starts one, or takes off what confines this one; and what outlives it.
_DENIED: dict[str, tuple[int | None, int | None]] = {
    # name: its number on x86_64, and on aarch64
    "fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "process_mrelease": (448, 448), "kcmp": (312, 272), "perf_event_open": (298, 241),
    "tkill": (200, 130), "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424),
    # To change one's user takes off the wish to die with the parent.
    "setuid": (105, 146), "setgid": (106, 144), "setreuid": (113, 145), "setregid": (114, 143), "setresuid": (117, 147),
    "setresgid": (119, 149), "setfsuid": (122, 151), "setfsgid": (123, 152), "setgroups": (116, 159),
    "setrlimit": (160, 164), "personality": (135, 92), "setpriority": (141, 140), "ioprio_set": (251, 30),
    "sched_setaffinity": (203, 122), "sched_setscheduler": (144, 119), "sched_setparam": (142, 118),
    "sched_setattr": (314, 274), "migrate_pages": (256, 238), "move_pages": (279, 239),
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "chroot": (161, 51), "move_mount": (429, 429), "open_tree": (428, 428), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "bpf": (321, 280), "userfaultfd": (323, 282), "keyctl": (250, 219), "add_key": (248, 217),
    "request_key": (249, 218),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    # Memory that isn't counted, or that stays when the process is gone.
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194), "msgget": (68, 186),
    "semget": (64, 190), "mq_open": (240, 180),
    "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264), "fanotify_init": (300, 262),
    # Landlock knows nothing of modes, owners, times and attributes, nor, before its third version, of a file's length.
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None),
    "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54), "utime": (132, None), "utimes": (235, None),
    "futimesat": (261, None), "utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6),
    "fsetxattr": (190, 7), "setxattrat": (463, 463), "removexattr": (197, 14), "lremovexattr": (198, 15),
    "fremovexattr": (199, 16), "removexattrat": (466, 466), "file_setattr": (469, 469),
    "truncate": (76, 45), "ftruncate": (77, 46),
    "creat": (85, None),
    # Whoever listens may share a port that another process of the same user listens at.
    "listen": (50, 201),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266), "adjtimex": (159, 171),
    "sethostname": (170, 161), "setdomainname": (171, 162), "acct": (163, 89), "quotactl": (179, 60),
    "quotactl_fd": (443, 443), "syslog": (103, 116), "vhangup": (153, 58), "iopl": (172, None), "ioperm": (173, None),
    "modify_ldt": (154, None),
}  # fmt: skip
_ASKED: dict[str, tuple[int, int]] = {
    "clone": (56, 220), "clone3": (435, 435), "kill": (62, 129), "tgkill": (234, 131), "prctl": (157, 167),
    "fcntl": (72, 25), "ioctl": (16, 29), "prlimit64": (302, 261), "socket": (41, 198),
    "socketpair": (53, 199),
}  # fmt: skip
"""Those whose arguments decide."""
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""The column of these tables, and AUDIT_ARCH_*."""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _REFUSE, _UNKNOWN, _KILL = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000
"""SECCOMP_RET_ALLOW, _ERRNO with EPERM and with ENOSYS, and _KILL_PROCESS."""
_NUMBER, _ARCHITECTURE = 0, 4
_CLONE_THREAD, _X32 = 0x00010000, 0x40000000
_COMMANDS = {"fcntl": (8, 10, 15, 1024, 1026, 1031), "ioctl": (0x8901, 0x8902, 0x5412, 0x40086602)}
"""F_SETOWN, F_SETSIG, F_SETOWN_EX; FIOSETOWN, SIOCSPGRP, TIOCSTI: they have the kernel send signals, or type.
F_SETLEASE and F_NOTIFY, by which another's open() waits; F_SETPIPE_SZ, memory that isn't counted; FS_IOC_SETFLAGS."""
_SOCK_STREAM, _SOCK_DGRAM = 1, 2

_Instruction = tuple[int, int, int, int]


def _argument(index: int, *, high: bool = False) -> _Instruction:
    return _LOAD, 0, 0, 16 + 8 * index + 4 * high


def seccomp_filter(machine: str, pid: int) -> bytes | None:
    """The program that the kernel runs at each system call of the process `pid`; None for a machine not known here."""
    if machine not in _ARCHITECTURES:
        return None
    column, architecture = _ARCHITECTURES[machine]
    allow, refuse = (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _REFUSE)
    program: list[_Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, _NUMBER),
    ]  # fmt: skip
    if machine == "x86_64":
        program += [(_AT_LEAST, 0, 1, _X32), refuse]
    for numbers in _DENIED.values():
        if (number := numbers[column]) is not None:
            program += [(_EQUAL, 0, 1, number), refuse]
    itself = [_argument(0), (_EQUAL, 0, 1, pid), allow, refuse]
    asked: dict[str, list[_Instruction]] = {
        "clone": [_argument(0), (_ANY_BIT, 0, 1, _CLONE_THREAD), allow, refuse],
        "clone3": [(_RETURN, 0, 0, _UNKNOWN)],  # its flags lie in memory; the C library falls back to clone
        "kill": itself,
        "tgkill": itself,
        "prctl": [_argument(0), (_EQUAL, 0, 1, _PR_SET_PDEATHSIG), refuse, allow],
        # Of sockets only those of the Internet: by others it would reach the gateway's own.
        "socket": [_argument(0), (_EQUAL, 2, 0, 2), (_EQUAL, 1, 0, 10), refuse, allow],
        # A pair of streams can't send anywhere else; one of datagrams can. Above the kind stand flags.
        "socketpair": [
            _argument(1), (_ANY_BIT, 0, 1, _SOCK_DGRAM), refuse, (_ANY_BIT, 1, 0, _SOCK_STREAM), refuse, allow,
        ],
        # To read a limit sets none: the pointer to the new one is null, in both halves.
        "prlimit64": [
            _argument(2), (_EQUAL, 1, 0, 0), refuse, _argument(2, high=True), (_EQUAL, 1, 0, 0), refuse, allow,
        ],
    }  # fmt: skip
    for name, commands in _COMMANDS.items():
        refused = [step for command in commands for step in ((_EQUAL, 0, 1, command), refuse)]
        asked[name] = [_argument(1), *refused, allow]
    for name, block in asked.items():
        program += [(_EQUAL, 0, len(block), _ASKED[name][column]), *block]
    program.append(allow)
    return b"".join(struct.pack("HBBI", *instruction) for instruction in program)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def _filter_calls(libc: ctypes.CDLL) -> bool:
    program = seccomp_filter(os.uname().machine, os.getpid())
    if program is None:
        return False
    wrapped = _Program(len(program) // 8, program)
    return int(libc.prctl(_PR_SET_SECCOMP, 2, ctypes.byref(wrapped), 0, 0)) == 0


_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446
"""Landlock's system calls, everywhere."""
_WRITE_FILE, _READ_FILE, _REMOVE_AND_MAKE, _TRUNCATE = 1 << 1, 1 << 2, 0x1FF << 4, 1 << 14
_SHUTS_LENGTH = 3
_SIGNAL_SCOPE = 1 << 1
_OF_PROC = ("/proc/self", "/proc/sys", "/proc/cpuinfo", "/proc/meminfo")


def _shut_files(libc: ctypes.CDLL) -> bool:
    """No file can be written, made or removed, /dev/null apart, and nothing of other processes can be read: neither
    their memory nor their environment, which may hold keys."""
    version = libc.syscall(_CREATE, None, 0, 1)
    if version < 1:
        return False
    shut = _WRITE_FILE | _READ_FILE | _REMOVE_AND_MAKE | (_TRUNCATE if version >= _SHUTS_LENGTH else 0)
    attributes = struct.pack("QQQ", shut, 0, _SIGNAL_SCOPE if version >= 6 else 0)
    ruleset = libc.syscall(_CREATE, attributes, 24 if version >= 6 else 8, 0)
    if ruleset < 0:
        return False
    readable = [f"/{name}" for name in os.listdir("/") if name not in ("proc", "dev")]
    readable += [f"/dev/{name}" for name in ("null", "zero", "random", "urandom")]
    for path, rights in [(os.devnull, _WRITE_FILE), *((path, _READ_FILE) for path in (*readable, *_OF_PROC))]:
        with suppress(OSError):
            place = os.open(path, os.O_PATH)
            libc.syscall(_ADD_RULE, ruleset, 1, struct.pack("=Qi", rights, place), 0)
            os.close(place)
    is_shut = int(libc.syscall(_RESTRICT, ruleset, 0)) == 0
    os.close(ruleset)
    return is_shut and version >= _SHUTS_LENGTH  # before, an existing file could be emptied


def _limit(memory: int) -> None:
    for kind, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, FILES),
    ):
        with suppress(ValueError, OSError):  # not every system knows each of them, or it is lower already
            resource.setrlimit(kind, (most, most))


def _stand_back() -> None:
    """Let all else have the processor first. A session is a group of its own where the kernel groups by sessions."""
    os.nice(_NICE)
    for _ in range(_TRIES):
        try:
            with open("/proc/self/autogroup", "w") as file:
                file.write(str(_NICE))
        except BlockingIOError:  # it takes ten of these a second from users other than root
            time.sleep(_PAUSE)
        except OSError:
            return
        else:
            return


def confine(parent: int, memory: int) -> str:
    """Returns what isn't in force, empty where all is. Ends the process when the parent has ended."""
    # Where memory is short, the kernel shall take this process before all others.
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(_FIRST_TO_DIE)
    _stand_back()
    _limit(memory)
    missing = ["seccomp", "landlock"]
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        with suppress(OSError):
            if _shut_files(libc):
                missing.remove("landlock")
        if _filter_calls(libc):
            missing.remove("seccomp")
    if os.getppid() != parent:
        os._exit(0)  # it ended before the kernel knew
    if "seccomp" in missing:
        with suppress(ValueError, OSError):  # no processes then, and no threads either
            resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    return ", ".join(missing)


if __name__ == "__main__":
    _parent, _memory, _program, *_arguments = sys.argv[1:]
    _missing = confine(int(_parent), int(_memory))
    sys.argv = [_program, _missing, *_arguments]
    runpy.run_path(_program, run_name="__main__")
