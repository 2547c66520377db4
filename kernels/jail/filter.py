"""Filters of system calls: programs for seccomp.

refusing()   for a command under bubblewrap. The namespaces hide files, network and processes. The filter takes the
             rest: memory outside the limits, memory of other processes, and the administration of the system
refusing_with_gpu()   for a process with CUDA, which may start threads and call its devices
allowing()   for a process that computes, takes memory, and reads and writes open files: a function (in_place.py), or a
             stranger's library (runner.cpp), which has no call with a path
"""

import platform
import struct

# BPF: load a word, jump if equal, jump if >=, jump if it has one of the bits, return
_LOAD, _EQUAL, _ABOVE, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _REFUSE, _TRAP = 0x7FFF0000, 0x80000000, 0x00050000, 0x00030000
_EPERM, _ENOSYS = 1, 38
_X32 = 0x40000000  # x86-64's second table of calls
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CLONE3 = 435  # glibc tries clone after ENOSYS
# name -> its numbers on x86-64 and 64-bit Arm, or None without the call
_CALLS: dict[str, tuple[int | None, int | None]] = {
    **{"ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272)},
    **{"mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51)},
    **{"unshare": (272, 97), "setns": (308, 268), "personality": (135, 92), "bpf": (321, 280)},
    **{"perf_event_open": (298, 241), "userfaultfd": (323, 282), "keyctl": (250, 219), "add_key": (248, 217)},
    **{"request_key": (249, 218), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426)},
    **{"io_uring_register": (427, 427), "memfd_create": (319, 279), "memfd_secret": (447, 447)},
    **{"shmget": (29, 194), "shmat": (30, 196), "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180)},
    **{"socket": (41, 198), "socketpair": (53, 199), "name_to_handle_at": (303, 264)},
    **{"open_by_handle_at": (304, 265), "fanotify_init": (300, 262), "inotify_init": (253, None)},
    **{"inotify_init1": (294, 26), "acct": (163, 89), "swapon": (167, 224), "reboot": (169, 142)},
    **{"quotactl": (179, 60), "kexec_load": (246, 104), "init_module": (175, 105), "finit_module": (313, 273)},
    **{"delete_module": (176, 106), "syslog": (103, 116), "pidfd_getfd": (438, 438), "move_mount": (429, 429)},
    **{"open_tree": (428, 428), "fsopen": (430, 430), "mount_setattr": (442, 442)},
}
_COMPUTING: dict[str, tuple[int | None, int | None]] = {
    **{"read": (0, 63), "write": (1, 64), "close": (3, 57), "fstat": (5, 80), "lseek": (8, 62), "pread64": (17, 67)},
    **{"readv": (19, 65), "writev": (20, 66)},
    **{"mmap": (9, 222), "mprotect": (10, 226), "munmap": (11, 215), "brk": (12, 214), "mremap": (25, 216)},
    **{"madvise": (28, 233), "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139)},
    **{"sigaltstack": (131, 132), "getitimer": (36, 102), "setitimer": (38, 103), "restart_syscall": (219, 128)},
    **{"sched_yield": (24, 124), "nanosleep": (35, 101), "clock_nanosleep": (230, 115), "gettimeofday": (96, 169)},
    **{"clock_gettime": (228, 113), "clock_getres": (229, 114), "getrusage": (98, 165), "times": (100, 153)},
    **{"getuid": (102, 174), "getcpu": (309, 168)},
    **{"futex": (202, 98), "set_robust_list": (273, 99), "rseq": (334, 293), "getrandom": (318, 278)},
    **{"exit": (60, 93), "exit_group": (231, 94)},
}
_OPENING: dict[str, tuple[int | None, int | None]] = {
    **{"open": (2, None), "openat": (257, 56), "newfstatat": (262, 79)},
}
_ASKING: dict[str, tuple[int | None, int | None]] = {
    "stat": (4, None),  # NVRTC asks so whether a header is a file
    **{"getpid": (39, 172), "gettid": (186, 178)},
}
_OUTSIDE: dict[str, tuple[int | None, int | None]] = {
    **{"execve": (59, 221), "execveat": (322, 281), "fork": (57, None), "vfork": (58, None), "kill": (62, 129)},
    **{"tkill": (200, 130), "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240)},
    **{"pidfd_send_signal": (424, 424), "connect": (42, 203), "bind": (49, 200)},
    **{"setsid": (112, 157), "setpgid": (109, 154), "setrlimit": (160, None)},
    # Landlock does not guard the metadata of a file:
    **{"chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452)},
    **{"chown": (92, None), "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54)},
    **{"utime": (132, None), "utimes": (235, None), "futimesat": (261, None), "utimensat": (280, 88)},
    **{"setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "setxattrat": (463, 463)},
    **{"removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16)},
    **{"removexattrat": (466, 466), "file_setattr": (469, 469)},
}
# A call -> its commands that reach others: the signals and the owner of a descriptor, leases, flags of a file.
_COMMANDS: dict[tuple[int | None, int | None], tuple[int, ...]] = {
    (72, 25): (8, 10, 15, 1024, 1026),  # fcntl: F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE, F_NOTIFY
    # ioctl: FIOSETOWN, SIOCSPGRP, TIOCSTI, TIOCLINUX, FS_IOC_SETFLAGS, FS_IOC32_SETFLAGS, FS_IOC_FSSETXATTR
    (16, 29): (0x8901, 0x8902, 0x5412, 0x541C, 0x40086602, 0x40046602, 0x401C5820),
}
_THREAD = 0x00010000  # CLONE_THREAD
_TGKILL: tuple[int | None, int | None] = (234, 131)
_FORKS: dict[str, tuple[int | None, int | None]] = {"clone": (56, 220), "fork": (57, None), "vfork": (58, None)}


def supported() -> bool:
    """Whether the table has this processor's calls."""
    return platform.machine() in _ARCHITECTURES


def refusing(forks: bool) -> bytes:
    """The filter that refuses some calls. forks: whether it lets a process start others, or threads."""
    code = _head()
    if not forks:
        code += [_instruction(_EQUAL, _CLONE3, 0, 1), _instruction(_RETURN, _REFUSE | _ENOSYS)]
    for number in numbers(_CALLS if forks else {**_CALLS, **_FORKS}):
        code += [_instruction(_EQUAL, number, 0, 1), _instruction(_RETURN, _REFUSE | _EPERM)]
    code += _commands()
    return b"".join([*code, _instruction(_RETURN, _ALLOW)])


def refusing_with_gpu(pid: int) -> bytes:
    """The filter for a process with CUDA: no program, no process, no signal to others, no network, no change of files.

    pid: the process that may get its signals, itself."""
    code = [*_head(), _instruction(_EQUAL, _CLONE3, 0, 1), _instruction(_RETURN, _REFUSE | _ENOSYS)]
    for number in numbers({**_CALLS, **_OUTSIDE}):
        code += [_instruction(_EQUAL, number, 0, 1), _instruction(_RETURN, _REFUSE | _EPERM)]
    code += _commands()
    firsts = (((302, 261), _EQUAL, 0), (_TGKILL, _EQUAL, pid), (_FORKS["clone"], _ANY_BIT, _THREAD))  # prlimit64 first
    for call, test, value in firsts:  # each call with only this first argument: a process, or flags
        code += [_instruction(_EQUAL, numbers({"": call})[0], 0, 4), _instruction(_LOAD, 16)]  # seccomp_data.args[0]
        code += [_instruction(test, value, 1, 0), _instruction(_RETURN, _REFUSE | _EPERM), _instruction(_LOAD, 0)]
    return b"".join([*code, _instruction(_RETURN, _ALLOW)])


def allowing(pid: int | None) -> bytes:
    """The filter that allows few calls.

    pid: the process, which may open files and signal itself. None: no path reaches the system, and those calls are a
        SIGSYS. It sends no signal, so it cannot stop itself."""
    code = _head()
    for number in numbers({**_COMPUTING, **_OPENING, **_ASKING} if pid else _COMPUTING):
        code += [_instruction(_EQUAL, number, 0, 1), _instruction(_RETURN, _ALLOW)]
    for number in [] if pid else numbers(_OPENING):
        code += [_instruction(_EQUAL, number, 0, 1), _instruction(_RETURN, _TRAP)]
    if pid:
        (signals,) = numbers({"tgkill": _TGKILL})
        code += [_instruction(_EQUAL, signals, 0, 3), _instruction(_LOAD, 16)]  # seccomp_data.args[0]
        code += [_instruction(_EQUAL, pid, 0, 1), _instruction(_RETURN, _ALLOW)]
    return b"".join([*code, _instruction(_RETURN, _REFUSE | _EPERM)])


def _commands() -> list[bytes]:
    """Refuses the calls with these commands, their second argument."""
    code = []
    for call, commands in _COMMANDS.items():
        (number,) = numbers({"": call})
        code += [
            _instruction(_EQUAL, number, 0, 2 + 2 * len(commands)),
            _instruction(_LOAD, 24),
        ]  # seccomp_data.args[1]
        for command in commands:
            code += [_instruction(_EQUAL, command, 0, 1), _instruction(_RETURN, _REFUSE | _EPERM)]
        code.append(_instruction(_LOAD, 0))
    return code


def _head() -> list[bytes]:
    """Kills a process with the calls of another processor, and loads the number of the call."""
    return [
        _instruction(_LOAD, 4),  # seccomp_data.arch
        _instruction(_EQUAL, _ARCHITECTURES[platform.machine()], 1, 0),
        _instruction(_RETURN, _KILL),
        _instruction(_LOAD, 0),  # seccomp_data.nr
        _instruction(_ABOVE, _X32, 0, 1),
        _instruction(_RETURN, _KILL),
    ]


def numbers(calls: dict[str, tuple[int | None, int | None]]) -> list[int]:
    column = list(_ARCHITECTURES).index(platform.machine())
    return [numbers[column] for numbers in calls.values() if numbers[column] is not None]  # type: ignore[misc]


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
