"""The GPUs of this machine from NVML. It needs no CUDA, so any process may call this module."""

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType

from kernels.errors import BackendUnavailable

VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Gpu:
    """A GPU.

    id: its name in CUDA_VISIBLE_DEVICES, a UUID if it is known. "" means CUDA's first GPU.
    name: its name for people."""

    id: str
    name: str


UNKNOWN = Gpu("", "GPU")


@lru_cache
def gpus() -> tuple[Gpu, ...]:
    """The GPUs for tasks: those in an outer CUDA_VISIBLE_DEVICES, in its order.

    If NVML is missing or a GPU is in MIG mode, it is CUDA's first GPU."""
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


def _listed(nvml: ModuleType) -> tuple[Gpu, ...]:
    found = []
    for index in range(nvml.nvmlDeviceGetCount()):
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        with contextlib.suppress(nvml.NVMLError):  # most GPUs have no MIG
            if nvml.nvmlDeviceGetMigMode(handle)[0]:
                return ()
        found.append(Gpu(nvml.nvmlDeviceGetUUID(handle), nvml.nvmlDeviceGetName(handle)))
    return tuple(found)


def visible(listed: tuple[Gpu, ...], environment: Mapping[str, str]) -> tuple[Gpu, ...]:
    """The GPUs that CUDA_VISIBLE_DEVICES allows. The first invalid name ends the list, as in CUDA. A number keeps
    NVML's meaning only if CUDA counts by PCI bus or all GPUs are alike. Else the number is the id."""
    if VISIBLE not in environment:
        return listed
    names = {gpu.name for gpu in listed}
    same_order = environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or len(names) == 1
    found: list[Gpu] = []
    for word in map(str.strip, environment[VISIBLE].split(",")):
        if word.isdigit() and int(word) < len(listed):
            found.append(listed[int(word)] if same_order else Gpu(word, f"GPU {word}"))
            continue
        matching = [gpu for gpu in listed if word and gpu.id.startswith(word)]
        if word.isdigit() or len(matching) != 1:
            break
        found.append(matching[0])
    return tuple(dict.fromkeys(found))


def prove() -> None:
    """Sends bytes to this process's GPU and back. Raises BackendUnavailable with the reason if it fails."""
    from kernels.run.backends import gpu

    gpu.device()
    import cupy

    try:
        sent = cupy.arange(1024)
        if int(sent.sum()) != 1024 * 1023 // 2:
            raise BackendUnavailable("It adds wrongly.")
    except (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError) as error:
        raise BackendUnavailable(f"CUDA says {error}.") from None
