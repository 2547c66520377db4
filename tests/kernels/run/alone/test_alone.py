"""The process of a stranger's launches on the GPU, with a made-up CuPy in the place of the real one."""

import mmap
import os
import pickle
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kernels import catalog
from kernels.build import Build, Mode
from kernels.core.cases import sample
from kernels.core.launch import Plan
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import ProblemError, RunError, RunTimeout
from kernels.jail import in_place
from kernels.run import execute
from kernels.run.backends import gpu
from kernels.run.backends.alone import guest as guest_process
from kernels.run.backends.alone import parent, walls
from kernels.trace.probes import RECORD
from kernels.trace.trace import RawRecords

ROOT = Path(__file__).parents[4]
pytestmark = pytest.mark.skipif(bool(in_place.why_none()), reason=in_place.why_none())
FAKE = """
import os, sys, tempfile, threading, time
tempfile.gettempdir()  # as the real one
class runtime:
    def free(pointer): {free}
    def deviceGetAttribute(which, device): return {attribute}
    def deviceSetLimit(which, value): pass
    def deviceSynchronize(): pass
class cuda: runtime = runtime
"""


BEFORE = """
import ctypes, errno, fcntl, os, resource, signal, socket, threading
from pathlib import Path
from kernels.jail import in_place
from kernels.run.backends.alone import walls
"""


def walled(tmp_path):
    """The walls of a guest, which reads one folder. What follows is behind them."""
    return f"walls.hide_files([Path({str(tmp_path / 'shown')!r})])\nwalls.refuse_calls()\n"


