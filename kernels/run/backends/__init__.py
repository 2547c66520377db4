"""The backends of a run in order of preference: gpu (CuPy), cpu (the SIMT shim), recorded (files from named GPUs).

gpu.py and cpu.py have these functions. recorded.py answers whole runs.
- device() -> Device, or BackendUnavailable with the reason
- free_bytes() -> the memory for a run now
- launch(build, plan, arrays, scope, capacities) -> list[RawRecords]: runs the plan and fills the written arrays
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from kernels.errors import BackendUnavailable, ProblemError, TraceError

NAMES = ("gpu", "cpu", "recorded")
PROVENANCE = {"gpu": "measured", "cpu": "executed", "recorded": "recorded"}


@dataclass(frozen=True)
class Device:
    """A backend's processor.

    driver: its version, or "".
    multiprocessors: the SMs of a GPU, else 0."""

    backend: str
    name: str
    target: str
    shared_bytes_per_block: int
    driver: str = ""
    multiprocessors: int = 0


@dataclass(frozen=True)
class Survey:
    """The backends of this machine.

    reasons: missing backend -> the reason.
    gpus: all GPUs (workers.Gpu). devices["gpu"] is the first."""

    devices: dict[str, Device]
    reasons: dict[str, str]
    gpus: tuple[Any, ...] = ()

    def pick(self, name: str = "auto", plain: bool = False) -> Device:
        """The Device of that backend, or the first with "auto". Raises BackendUnavailable or ProblemError.

        plain: for a kernel without written probes. No GPU traces its accesses, so "auto" is the CPU."""
        if name != "auto" and name not in NAMES:
            raise ProblemError(f"backend is {name!r}. It must be one of auto, {', '.join(NAMES)}.")
        automatic = [one for one in NAMES if not (plain and one == "gpu")]
        candidates = automatic if name == "auto" else [name]
        for candidate in candidates:
            if candidate in self.devices:
                return self.devices[candidate]
        raise BackendUnavailable(" ".join(self.reasons[n] for n in candidates))


def module(name: str) -> ModuleType:
    return import_module(f"{__name__}.{name}")


def survey(names: Sequence[str] = NAMES) -> Survey:
    """Looks for these backends. "gpu" calls CUDA. The web process therefore uses workers.survey."""
    devices, reasons = {}, {}
    for name in names:
        try:
            devices[name] = module(name).device()
        except (BackendUnavailable, TraceError) as unavailable:
            reasons[name] = str(unavailable)
    return Survey(devices, reasons)
