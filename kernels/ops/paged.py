"""The operators over a KV cache in pages: paged_decode, plan_decode and reshape_and_cache."""

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import torch

from kernels.core.call import Option
from kernels.errors import ProblemError
from kernels.ops import binding, launcher
from kernels.ops.operators import DECODE, PLAN, WRITE

Tensor = torch.Tensor
Lengths = Tensor | Sequence[int]
Options = tuple[tuple[str, float], ...]  # of the units of a step
Shape = tuple[object, ...]  # of the caches of a layer, and its options
Known = tuple[str, Options | None, str]  # the tag of the launcher's plan, the options of its units, and their tag
NAME, WRITER = "warpglass::paged_decode", "warpglass::reshape_and_cache"
PLANNER = str(Path(__file__).with_name("plan_ranges.cu"))
MOST_STEPS = 64  # kept plans of lengths on the CPU
torch.library.define(
    NAME,
    "(Tensor q, Tensor k_cache, Tensor v_cache, Tensor block_tables, Tensor context_lens, Tensor? k_scale, "
    "Tensor? v_scale, float scale, int window, float soft_cap, str kernel) -> Tensor",
)
torch.library.define(
    WRITER,
    "(Tensor key, Tensor value, Tensor(a!) k_cache, Tensor(b!) v_cache, Tensor slots, Tensor? k_scale, "
    "Tensor? v_scale, str kernel) -> ()",
)
_DECODE, _WRITE = torch.ops.warpglass.paged_decode.default, torch.ops.warpglass.reshape_and_cache.default
_of_device: dict[tuple[int, int], dict[Shape, Known]] = {}  # (sequences, window) -> the plans for lengths on the GPU
_steps: OrderedDict[tuple[object, ...], "DecodePlan"] = OrderedDict()


def paged_decode(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    block_tables: Tensor,
    context_lens: Lengths,
    *,
    k_scale: Tensor | None = None,
    v_scale: Tensor | None = None,
    scale: float | None = None,
    window: int = 0,
    soft_cap: float = 0.0,
    kernel: str | None = None,
) -> Tensor:
    """Attention of one query for each sequence to its context, by the fastest kernel that fits.

    q: [sequences, heads, head_dim]. The result has its shape and type.
    k_cache: [pages, kv_heads, head_dim / x, block_size, x], with x numbers in 16 bytes.
    v_cache: [pages, kv_heads, head_dim, block_size].
    block_tables: [sequences, entries] int32, the pages of each sequence.
    context_lens: [sequences], the tokens of each sequence, on the CPU or on the GPU. A CUDA graph takes new lengths
      from a tensor on the GPU. A sequence of length 0 has output 0.
    k_scale, v_scale: [kv_heads] float32, the factors of a cache of 8 bits.
    window: a query sees only the last `window` tokens, or all with 0.
    soft_cap: the limit of a score by tanh, or 0.

    All layers of a step have equal lengths: plan_decode plans them once.
    """
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    if launcher.module is not None and not torch.compiler.is_compiling() and _has_no_mode():
        if isinstance(context_lens, Tensor) and context_lens.is_cuda:
            tensors = (q, k_cache, v_cache, block_tables, context_lens)
            o = _launched(launcher.module, tensors, k_scale, v_scale, scale, window, soft_cap, kernel)
            if o is not None:
                return o
        plan = _step_plan(context_lens, k_cache, window)
        return plan._run(q, k_cache, v_cache, block_tables, k_scale, v_scale, scale, soft_cap, None, kernel)
    lengths = context_lens if isinstance(context_lens, Tensor) else torch.tensor(context_lens)
    given = (q, k_cache, v_cache, block_tables, lengths.to(torch.int32), k_scale, v_scale)
    found: Tensor = _DECODE(*given, scale, window, soft_cap, kernel or "")
    return found


def _launched(
    fast: ModuleType, given: tuple[Tensor, ...], k_scale: Tensor | None, v_scale: Tensor | None, scale: float,
    window: int, soft_cap: float, kernel: str | None,
) -> Tensor | None:  # fmt: skip
    """A call with lengths on the GPU whose plans are known: the work list and the attention, without a DecodePlan."""
    k_cache, context_lens = given[1], given[4]
    plans = _of_device.get((len(context_lens), window))
    known = plans.get((k_cache.shape, k_cache.dtype, soft_cap, kernel)) if plans else None
    if known is None or known[1] is None:
        return None
    units = fast.call("u", (context_lens,), 0.0, known[2], None)
    if units is None:
        return None
    given += () if k_scale is None else (k_scale,)
    given += () if v_scale is None else (v_scale,)
    made = fast.call("d", (*given, *units), scale, known[0], False)
    return None if made is None else made[0]


