"""Binds torch tensors to a kernel's plan. A call of known shapes, strides and types finds its plan in a dictionary."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import torch

from kernels.core.call import Call, Option, dense_strides
from kernels.core.dtypes import element_type
from kernels.core.tensors import Initial, Tensor
from kernels.errors import ProblemError
from kernels.ops import launcher
from kernels.ops.operators import Operator

if TYPE_CHECKING:
    from kernels.ops.choice import Choice

Sizes = tuple[tuple[str, float], ...]
Tensors = dict[str, torch.Tensor]
MOST = 1024  # kept plans
_NOTHING = torch.empty(0)
_bound: dict[Hashable, "Bound"] = {}


def bound(key: Hashable) -> "Bound | None":
    """The plan of a former call with this key."""
    return _bound.get(key)


@dataclass(frozen=True)
class Place:
    """A tensor of the plan in a call.

    tensor: the plan's.
    given: the name of the call's tensor, or "".
    size, strides: of torch's tensor, in the operator's order of axes.
    order: the axes from the operator's order to the order in memory.
    copied: whether the call's tensor has another order in memory, so each call copies it.
    """

    tensor: Tensor
    given: str
    size: tuple[int, ...]
    strides: tuple[int, ...]
    order: tuple[int, ...]
    copied: bool = False

    @property
    def kind(self) -> torch.dtype:
        """torch's type."""
        return torch_type(self.tensor.dtype)


