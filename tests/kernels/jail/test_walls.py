"""Each threat of a stranger's native code: a wall holds it, and everybody else stays unharmed."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from waiting import command_of

from kernels.build import child, cpp_compiler
from kernels.jail import Limits, confine

HERE = Path(__file__).parent
LIMITS = Limits(seconds=20, memory_bytes=2**30, file_bytes=0, output_bytes=2**16, forks=False)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("threats") / "threats"
    command = [*cpp_compiler(), "-std=c++17", "-w", str(HERE / "threats.cpp"), "-o", str(path)]
    subprocess.run(command, check=True, timeout=120)
    return path


@pytest.fixture
def neighbour():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    assert process.poll() is None
    process.kill()
    process.wait()


@pytest.fixture
def jailed(engine, program):
    reads = [program, *child.libraries(program)]

    def run(threat, target="", limits=LIMITS):
        return confine([str(program), threat, str(target)], reads=reads, limits=limits)

    return run


def outside(program, threat, target="", **options):
    done = subprocess.run([program, threat, str(target)], capture_output=True, timeout=20, check=False, **options)
    return done.stdout


def test_it_reads_and_lists_no_file_of_the_server(jailed, program, tmp_path):
    (tmp_path / "secret").write_text("a secret")
    assert outside(program, "reads", tmp_path / "secret") == b"reached\n"
    for path in (
        tmp_path / "secret",
        "/etc/passwd",
        "/etc/shadow",
        f"/proc/{os.getpid()}/environ",
        "/proc/1/maps",
        "/dev/zero",
    ):
        assert jailed("reads", path).output == b"held\n", path
    for path in (tmp_path, "/etc", "/root", "/home", "/proc", Path.cwd()):
        assert jailed("lists", path).output == b"held\n", path


def test_it_writes_no_file_and_starts_no_program(jailed, program, tmp_path):
    assert outside(program, "writes", tmp_path / "written") == b"reached\n"
    for path in (tmp_path / "mine", "/tmp/warpglass-mine", "mine", "/mine", "/dev/shm/mine", program):
        assert jailed("writes", path).output == b"held\n", path
        assert path == program or not Path(path).exists()
    assert jailed("links", "/etc/passwd").output == b"held\n"
    assert outside(program, "runs", "id >/dev/null") == b"reached\n"
    for command in ("id", "true", "/bin/sh -c true"):
        assert jailed("runs", command).output == b"held\n", command
    assert jailed("forks").output == b"held\n"


def test_it_sees_no_variable_of_the_server(jailed, program, monkeypatch):
    monkeypatch.setenv("WARPGLASS_ROOM_SECRET", "a-secret-word")
    assert outside(program, "asks_environment", "WARPGLASS_ROOM_SECRET") == b"reached\n"
    for name in ("WARPGLASS_ROOM_SECRET", "HOME", "USER", "LD_PRELOAD"):
        assert jailed("asks_environment", name).output == b"held\n", name


def test_it_inherits_no_descriptor(jailed, program):
    readable, writable = os.pipe()
    os.set_inheritable(writable, True)
    try:
        assert outside(program, "descriptors", close_fds=False) == b"reached\n"
        assert jailed("descriptors").output == b"held\n"
    finally:
        os.close(readable), os.close(writable)


def test_it_reaches_no_server_on_this_machine(jailed, program):
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as named:
        port, name = server.getsockname()[1], f"warpglass-{os.getpid()}"
        named.bind(f"\0{name}")
        named.listen()
        assert outside(program, "connects", port) == outside(program, "connects_by_name", name) == b"reached\n"
        assert jailed("connects", port).output == jailed("connects_by_name", name).output == b"held\n"


@pytest.mark.parametrize("threat", ["kills", "traces"])
def test_it_touches_no_other_process(jailed, neighbour, threat):
    assert jailed(threat, neighbour.pid).output == b"held\n"
    assert jailed(threat, os.getpid()).output == b"held\n"


@pytest.mark.parametrize("threat", ["raises", "leaves", "mounts"])
def test_it_does_not_widen_the_jail(jailed, threat):
    assert jailed(threat).output == b"held\n"


def test_an_endless_loop_a_flood_and_its_own_end_are_reported_at_the_limits(jailed):
    start = time.monotonic()
    done = jailed("waits", limits=Limits(seconds=1, file_bytes=0, forks=False))
    assert done.stopped == "time" or done.code
    assert time.monotonic() - start < 10
    done = jailed("floods")
    assert done.stopped == "output" and len(done.output) == LIMITS.output_bytes
    assert jailed("dies").code not in (0, None)


def test_nothing_of_it_survives(engine, program):
    reads = [program, *child.libraries(program)]
    confine([str(program), "survives", ""], reads=reads, limits=Limits(seconds=2, file_bytes=0))
    time.sleep(0.2)
    assert not [path for path in Path("/proc").glob("[0-9]*") if str(program) in command_of(path.name)]


@pytest.mark.parametrize(
    ("threat", "size"), [("takes", 2**40), ("takes", 3 * 2**30), ("shares", 2**28), ("hides", 2**28)]
)
def test_it_takes_no_memory_beyond_its_limit(jailed, threat, size):
    assert jailed(threat, size).output != b"reached\n"