def plan_decode(context_lens: Lengths, k_cache: Tensor, *, window: int = 0) -> "DecodePlan":
    """The plan of a decoding step. It serves all layers, whose caches have the shape and type of k_cache.

    context_lens: [sequences], the tokens of each sequence, on the CPU or on the GPU. With a tensor on the GPU nothing
      waits for it, and a CUDA graph can hold the plan and all layers. Each replay reads the lengths anew.
    window: a query sees only the last `window` tokens, or all with 0.
    """
    return DecodePlan(context_lens, k_cache, window)


class DecodePlan:
    """The work list of a decoding step on the device of its cache.

    context_lens: int32 [sequences]. On the GPU if the lengths were there.
    """

    def __init__(self, context_lens: Lengths, k_cache: Tensor, window: int = 0) -> None:
        lengths = context_lens if isinstance(context_lens, Tensor) else torch.tensor(context_lens)
        if lengths.dim() != 1 or k_cache.dim() != 5:
            raise ProblemError(
                f"context_lens is {list(lengths.shape)} and k_cache {list(k_cache.shape)}. They must be [sequences] "
                "and [pages, kv_heads, head_dim / x, block_size, x]."
            )
        self.context_lens = lengths if lengths.dtype == torch.int32 else lengths.to(torch.int32)
        self.window, self.device = window, k_cache.device
        self._numbers = self.context_lens.numpy().astype(np.int64) if lengths.device.type == "cpu" else None
        self._may_be_empty = self._numbers is None or not self._numbers.all()
        self._units: dict[object, Tensor] = {}
        self._known: dict[Shape, Known] = {}
        if self._numbers is None:
            self._known = _of_device.setdefault((len(lengths), window), {})

    def __call__(
        self,
        q: Tensor,
        k_cache: Tensor,
        v_cache: Tensor,
        block_tables: Tensor,
        *,
        k_scale: Tensor | None = None,
        v_scale: Tensor | None = None,
        scale: float | None = None,
        soft_cap: float = 0.0,
        out: Tensor | None = None,
        kernel: str | None = None,
    ) -> Tensor:
        """Attention of a layer. Its arguments are the arguments of paged_decode.

        out: a dense tensor like q for the result. The rows of sequences of length 0 stay as they are.
        """
        scale = q.shape[-1] ** -0.5 if scale is None else scale
        return self._run(q, k_cache, v_cache, block_tables, k_scale, v_scale, scale, soft_cap, out, kernel)

    def _run(
        self, q: Tensor, k_cache: Tensor, v_cache: Tensor, block_tables: Tensor, k_scale: Tensor | None,
        v_scale: Tensor | None, scale: float, soft_cap: float, out: Tensor | None, kernel: str | None,
    ) -> Tensor:  # fmt: skip
        fast = launcher.module
        known = None if fast is None else self._known.get((k_cache.shape, k_cache.dtype, soft_cap, kernel))
        if fast is not None and known is not None:
            tag, options, _ = known
            given: tuple[Tensor, ...] = (q, k_cache, v_cache, block_tables, self.context_lens)
            given += () if k_scale is None else (k_scale,)
            given += () if v_scale is None else (v_scale,)
            given += () if options is None else (self._units_of(options),)
            made = fast.call(
                "d", given, scale, tag, (out,) if out is not None else False if self._may_be_empty else None
            )
            if made is not None:
                return self._without_empty(made[0]) if options is None else made[0]
        return self._bound(q, k_cache, v_cache, block_tables, k_scale, v_scale, scale, soft_cap, out, kernel)

    def _bound(
        self, q: Tensor, k_cache: Tensor, v_cache: Tensor, block_tables: Tensor, k_scale: Tensor | None,
        v_scale: Tensor | None, scale: float, soft_cap: float, out: Tensor | None, kernel: str | None,
    ) -> Tensor:  # fmt: skip
        """The result by a plan that Python finds or makes. Later calls of these shapes need only the launcher."""
        tensors = _given(
            q=q, k_cache=k_cache, v_cache=v_cache, block_tables=block_tables, context_lens=self.context_lens,
            k_scale=k_scale, v_scale=v_scale,
        )  # fmt: skip
        key = (*_key(tensors), scale, self.window, soft_cap, kernel)
        found = binding.bound(key)
        if found is None:
            if q.dim() != 3 or not q.shape[0] == len(block_tables) == len(self.context_lens):
                raise ProblemError(
                    f"q is {list(q.shape)}, block_tables {list(block_tables.shape)} and context_lens "
                    f"{list(self.context_lens.shape)}. q must be [sequences, heads, head_dim], and the others have a "
                    "row for each sequence."
                )
            options: dict[str, Option] = {"window": self.window, "soft_cap": soft_cap}
            found = binding.bind(key, DECODE, tensors, options, scale, kernel or "")
        if self._numbers is not None and not self._numbers.any():
            return torch.zeros_like(q) if out is None else out
        step: dict[str, Tensor] = {}
        of_units: Options | None = None
        if found.of_step:
            found, of_units = self._planned(found)
            step = {"units": self._units_of(of_units)}
        elif self._numbers is not None:  # the kernel reads the lengths themselves
            tensors["context_lens"] = self.context_lens = self._moved(self.context_lens)
        # no block writes the rows of an empty sequence
        new = torch.zeros_like(q) if self._may_be_empty else torch.empty_like(q)
        made = found(tensors, step, (new if out is None else out,))
        fast = launcher.module
        if fast is not None and (plan := found.fast_plan(fast)) is not None:
            tag = f"{found.kernel} {self.window} {soft_cap} {found.sizes}"
            if fast.keep("d", (*tensors.values(), *step.values()), scale, False, tag, plan):
                self._known[k_cache.shape, k_cache.dtype, soft_cap, kernel] = tag, of_units, str(of_units)
        return self._without_empty(made[0]) if of_units is None else made[0]

    def _without_empty(self, o: Tensor) -> Tensor:
        """The output of a kernel without a work list, which divides by 0 for a sequence of length 0."""
        if not self._may_be_empty:
            return o
        return o.masked_fill_((self.context_lens == 0)[:, None, None], 0)

    def _planned(self, found: binding.Bound) -> tuple[binding.Bound, Options]:
        """The plan with the sizes of this step, and the options of its units."""
        problem = found.choice.problem
        if self._numbers is None:
            options, sizes = problem.of_device_step()
            return binding.resized(found, sizes), tuple(options.items())
        made, sizes = problem.of_step(self._numbers)
        if sizes not in self._units:
            self._units[sizes] = self._moved(torch.from_numpy(made["units"]))
        return binding.resized(found, sizes), sizes

    def _units_of(self, options: Options) -> Tensor:
        """The units of the step. A CUDA graph makes its own from the lengths on the GPU, once for all layers."""
        if self._numbers is not None:
            return self._units[options]
        key = (options, _capture(self.context_lens))
        units = self._units.get(key)
        if units is None:
            units = self._units[key] = _units(self.context_lens, options)
        return units

    def _moved(self, tensor: Tensor) -> Tensor:
        """The tensor on the device of the cache."""
        if tensor.device == self.device:
            return tensor
        if torch.cuda.is_current_stream_capturing():
            raise ProblemError(
                "The lengths are on the CPU, and a CUDA graph is being captured. Pass them on the GPU, or make a plan "
                "with plan_decode and call it once before the capture."
            )
        return tensor.pin_memory().to(self.device, non_blocking=True)