class Bound:
    """A call's plan on a device. Its text has the kernel, the copies, and the reasons against other kernels."""

    def __init__(self, operator: Operator, call: Call, chosen: "Choice", sizes: Sizes, device: torch.device):
        from kernels.ops.processors import processor

        plan = chosen.kernel.plan(chosen.problem, chosen.settings, sizes)
        self.operator, self.call, self.choice, self.plan, self.device = operator, call, chosen, plan, device
        self.sizes = sizes
        self.origin: Bound | None = None
        self._processor = processor(device)
        self.launch = self._processor.launcher(chosen, plan)
        self._zeros: dict[tuple[int, str], torch.Tensor] = {}
        self.places = [_place(operator, call, tensor) for tensor in plan.tensors]
        self._numbers = {place.tensor.name: number for number, place in enumerate(self.places)}
        self.absent = tuple(name for name in operator.outputs if name not in self._numbers)
        self.outputs = [self._numbers[name] for name in operator.outputs if name not in self.absent]

        def lasting(array: np.ndarray) -> torch.Tensor:
            return self._processor.lasting(lambda: torch.from_numpy(array.copy()).to(device))

        self._made = {n: lasting(array) for n, array in chosen.problem.made().items() if not call.has(n)}
        self.of_step: tuple[str, ...] = tuple(chosen.problem.of_step(np.ones(1, np.int64))[0])
        known = {*self._made, *self.of_step}
        given = [place for place in self.places if place.tensor.initial is Initial.GIVEN]
        unknown = [p.tensor.name for p in given if not p.given and p.tensor.name not in known]
        if unknown:
            raise ProblemError(f"{chosen.kernel.name} needs {', '.join(unknown)}, and {call.operator} has none.")
        # the plan's tensors by their origin, so that a call has little to do
        self.start: list[torch.Tensor] = [_NOTHING] * len(self.places)
        self._given: list[tuple[int, str, tuple[int, ...] | None]] = []
        self._new: list[tuple[int, tuple[int, ...], tuple[int, ...], torch.dtype, bool]] = []
        self._restored: list[tuple[int, Place]] = []
        for number, place in enumerate(self.places):
            source = self.source_of(place)
            if place.given:
                self._given.append((number, place.given, place.order if place.copied else None))
            elif source == "constant":
                self.start[number] = self._made[place.tensor.name]
            elif source == "kept":
                self._restored.append((number, place))
            elif source in ("zero", "empty"):
                self._new.append((number, place.size, place.strides, place.kind, source == "zero"))
        self._names = tuple(name for name, _ in call.tensors)  # of a call's tensors for the launcher, in order
        self._fast: object | None = None  # the launcher's plan

    def source_of(self, place: Place) -> str:
        """The origin of a plan's tensor in a call (launcher.SOURCES)."""
        initial = place.tensor.initial
        if place.given or place.tensor.name in self.of_step:
            return "given"
        if initial is Initial.GIVEN:
            return "constant"
        if initial is Initial.LOWEST:
            raise ProblemError(f"{place.tensor.name} begins at minus infinity, and a call does not set this value.")
        return {Initial.RESTORED: "kept", Initial.ZERO: "zero"}.get(initial, "empty")

    def __str__(self) -> str:
        copies = f" Each call copies {', '.join(self.copies)} into its order in memory." if self.copies else ""
        known = self.choice.recorded if self.device.type == "cuda" else None
        time = f", about {known.us:,.3g} us by recorded times" if known and known.is_near else ""
        refused = [f"- not {name}: {reason}" for name, reason in self.refused.items()]
        return "\n".join([f"{self.kernel}{time}.{copies}", *refused])

    @property
    def kernel(self) -> str:
        """The kernel's name."""
        return self.choice.kernel.name

    @property
    def refused(self) -> dict[str, str]:
        """kernel -> the reason against it."""
        return dict(self.choice.refused)

    @property
    def copies(self) -> tuple[str, ...]:
        """The inputs that each call copies, as their order in memory is not the kernel's."""
        return tuple(place.given for place in self.places if place.copied)

    def __call__(
        self, tensors: Tensors, step: Tensors | None = None, outputs: tuple[torch.Tensor, ...] | None = None
    ) -> Sequence[torch.Tensor]:
        """Launches the plan on the current stream. Returns the operator's outputs.

        step: the inputs of this call that follow from its numbers (Problem.of_step).
        outputs: dense tensors for the outputs, or None for new ones.
        """
        fast = launcher.module
        if fast is not None and (made := self._launched(fast, tensors, step or {}, outputs)) is not None:
            return made
        for watcher in launcher.watchers:
            watcher(self, tensors)
        found = self.start.copy()
        for name, tensor in (step or {}).items():
            found[self._numbers[name]] = tensor
        for number, name, order in self._given:
            tensor = tensors[name]
            tensor = tensor if order is None else tensor.permute(order).contiguous()
            found[number] = tensor if tensor.data_ptr() % launcher.ALIGNED == 0 else self._aligned(name, tensor)
        for number, size, strides, kind, zero in self._new:
            new = torch.empty_strided(size, strides, dtype=kind, device=self.device)
            found[number] = new.zero_() if zero else new
        for number, tensor in zip(self.outputs, outputs or ()):
            found[number] = tensor
        for number, place in self._restored:
            found[number] = self._kept_zeros(number, place)
        self.launch(found)
        written = iter([found[number] for number in self.outputs])
        return [self._unknown(name) if name in self.absent else next(written) for name in self.operator.outputs]

    def _unknown(self, name: str) -> torch.Tensor:
        """NaN in the shape of an output that the kernel does not write."""
        sizes = {axis: size for _, given in self.call.tensors for axis, size in zip(given.axes, given.shape)}
        shape = [sizes[axis] for axis in self.operator.outputs[name]]
        return torch.full(shape, torch.nan, device=self.device)

    def fast_plan(self, fast: ModuleType) -> object | None:
        """The plan of the compiled launcher, or None if only Python runs it."""
        described = getattr(self.launch, "described", None)
        if self._fast is not None or described is None or self.absent:
            return self._fast
        numbers = {name: number for number, name in enumerate((*self._names, *self.of_step))}
        slots = []
        for place, start in zip(self.places, self.start):
            source, number = self.source_of(place), 0
            order: tuple[int, ...] = ()
            if source == "given":
                number, order = numbers[place.tensor.name], place.order if place.copied else ()
            constant = start if source == "constant" else torch.empty(0, dtype=place.kind)
            slots.append((launcher.SOURCES[source], number, place.size, place.strides, order, constant))
        maps, steps, values = described()
        given = torch.empty(0, device=self.device), tuple(slots), maps, steps, values, tuple(self.outputs)
        self._fast = fast.plan(*given)
        return self._fast

    def _launched(
        self, fast: ModuleType, tensors: Tensors, step: Tensors, outputs: tuple[torch.Tensor, ...] | None
    ) -> list[torch.Tensor] | None:
        """The outputs by the compiled launcher, or None if it does not take the call."""
        plan = self._fast or self.fast_plan(fast)
        if plan is None:
            return None
        given = (*[tensors[name] for name in self._names], *[step[name] for name in self.of_step])
        made: list[torch.Tensor] | None = fast.run(plan, given, outputs)
        return made

    def _aligned(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """A copy of a list of numbers. Raises ProblemError for other tensors, which kernels read by vectors."""
        if tensor.dim() <= 2 and name not in self.operator.updated:
            return tensor.clone()
        raise ProblemError(
            f"{name} starts at the address {tensor.data_ptr():#x}, which is no multiple of {launcher.ALIGNED} bytes. "
            f"The kernels read vectors of {launcher.ALIGNED} bytes. Pass {name}.clone(), or a slice that starts at "
            "such an address."
        )

    def _kept_zeros(self, number: int, place: Place) -> torch.Tensor:
        """Zeros that the kernel leaves as zeros. Each stream keeps its own, and a captured graph gets new ones."""
        stream = self._processor.stream()
        make = partial(torch.zeros, place.size, dtype=place.kind, device=self.device)
        if stream is None:
            return make()
        key = (stream, place.tensor.name)
        if key not in self._zeros:
            self._zeros[key] = self._processor.lasting(make)
        kept, fast = self._zeros[key], launcher.module
        if fast is not None and self._fast is not None and not fast.keep_zeros(self._fast, number, stream, kept, None):
            fast.keep_zeros(self._fast, number, stream, kept, self._processor.lasting(make))
        return kept


def bind(
    key: Hashable, operator: Operator, tensors: dict[str, torch.Tensor], options: dict[str, Option], scale: float,
    kernel: str,
) -> Bound:  # fmt: skip
    """Chooses the kernel of a call, builds it and keeps the plan under the key. Raises NoKernel."""
    from kernels.ops import choice, processors  # these imports take a second, and the import of the operators does not

    device = next(iter(tensors.values())).device
    call = operator.call(tensors, options)
    chosen = choice.choose(call, processors.processor(device).device, kernel)
    return keep(key, Bound(operator, call, chosen, (("scale", scale),), device))


def resized(found: Bound, sizes: Sizes) -> Bound:
    """The plan of the same kernel and problem with other sizes (Problem.of_step), kept."""
    key = (id(found), sizes)
    kept = _bound.get(key)
    if kept is None:
        kept = keep(key, Bound(found.operator, found.call, found.choice, (*found.sizes, *sizes), found.device))
        kept.origin = found  # an id is unique only while its object lives
    return kept


def keep(key: Hashable, made: Bound) -> Bound:
    """Keeps a plan under its key, and returns it."""
    if len(_bound) >= MOST:
        _bound.clear()
        if launcher.module is not None:
            launcher.module.forget()
    _bound[key] = made
    return made


def torch_type(dtype: str) -> torch.dtype:
    """torch's type for the name of an element type."""
    found: torch.dtype = getattr(torch, element_type(dtype).torch)
    return found


def _place(operator: Operator, call: Call, tensor: Tensor) -> Place:
    """The place of a plan's tensor in the call."""
    axes = {**operator.inputs, **operator.outputs}.get(tensor.name, tensor.axes)
    if sorted(axes) != sorted(tensor.axes):
        raise ProblemError(f"{tensor.name} has the axes {', '.join(tensor.axes)}. The operator has {', '.join(axes)}.")
    order = tuple(axes.index(axis) for axis in tensor.axes)
    size = [0] * len(axes)
    for position, dimension in enumerate(order):
        size[dimension] = tensor.shape[position]
    strides = tuple(dense_strides(size, order))
    if not call.has(tensor.name):
        return Place(tensor, "", tuple(size), strides, order)
    given = call.given(tensor.name)
    if (given.shape, given.dtype) != (tuple(size), tensor.dtype):
        raise ProblemError(
            f"{tensor.name} is {given.dtype} {list(given.shape)}. The other tensors ask for {tensor.dtype} {size}."
        )
    copied = not given.strides_are(strides)
    if copied and tensor.name in operator.updated:
        raise ProblemError(f"{tensor.name} has strides {given.strides}. The operator writes it, so it must be dense.")
    return Place(tensor, tensor.name, tuple(size), strides, order, copied)
