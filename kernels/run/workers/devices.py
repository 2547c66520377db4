"""The GPUs of this machine, as NVML lists them: without CUDA, so that any process may ask."""

import contextlib
import os
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kernels.errors import BackendUnavailable

VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Gpu:
    """id: what CUDA_VISIBLE_DEVICES names it by, its UUID where that is known; empty for whatever CUDA takes first."""

    id: str
    name: str


UNKNOWN = Gpu("", "GPU")


@lru_cache
def gpus() -> tuple[Gpu, ...]:
    """The GPUs that tasks may run on, those that an outer CUDA_VISIBLE_DEVICES allows, in its order. Where NVML cannot
    say (it is missing, or a GPU is split by MIG), the one that CUDA takes first."""
    try:
        import pynvml
    except ImportError:
        return (UNKNOWN,)
    with contextlib.suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        try:
            listed = _listed(pynvml)
        finally:
            pynvml.nvmlShutdown()
        return visible(listed, os.environ) or (UNKNOWN,)
    return (UNKNOWN,)


def _listed(nvml: Any) -> tuple[Gpu, ...]:
    found = []
    for index in range(nvml.nvmlDeviceGetCount()):
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        with contextlib.suppress(nvml.NVMLError):  # most have no MIG
            if nvml.nvmlDeviceGetMigMode(handle)[0]:
                return ()
        found.append(Gpu(nvml.nvmlDeviceGetUUID(handle), nvml.nvmlDeviceGetName(handle)))
    return tuple(found)


def visible(listed: tuple[Gpu, ...], environment: Any) -> tuple[Gpu, ...]:
    """Those of the GPUs, in NVML's order, that CUDA_VISIBLE_DEVICES allows. As in CUDA the first name that means none
    ends the list. A number means what NVML's does only if CUDA counts by PCI bus or all GPUs are alike; else it is
    kept as it stands."""
    if VISIBLE not in environment:
        return listed
    same = environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or len({gpu.name for gpu in listed}) == 1
    found: list[Gpu] = []
    for word in map(str.strip, environment[VISIBLE].split(",")):
        if word.isdigit():
            if int(word) >= len(listed):
                break
            one = listed[int(word)] if same else Gpu(word, f"GPU {word}")
        else:
            named = [gpu for gpu in listed if word and gpu.id.startswith(word)]
            if len(named) != 1:
                break
            one = named[0]
        found.append(one)
    return tuple(dict.fromkeys(found))


def environment(gpu: Gpu) -> dict[str, str]:
    """What a worker's environment must have before CUDA starts, so that it sees that GPU alone."""
    return {VISIBLE: gpu.id} if gpu.id else {}


def prove() -> None:
    """That the GPU of this process answers: some bytes go there and back. BackendUnavailable with the reason."""
    from kernels.run.backends import gpu

    gpu.device()
    import cupy

    try:
        sent = cupy.arange(1024)
        if int(sent.sum()) != 1024 * 1023 // 2:
            raise BackendUnavailable("It adds wrongly.")
    except (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError) as error:
        raise BackendUnavailable(f"CUDA says {error}.") from None