def _has_no_mode() -> bool:
    """Whether no dispatch mode of torch has to see the operators."""
    count: int = torch._C._len_torch_dispatch_stack()  # type: ignore[attr-defined]
    return count == 0


def _capture(tensor: Tensor) -> int:
    """The number of the graph that the current stream records, or 0."""
    if launcher.module is not None:
        number: int = launcher.module.capture(tensor)
        return number
    return int(tensor.is_cuda and torch.cuda.is_current_stream_capturing())


def _units(context_lens: Tensor, options: Options) -> Tensor:
    """The work list by the GPU, on the current stream."""
    tag, fast = str(options), launcher.module
    made = None if fast is None else fast.call("u", (context_lens,), 0.0, tag, None)
    if made is None:
        key = (PLANNER, context_lens.shape, context_lens.device, tag)
        found = binding.bound(key)
        if found is None:
            found = binding.bind(key, PLAN, {"context_lens": context_lens}, dict(options), 1.0, PLANNER)
        made = found({"context_lens": context_lens})
        if fast is not None and (plan := found.fast_plan(fast)) is not None:
            fast.keep("u", (context_lens,), 0.0, False, tag, plan)
    units: Tensor = made[0]
    return units


def _step_plan(context_lens: Lengths, k_cache: Tensor, window: int) -> DecodePlan:
    """A plan for lengths. Equal lengths on the CPU have one plan, so all layers of a step share it."""
    if isinstance(context_lens, Tensor):
        if context_lens.device.type != "cpu":
            return DecodePlan(context_lens, k_cache, window)
        numbers: object = context_lens.to(torch.int32).numpy().tobytes()
    else:
        numbers = tuple(context_lens)
    stream = torch._C._cuda_getCurrentRawStream(k_cache.get_device()) if k_cache.is_cuda else 0
    key = (numbers, k_cache.device, window, stream)
    plan = _steps.get(key)
    if plan is None:
        plan = _steps[key] = DecodePlan(context_lens, k_cache, window)
        if len(_steps) > MOST_STEPS:
            _steps.popitem(last=False)
    return plan


