"""Several GPUs on one host: each has its worker, pinned by its UUID; any free one runs what names none."""

import pytest
from faulty import spec, tasks

from kernels.catalog import KERNELS
from kernels.core.request import Request
from kernels.errors import BackendUnavailable, RunError
from kernels.families.dense import DenseProblem
from kernels.measure import protocol
from kernels.run import execute, workers
from kernels.run.workers import devices
from kernels.run.workers.local import LocalWorker

GPUS = devices.gpus()
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(len(GPUS) < 2, reason=f"two GPUs are needed, and NVML names {sum(bool(g.id) for g in GPUS)}"),
]
GOOD = Request(KERNELS["03_flash"], DenseProblem(), backend="gpu")
ILLEGAL = Request(spec("illegal"), DenseProblem(seq_len=1), backend="gpu")


def submit(function, *args, **options):
    return workers.submit(function, *args, backend="gpu", title=function.__name__, **options)


def test_each_worker_sees_its_gpu_alone():
    assert len({gpu.id for gpu in GPUS}) == len(GPUS)
    for gpu in GPUS:
        assert submit(tasks.which_gpu, gpu=gpu.id).result(120) == (gpu.id, 1)
    assert workers.survey().gpus == GPUS


def test_all_share_the_work():
    before = {one.gpu: one.done for one in workers.status()}
    for job in [submit(execute.run, GOOD) for _ in range(40)]:
        assert job.result(300).max_abs_error < 1e-6
    done = {one.gpu: one.done - before.get(one.gpu, 0) for one in workers.status() if one.backend == "gpu"}
    print(done)
    assert sum(done.values()) == 40 and all(done.values())


def test_a_fault_on_one_ends_its_worker_alone():
    first, second = GPUS[:2]
    beside = [submit(execute.run, GOOD, gpu=first.id) for _ in range(5)]
    with pytest.raises(RunError, match="CUDA error ILLEGALADDRESS"):
        submit(execute.run, ILLEGAL, gpu=second.id).result(120)
    assert all(job.result(120).max_abs_error < 1e-6 for job in beside)
    assert submit(execute.run, GOOD, gpu=second.id).result(120).max_abs_error < 1e-6
    deaths = {one.gpu: one.deaths for one in workers.status()}
    assert deaths[second.id] == 1 and not deaths[first.id] and not any(one.out for one in workers.status())


def test_the_chosen_one_is_timed():
    point = protocol.Point("03_flash", DenseProblem(), tuple(KERNELS["03_flash"].settings().items()))
    for gpu in GPUS:
        timing = submit(protocol.measure, point, gpu=gpu.id, time_limit=300).result(300)
        print(gpu, timing.median_us)
        assert timing.status == "ok" and timing.median_us > 0


def test_a_gpu_that_cuda_does_not_know_is_not_used():
    worker = LocalWorker(devices.Gpu("GPU-00000000-0000-0000-0000-000000000000", "none"))
    try:
        with pytest.raises(BackendUnavailable, match="CUDA"):
            worker.ready()
    finally:
        worker.end()
