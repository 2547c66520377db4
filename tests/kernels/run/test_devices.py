"""Which GPUs there are, as NVML lists them and CUDA_VISIBLE_DEVICES allows; and places that are taken out."""

import sys
import threading
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from kernels.errors import BackendUnavailable, ProblemError, WorkerDied
from kernels.run import workers
from kernels.run.backends import gpus
from kernels.run.workers import devices, local
from kernels.run.workers.devices import Gpu
from kernels.run.workers.pool import Pool
from kernels.run.workers.worker import Died, OutOfTime

ONE, TWO, OTHER = Gpu("GPU-aa1", "H200"), Gpu("GPU-ab2", "H200"), Gpu("GPU-b3", "L4")


@pytest.mark.parametrize(
    ("given", "listed", "found"),
    [
        ({}, (ONE, TWO), (ONE, TWO)),
        ({"CUDA_VISIBLE_DEVICES": "1,0"}, (ONE, TWO), (TWO, ONE)),
        ({"CUDA_VISIBLE_DEVICES": "GPU-ab"}, (ONE, TWO), (TWO,)),
        ({"CUDA_VISIBLE_DEVICES": "GPU-a"}, (ONE, TWO), ()),  # of both
        ({"CUDA_VISIBLE_DEVICES": "1,-1,0"}, (ONE, TWO), (TWO,)),
        ({"CUDA_VISIBLE_DEVICES": "0,7,1"}, (ONE, TWO), (ONE,)),
        ({"CUDA_VISIBLE_DEVICES": ""}, (ONE, TWO), ()),
        ({"CUDA_VISIBLE_DEVICES": "0"}, (OTHER, ONE), (Gpu("0", "GPU 0"),)),  # CUDA's 0 is the fastest
        ({"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, (OTHER, ONE), (OTHER,)),
    ],
)
def test_the_gpus_are_those_that_cuda_would_see(given, listed, found):
    assert devices.visible(listed, given) == found


@pytest.mark.parametrize(("mig", "found"), [(0, (ONE, TWO)), (1, (devices.UNKNOWN,))])
def test_nvml_is_asked_and_closed_and_a_split_gpu_is_left_to_cuda(monkeypatch, mig, found):
    both = (ONE, TWO)
    open_now = []
    fake = SimpleNamespace(
        NVMLError=RuntimeError,
        nvmlInit=lambda: open_now.append(1),
        nvmlShutdown=open_now.pop,
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda n: n,
        nvmlDeviceGetMigMode=lambda n: (mig, mig),
        nvmlDeviceGetUUID=lambda n: both[n].id,
        nvmlDeviceGetName=lambda n: both[n].name,
    )
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert devices.gpus.__wrapped__() == found and not open_now


class Fake(local.LocalWorker):
    """A GPU whose worker is this process. broken: what its GPU answers."""

    again = 0.2

    def __init__(self, gpu, broken=None):
        super().__init__(gpu)
        self.broken, self.looked, self.ran = broken, 0, []

    def ready(self):
        self.looked += 1
        if self.broken:
            raise self.broken

    def run(self, function, args, limit):
        self.ran.append(function)
        return function(*args)


@pytest.fixture
def pool():
    made = []

    def make(*places):
        made.append(Pool("gpu", places))
        return lambda gpu="", function=int: made[-1].submit(function, (), "it", 60, "", gpu), made[-1]

    yield make
    for one in made:
        one.stop()


def test_a_gpu_that_does_not_answer_is_taken_out_told_and_looked_at_again(pool):
    good, bad = Fake(ONE), Fake(TWO, BackendUnavailable("CUDA says no."))
    submit, made = pool(good, bad)
    with pytest.raises(
        BackendUnavailable, match=r"H200 .GPU-ab2. was taken out: CUDA says no. It is tried again every"
    ):
        submit(TWO.id).result(10)
    assert [one.out for one in made.status()] == ["", "CUDA says no."]
    for _ in range(20):
        assert submit().result(10) == 0
    assert len(good.ran) == 20 and not bad.ran
    bad.broken, bad.look_at = None, 0.0
    assert submit(TWO.id).result(10) == 0 and [one.out for one in made.status()] == ["", ""]


def test_where_no_gpu_answers_all_that_wait_are_told_and_the_next_looks_again(pool):
    only = Fake(ONE, WorkerDied("It cannot be started."))
    submit, _ = pool(only)
    for job in [submit() for _ in range(5)]:
        with pytest.raises(BackendUnavailable, match="It cannot be started. It is tried again"):
            job.result(10)
    looked, only.broken, only.look_at = only.looked, None, 0.0
    assert submit().result(10) == 0 and only.looked > looked


def test_a_gpu_of_another_kind_runs_only_what_names_it(pool):
    first, other = Fake(ONE), Fake(OTHER)
    submit, _ = pool(first, other)
    go, begun = threading.Event(), threading.Event()
    held = submit(function=lambda: begun.set() or go.wait(10))
    assert begun.wait(10)
    waits = submit()
    assert submit(OTHER.id).result(10) == 0 and not waits.done() and len(other.ran) == 1
    go.set()
    assert held.result(10) and waits.result(10) == 0 and len(first.ran) == 2


def test_two_alike_share_the_work(pool):
    places = Fake(ONE), Fake(TWO)
    submit, _ = pool(*places)
    both = threading.Barrier(2, timeout=10)
    jobs = [submit(function=both.wait) for _ in range(2)]  # each waits until the other runs too
    assert sorted(job.result(10) for job in jobs) == [0, 1] and [len(one.ran) for one in places] == [1, 1]


def test_a_worker_that_dies_while_its_gpu_proves_itself_is_tried_three_times(monkeypatch):
    died = []

    def run(self, function, args, limit):
        died.append(function)
        raise Died(100)

    monkeypatch.setattr(local.LocalWorker, "_start", lambda self: None)
    monkeypatch.setattr(local.LocalWorker, "run", run)
    with pytest.raises(BackendUnavailable, match="its worker died 3 times"):
        local.LocalWorker(ONE).ready()
    assert died == 3 * [devices.prove]


@pytest.mark.parametrize("raised", [BackendUnavailable("It adds wrongly."), OutOfTime()])
def test_a_gpu_that_does_not_prove_itself_is_asked_once_and_by_a_new_worker_the_next_time(monkeypatch, raised):
    alive, asked = [], []

    def run(self, function, args, limit):
        asked.append(function)
        if isinstance(raised, OutOfTime):
            self.end()
        raise raised

    monkeypatch.setattr(local.LocalWorker, "_start", lambda self: alive.append(1))
    monkeypatch.setattr(local.LocalWorker, "alive", lambda self: bool(alive))
    monkeypatch.setattr(local.LocalWorker, "end", lambda self: alive.clear())
    monkeypatch.setattr(local.LocalWorker, "run", run)
    one = local.LocalWorker(ONE)
    for times in (1, 2):
        with pytest.raises(BackendUnavailable, match="adds wrongly|did not answer within 60 s"):
            one.ready()
        assert len(asked) == times and not alive


def test_a_gpu_that_is_not_there_is_refused():
    with pytest.raises(ProblemError, match="gpu is 'GPU-none'. Known GPUs"):
        workers.submit(int, backend="gpu", title="it", gpu="GPU-none")


# ---- several GPUs in one process ----


def test_each_pair_of_gpus_is_connected_only_once(monkeypatch):
    connected, current = [], []
    runtime = SimpleNamespace(
        getDeviceCount=lambda: 3,
        deviceCanAccessPeer=lambda own, other: True,
        deviceEnablePeerAccess=lambda other: connected.append((current[-1], other)),
    )
    device = lambda number: nullcontext(current.append(number))  # noqa: E731
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(runtime=runtime, Device=device)))
    gpus._reach.cache_clear()
    gpus.connect(2)
    gpus.connect(3)
    gpus._reach.cache_clear()
    assert sorted(connected) == [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]
    with pytest.raises(BackendUnavailable, match="needs 4 GPUs, and this machine has 3"):
        gpus.connect(4)