def reshape_and_cache(
    key: Tensor,
    value: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    slots: Tensor,
    *,
    k_scale: Tensor | None = None,
    v_scale: Tensor | None = None,
    kernel: str | None = None,
) -> None:
    """Writes new tokens into their slots of a cache in pages, in place.

    key, value: [tokens, kv_heads, head_dim].
    slots: [tokens], page * block_size + slot in the page. A negative slot is padding.
    k_scale, v_scale: [kv_heads] float32, for a cache of 8 bits.
    """
    if key.dtype == k_cache.dtype == torch.bfloat16:  # a copy only moves bits
        key, value, k_cache, v_cache = (x.view(torch.float16) for x in (key, value, k_cache, v_cache))
    fast, slots = launcher.module, slots.to(torch.int32)
    if fast is not None and not torch.compiler.is_compiling():
        given: tuple[Tensor, ...] = (key, value, slots, k_cache, v_cache)
        given += () if k_scale is None or v_scale is None else (k_scale, v_scale)
        if fast.call("w", given, 1.0, kernel or "", None) is not None:
            return
    _WRITE(key, value, k_cache, v_cache, slots, k_scale, v_scale, kernel or "")


def _decode(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, block_tables: Tensor, context_lens: Tensor, k_scale: Tensor | None,
    v_scale: Tensor | None, scale: float, window: int, soft_cap: float, kernel: str,
) -> Tensor:  # fmt: skip
    plan = _step_plan(context_lens, k_cache, window)
    return plan._run(q, k_cache, v_cache, block_tables, k_scale, v_scale, scale, soft_cap, None, kernel or None)


def _write(
    key: Tensor, value: Tensor, k_cache: Tensor, v_cache: Tensor, slots: Tensor, k_scale: Tensor | None,
    v_scale: Tensor | None, kernel: str,
) -> None:  # fmt: skip
    tensors = _given(
        key=key, value=value, slots=slots, k_cache=k_cache, v_cache=v_cache, k_scale=k_scale, v_scale=v_scale
    )
    plan = (*_key(tensors), kernel)
    found = binding.bound(plan)
    if found is None:
        found = binding.bind(plan, WRITE, tensors, {}, 1.0, kernel)
    fast = launcher.module
    if fast is not None and (compiled := found.fast_plan(fast)) is not None:
        fast.keep("w", tuple(tensors.values()), 1.0, False, kernel, compiled)
    found(tensors)


def _given(**tensors: Tensor | None) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in tensors.items() if tensor is not None}


def _key(tensors: dict[str, Tensor]) -> tuple[object, ...]:
    return tuple((name, x.shape, x.stride(), x.dtype, x.device) for name, x in tensors.items())


torch.library.register_fake(NAME, lambda q, *_: q.new_empty(q.shape))
torch.library.register_fake(WRITER, lambda *_: None)
for device in ("CPU", "CUDA"):
    torch.library.impl(NAME, device, _decode)
    torch.library.impl(WRITER, device, _write)
