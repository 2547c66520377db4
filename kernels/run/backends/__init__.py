"""Where a kernel can run: gpu (CuPy), cpu (the SIMT shim), recorded (files from named GPUs); picked in that order.

Each of gpu.py and cpu.py has: `device() -> Device` (or BackendUnavailable with the reason), `free_bytes() -> int`, what
a run may use now, and `launch(build, plan, arrays, scope, capacities) -> list[RawRecords]`, which runs the plan's
launches over the NumPy `arrays` and fills those that the kernel writes. recorded.py answers whole runs.
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
    """What a backend runs on. target: what build() compiles for; multiprocessors: of a GPU, else 0."""

    backend: str
    name: str
    target: str
    shared_bytes_per_block: int
    driver: str = ""
    multiprocessors: int = 0


@dataclass(frozen=True)
class Survey:
    """What was found on this machine: the usable devices by backend name, and for the others the reason why not. gpus:
    all of them (workers.Gpu); devices["gpu"] is the first."""

    devices: dict[str, Device]
    reasons: dict[str, str]
    gpus: tuple[Any, ...] = ()

    def pick(self, name: str = "auto") -> Device:
        """The Device of that backend, or with "auto" the first usable one. BackendUnavailable, ProblemError."""
        if name != "auto" and name not in NAMES:
            raise ProblemError(f"backend is {name!r}; it must be one of auto, {', '.join(NAMES)}.")
        asked = NAMES if name == "auto" else (name,)
        for candidate in asked:
            if candidate in self.devices:
                return self.devices[candidate]
        raise BackendUnavailable(" ".join(self.reasons[n] for n in asked))


def module(name: str) -> ModuleType:
    """The module of a backend."""
    return import_module(f"kernels.run.backends.{name}")


def survey(names: Sequence[str] = NAMES) -> Survey:
    """Looks for those backends. With gpu it touches CUDA: call it in a worker process (workers.survey), not in the web
    process."""
    devices, reasons = {}, {}
    for name in names:
        try:
            devices[name] = module(name).device()
        except (BackendUnavailable, TraceError) as unavailable:
            reasons[name] = str(unavailable)
    return Survey(devices, reasons)
