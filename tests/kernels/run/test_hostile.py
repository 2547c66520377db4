"""A kernel is native code in its worker. What it writes, takes and starts there stays there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from faulty import tasks
from faulty.pages import holds
from waiting import gone, until

from kernels.errors import RunError, RunTimeout, TooLargeError
from kernels.run import workers
from kernels.run.messages import decode
from kernels.run.workers import frames, served

ROOT = Path(__file__).parents[3]


def submit(function, *args, **options):
    return workers.submit(function, *args, backend="cpu", title=function.__name__, **options).result(60)


@pytest.fixture
def anew():
    """Workers with the environment of this test, and others after it."""
    workers.stop()
    yield
    workers.stop()


@pytest.mark.parametrize("framed", [False, True])
def test_a_pickle_that_a_kernel_writes_to_its_socket_runs_nowhere(tmp_path, framed):
    path = tmp_path / "ran"
    with pytest.raises(RunError, match="answered with bytes that cannot be read.*Its worker was replaced"):
        submit(tasks.send_pickle, str(path), framed)
    assert submit(int, "7") == 7 and not path.exists()


def test_half_an_answer_ends_at_its_limit_and_one_of_any_length_takes_no_memory(monkeypatch):
    monkeypatch.setattr(frames, "most_bytes", 2**32)  # a server in this process may have set less
    with pytest.raises(RunTimeout, match="ran past its limit of 1 s"):
        submit(tasks.send_half, time_limit=1)
    assert submit(int, "7") == 7
    with pytest.raises(RunError, match="its frame has 1,099,511,627,776 bytes, and this process accepts 4,294,967,296"):
        submit(tasks.send_length, 2**40)


def test_an_honest_answer_above_the_limit_names_both_sizes(monkeypatch):
    monkeypatch.setattr(frames, "most_bytes", 2**10)
    with pytest.raises(TooLargeError, match=r"^The result has 2,\d{3} bytes, .* accepts 1,024\. Choose a smaller"):
        submit(bytes, 2**11)
    monkeypatch.setattr(frames, "most_bytes", 2**20)
    monkeypatch.setattr(decode, "most_json", 2**10)
    with pytest.raises(TooLargeError, match=r"^The result has 2,\d{3} bytes of JSON, .* accepts 1,024\."):
        submit(str, "x" * 2**11)
    assert submit(int, "7") == 7


def test_two_workers_leave_memory_to_the_machine(monkeypatch):
    sizes = {"SC_PHYS_PAGES": 2**22, "SC_PAGE_SIZE": 2**12}  # 16 GiB
    monkeypatch.setattr(os, "sysconf", sizes.get)
    assert workers.CPU_WORKERS * served.most_bytes() <= 2**33


def test_a_worker_has_only_its_own_descriptors_and_may_reserve_address_space():
    found = submit(tasks.descriptors)
    assert sum(place.startswith("socket:") for place in found.values()) == 1
    assert sum(place.startswith("pipe:") and number > 2 for number, place in found.items()) <= 1, found
    # V8 does so when it makes the page's chart library: a limit of address space ended it.
    assert submit(tasks.reserve, 2**36) == 2**36


def test_a_worker_has_no_secret_of_the_server(monkeypatch, anew):
    for name in ("WARPGLASS_ROOM_SECRET", "WARPGLASS_PASSWORD", "STREAMLIT_AUTH", "AWS_SECRET_ACCESS_KEY", "TOKEN"):
        monkeypatch.setenv(name, "a-secret-word")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    from multiprocessing import forkserver

    before = forkserver._forkserver._forkserver_pid
    os.kill(before, 9)  # the next process that workers are forked from starts with these
    until(lambda: gone(before) or b"Z" in Path(f"/proc/{before}/stat").read_bytes().rsplit(b")", 1)[1][:3])
    here, first = submit(tasks.environments)
    assert "a-secret-word" not in here and b"a-secret-word" not in first and "'OMP_NUM_THREADS': '3'" in here


def test_no_page_of_a_worker_holds_the_command_line_of_the_server(monkeypatch, anew):
    word = "a-word-of-the-command-line"
    monkeypatch.setattr(sys, "argv", ["serve", "--password", word])
    monkeypatch.setattr(sys, "orig_argv", ["python", "serve", "--password", word])
    pid = submit(os.getpid)
    assert holds(os.getpid(), word.encode()) and not holds(pid, word.encode())
    assert not holds(int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]), word.encode())


def test_a_worker_takes_no_more_memory_than_its_limit(monkeypatch, anew):
    monkeypatch.setattr(served, "most_bytes", lambda: 2**28)
    with pytest.raises(TooLargeError, match=r"needs more memory than its worker may take \(.* GiB\).*smaller problem"):
        submit(tasks.take, 2**29)
    assert submit(tasks.take, 2**20) == 2**20


def test_what_leaves_its_workers_group_ends_with_the_worker(tmp_path):
    path = tmp_path / "pids"
    job = workers.submit(tasks.leave_group_and_wait, str(path), backend="cpu", title="leaves")
    until(path.exists)
    pids = path.read_text().split()
    assert not gone(*pids)
    job.cancel()
    until(lambda: gone(*pids))


def test_what_left_its_workers_group_ends_with_the_server(tmp_path):
    path = tmp_path / "pids"
    script = (
        "import sys, os, signal\nfrom faulty import tasks\nfrom kernels.run import workers\n"
        "if __name__ == '__main__':\n"
        "    workers.submit(tasks.leave_group, sys.argv[1], backend='cpu', title='it').result()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    (tmp_path / "server.py").write_text(script)
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    command = [sys.executable, str(tmp_path / "server.py"), str(path)]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, timeout=60, check=False)
    until(path.exists)
    until(lambda: gone(*path.read_text().split()))
