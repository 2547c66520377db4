"""The system calls that the jail refuses under bubblewrap: a program for seccomp, in the form of --seccomp.

The namespaces hide files, network and processes. The filter takes what is left: memory outside the limits (shared
segments, anonymous files), other processes' memory, and parts of the kernel that only administration needs.
"""

import platform
import struct

_LOAD, _EQUAL, _ABOVE, _RETURN = 0x20, 0x15, 0x35, 0x06  # BPF: load a word, jump if equal, jump if >=, return
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS = 1, 38
_X32 = 0x40000000  # x86-64's second table of calls
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CLONE3 = 435  # glibc tries clone after ENOSYS
# name -> its numbers on x86-64 and 64-bit Arm, None where the call is missing
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
_FORKS: dict[str, tuple[int | None, int | None]] = {"clone": (56, 220), "fork": (57, None), "vfork": (58, None)}


def supported() -> bool:
    """Whether the table has this processor's calls."""
    return platform.machine() in _ARCHITECTURES


def program(forks: bool) -> bytes:
    """The filter of this processor. forks: whether it lets a process start others, or threads."""
    column = list(_ARCHITECTURES).index(platform.machine())
    refused = _CALLS if forks else {**_CALLS, **_FORKS}
    numbers = [number[column] for number in refused.values()]
    code = [
        _instruction(_LOAD, 4),  # seccomp_data.arch
        _instruction(_EQUAL, _ARCHITECTURES[platform.machine()], 1, 0),
        _instruction(_RETURN, _KILL),
        _instruction(_LOAD, 0),  # seccomp_data.nr
        _instruction(_ABOVE, _X32, 0, 1),
        _instruction(_RETURN, _KILL),
    ]
    if not forks:
        code += [_instruction(_EQUAL, _CLONE3, 0, 1), _instruction(_RETURN, _REFUSE | _ENOSYS)]
    for number in numbers:
        if number is not None:
            code += [_instruction(_EQUAL, number, 0, 1), _instruction(_RETURN, _REFUSE | _EPERM)]
    return b"".join([*code, _instruction(_RETURN, _ALLOW)])


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
