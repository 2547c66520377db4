"""The engine sandlock: Landlock for files, network and signals, and seccomp for processes and memory.

sandlock forks and watches its command, so it gets a process of its own: this file, run as a script. It needs no
namespaces and works where these are forbidden, as in many containers.
"""

import json
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernels.jail.talk import Limits, Result

NAME = "sandlock"
_DEVICES = ("/dev/null", "/dev/urandom")
_SET_SECUREBITS, _NO_POWERS = 28, 0x2F  # prctl: root's programs start without root's powers, for good
_FORKS = 64  # processes at once, of a command that may start some


def missing() -> str:
    return "" if find_spec("sandlock") else "it is not installed (pip install sandlock)"


def run(
    command: Sequence[str],
    reads: Sequence[Path],
    stdin: bytes | memoryview,
    limits: "Limits",
    environment: dict[str, str],
    writes: bool,
) -> "Result":
    from kernels.jail import talk

    found = find_spec("sandlock")
    with tempfile.TemporaryDirectory(prefix="jail-") as folder:
        policy = {
            "package": str(Path(found.origin).parents[1]) if found and found.origin else "",
            "command": list(command),
            "box": {
                "fs_readable": [str(read) for read in reads if read.exists()],
                "fs_writable": [path for path in (*_DEVICES, *([folder] if writes else [])) if Path(path).exists()],
                "cwd": folder if writes else "/",
                "clean_env": True,
                "env": environment,
                "max_memory": limits.memory_bytes,
                "max_processes": _FORKS if limits.forks else 1,
                "no_coredump": True,
            },
        }
        own = [sys.executable, "-I", "-S", "-B", __file__, json.dumps(policy)]
        return talk.run(own, stdin, limits, {})


def _inside(policy: dict[str, object]) -> int:
    """The script: confines and runs the command. Returns its exit code, or 128 + N after signal N."""
    import ctypes

    sys.path.append(str(policy["package"]))
    from sandlock import Sandbox

    ctypes.CDLL(None).prctl(_SET_SECUREBITS, _NO_POWERS, 0, 0, 0)  # only root can, and only root needs it
    box, command = policy["box"], policy["command"]
    assert isinstance(box, dict) and isinstance(command, list)
    code = Sandbox(**box).run_interactive(command)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(_inside(json.loads(sys.argv[1])))