def output(code):
    done = subprocess.run([sys.executable, "-c", BEFORE + code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert not done.returncode, done.stderr
    return done.stdout.split()


THREATS = """
def tried(what):
    try:
        what()
        print('reached', flush=True)
    except OSError:
        print('held')
def thread_signal(pid, number):
    if ctypes.CDLL(None).tgkill(pid, pid, number):
        raise OSError
def flags():
    for command in (0x40086602, 0x40046602, 0x401C5820):  # FS_IOC_SETFLAGS, its 32 bits, FS_IOC_FSSETXATTR
        try:
            return fcntl.ioctl(pipe, command, bytes(32))
        except OSError as error:
            if error.errno != errno.EPERM:
                return
    raise OSError
pipe = os.pipe()[0]
tried(lambda: fcntl.fcntl(pipe, fcntl.F_SETOWN, {pid}))
tried(lambda: fcntl.fcntl(pipe, fcntl.F_SETSIG, 9))
tried(flags)
tried(lambda: open({secret!r}).read())
tried(lambda: open('/etc/passwd').read())
tried(lambda: os.listdir({folder!r}))
tried(lambda: os.chmod({secret!r}, 0o600))
tried(lambda: os.utime({secret!r}))
tried(lambda: open({secret!r}, 'a'))
tried(lambda: open({folder!r} + '/mine', 'w'))
tried(lambda: open({folder!r} + '/shown/mine', 'w'))
tried(lambda: open('/proc/{pid}/environ').read())
tried(lambda: os.kill({pid}, {signal}))
tried(lambda: thread_signal({pid}, {signal}))
tried(lambda: thread_signal(os.getppid(), 0))
tried(lambda: os.fork() or os._exit(0))
tried(lambda: socket.socket())
tried(lambda: os.setsid())
tried(lambda: os.execv('/bin/true', ['true']))
"""
OLD_LANDLOCK = "in_place._landlock = lambda: 1\n"  # without a scope for signals, for example
NO_WALLS = "without walls"


@pytest.mark.parametrize("machine", ["", OLD_LANDLOCK, NO_WALLS], ids=["new", "old", "without"])
def test_a_guest_reads_no_file_starts_nothing_and_reaches_nobody(tmp_path, machine):
    """Without walls, the same code reaches all of it."""
    (tmp_path / "shown").mkdir()
    (tmp_path / "secret").write_text("a-secret-word")
    neighbour = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        words = {"secret": str(tmp_path / "secret"), "folder": str(tmp_path), "pid": neighbour.pid}
        if machine == NO_WALLS:
            assert set(output(THREATS.format(**words, signal=0))) == {"reached"}
        else:
            threats = THREATS.format(**words, signal=int(signal.SIGKILL))
            assert set(output(machine + walled(tmp_path) + threats)) == {"held"}
        assert neighbour.poll() is None and (tmp_path / "secret").read_text() == "a-secret-word"
    finally:
        neighbour.kill()
        neighbour.wait()


def test_a_guest_computes_without_a_capability_and_writes_no_byte(tmp_path):
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown" / "kernel.cubin").write_text("the-build")
    code = "import numpy\nthread = threading.Thread(target=lambda: print('ran'))\nthread.start()\nthread.join()\n"
    code += f"print(open({str(tmp_path / 'shown' / 'kernel.cubin')!r}).read())\nopen('/dev/null', 'w').write('x')\n"
    code += "signal.raise_signal(signal.SIGCHLD)"
    assert output(walled(tmp_path) + code) == ["ran", "the-build"]
    code = "print(*resource.getrlimit(resource.RLIMIT_FSIZE), *resource.getrlimit(resource.RLIMIT_CORE))\n"
    code += "print(*[line.split()[1] for line in open('/proc/self/status') if line.startswith(('CapPrm', 'CapEff'))])"
    assert set("".join(output(walled(tmp_path) + code))) == {"0"}


def test_the_preloaded_library_sets_the_flags_of_unified_memory_and_of_nothing_else():
    code = (
        "import ctypes, struct, os\n"
        "libc = ctypes.CDLL(None)\n"
        "nowhere = os.open('/dev/null', os.O_RDWR)\n"
        "for request in (0x30000001, 0x30000002):\n"
        "    block = ctypes.create_string_buffer(struct.pack('=QI', 2, 0), 16)\n"
        "    libc.ioctl(nowhere, ctypes.c_ulong(request), block)\n"
        "    print(struct.unpack_from('=Q', block)[0])\n"
    )
    own = {**os.environ, "LD_PRELOAD": str(walls.preloaded()), "WARPGLASS_UVM_FLAGS": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=own)
    assert done.stdout.split() == ["3", "2"], done.stderr


@pytest.mark.parametrize(
    ("version", "flags"),
    [("NVRM version: NVIDIA UNIX Open Kernel Module  580.159.04  Release", 1), ("x  610.43.02  Release", 5), ("", 1)],
)
def test_the_flags_follow_the_driver(monkeypatch, version, flags):
    monkeypatch.setattr(Path, "read_text", lambda self: version)
    assert walls.uvm_flags() == flags


@pytest.fixture
def guest(tmp_path, monkeypatch):
    """guest(what its start of CUDA does, its answer to HMM) asks a guest with a made-up CuPy."""

    def ask(free, attribute=0, seconds=20.0):
        (tmp_path / "site").mkdir(exist_ok=True)
        (tmp_path / "site" / "cupy.py").write_text(FAKE.format(free=free, attribute=attribute))
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
        monkeypatch.setattr(parent, "SECONDS", seconds)
        path = tmp_path / "build"
        path.mkdir(exist_ok=True)
        built = Build("mine", Mode.TIMED, "sm_90a", path / "mine.cubin", "", "", (), True)
        return parent.launch(built, Plan((), ()), {}, None)

    return ask


def test_a_guest_behind_its_walls_answers_and_one_that_dies_or_reads_too_much_is_an_error(guest):
    assert guest("pass") == []
    with pytest.raises(ProblemError, match="read the host's memory.*uvm_disable_hmm=1"):
        guest("pass", attribute=1)
    with pytest.raises(RunError, match="without an answer .by signal 9"):
        guest("os.kill(os.getpid(), 9)")
    with pytest.raises(ProblemError, match="PermissionError"):
        guest("os.ftruncate(int(sys.argv[2]), 0)")


def test_an_endless_guest_ends_at_its_limit_with_its_threads(guest, monkeypatch):
    ended, kill = [], os.killpg
    monkeypatch.setattr(os, "killpg", lambda group, number: (ended.append(group), kill(group, number)))
    with pytest.raises(RunTimeout, match="ran past its limit of 2 s on the GPU"):
        guest("threading.Thread(target=time.sleep, args=(600,)).start(); time.sleep(600)", seconds=2.0)
    with pytest.raises(ProcessLookupError):
        kill(ended[0], 0)


def test_a_guest_that_does_not_start_leaves_no_descriptor(guest, monkeypatch):
    before = os.listdir("/proc/self/fd")
    monkeypatch.setattr(sys, "executable", "/nonexistent")
    with pytest.raises(OSError, match="/nonexistent"):
        guest("pass")
    assert os.listdir("/proc/self/fd") == before


def test_arrays_records_and_times_come_back_from_the_shared_memory(monkeypatch):
    kernel = catalog.KERNELS["03_flash"]
    shown = sample(kernel)
    request = Request(kernel, shown.problem, tuple(kernel.settings(shown.settings).items()), Scope(), "gpu")
    made, plan, arrays = execute.prepare(replace(request, backend="cpu"), Mode.TIMED)
    given = {name: array.copy() for name, array in arrays.items()}

    def launched(build, plan, held, scope, capacities):
        assert not build.jailed and all(held[name].tobytes() == given[name].tobytes() for name in held)
        for tensor in plan.written:
            held[tensor.name][...] = 5
        first, blocks = scope.blocks(plan.launches[0], plan)
        count = blocks * plan.launches[0].threads
        records = np.zeros((count, 3), RECORD)
        records["site"] = 9
        return [RawRecords(0, first, plan.launches[0].threads, records, np.full(count, 2, np.uint32))]

    def talk(task, shared, seconds):
        return guest_process._launched(pickle.loads(pickle.dumps(task)), mmap.mmap(shared, task.bytes)), 0, False

    monkeypatch.setattr(parent, "talk", talk)
    monkeypatch.setattr(gpu, "launch", launched)
    monkeypatch.setattr(gpu, "launch_repeatedly", lambda *of: [1.5] * of[-1])
    (raw,) = parent.launch(replace(made, jailed=True), plan, arrays, request.scope, [3])
    assert all((arrays[tensor.name] == 5).all() for tensor in plan.written)
    assert (raw.records["site"] == 9).all() and (raw.counts == 2).all() and raw.records.shape[1] == 3
    assert parent.launch_repeatedly(replace(made, jailed=True), plan, arrays, 4) == [1.5] * 4


def test_cupy_is_imported_behind_the_walls_without_a_file_of_its_own():
    """Its import looks for a temporary folder and a library, and makes its cache's folder."""
    code = "import ctypes.util, tempfile\n"
    code += "from kernels.run.backends.alone import guest, walls\n"
    code += "guest.find_nothing()\nwalls.hide_files([])\nimport cupy\nprint('imported')"
    environment = {**parent._environment(), "LD_PRELOAD": ""}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60, env=environment
    )
    assert done.stdout.split() == ["imported"], done.stderr
