"""Runs a plan of torch tensors on the CPU shim. It computes what the GPU computes, thousands of times slower."""

from collections.abc import Callable

import numpy as np
import torch

from kernels import build
from kernels.build import CPU, Mode
from kernels.core.dtypes import element_type
from kernels.core.launch import Plan
from kernels.core.scope import Scope
from kernels.core.tensors import Tensor
from kernels.ops.choice import Choice
from kernels.run.backends import Device, cpu


def device(device: torch.device) -> Device:
    """The processor."""
    return cpu.device()


def stream(device: torch.device) -> int | None:
    """The CPU has one stream."""
    return 0


def lasting(make: Callable[[], torch.Tensor]) -> torch.Tensor:
    """The new tensor."""
    return make()


def launcher(chosen: Choice, plan: Plan, device: torch.device) -> Callable[[list[torch.Tensor]], None]:
    """Builds the kernel. Returns a function that launches the plan with its tensors."""
    defines = {**chosen.problem.defines, **dict(chosen.settings)}
    built = build.build(chosen.kernel, defines, Mode.TIMED, CPU)

    def run(tensors: list[torch.Tensor]) -> None:
        arrays = {place.name: _array(tensor, place) for place, tensor in zip(plan.tensors, tensors)}
        cpu.launch(built, plan, arrays, Scope())

    return run


def _array(tensor: torch.Tensor, place: Tensor) -> np.ndarray:
    """A NumPy array over the tensor's memory, with the shape and type of the plan's tensor."""
    kind = element_type(place.dtype).numpy
    flat = tensor.detach().as_strided((tensor.numel(),), (1,))
    array = flat.view(torch.uint8).numpy().view(kind)
    return array.reshape(place.shape) if array.size == place.size else array  # a step's own list may be shorter
