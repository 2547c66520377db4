"""Watches a model: which calls of attention it makes, and the kernel, time, bytes and page of each.

with watch() as seen: model(x)
print(seen)
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import signature
from typing import Any
from unittest.mock import patch
from urllib.parse import urlencode

import numpy as np
import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from kernels.build import own_values
from kernels.core.call import Call, Option
from kernels.core.fields import field_values, fields_of, write_value
from kernels.core.problem import Problem
from kernels.errors import ProblemError, WarpglassError
from kernels.ops import binding, launcher
from kernels.ops.operators import ATTENTION, PLAN

PAGE = "any_kernel"  # the page that shows any problem of any kernel
SITE = "http://127.0.0.1:8501"
OWN = "The page shows the values of the first of these calls, with the scale 1 / sqrt(head_dim)."
RANDOM = "The page draws random values."
WEIGHTS = "{} x MultiheadAttention computed its weights, so it called no kernel. Pass need_weights=False."
Tensors = dict[str, torch.Tensor]
_SDPA = functional.scaled_dot_product_attention


@dataclass
class Seen:
    """Equal calls of a model.

    by: the operator, or torch for torch's own attention.
    call: its tensors by shape, order in memory and type, and its options.
    count: how often.
    kernel: of ours, the fastest for the call, or "".
    us, roof, roof_percent: by the kernel's nearest recorded problem, or None.
    bytes: the inputs and outputs.
    link: the page with the call as a problem, or "".
    values: which values the page shows, in a sentence.
    reason: why no kernel fits, or "".
    """

    by: str
    call: Call
    count: int = 0
    kernel: str = ""
    us: float | None = None
    roof: str = ""
    roof_percent: float | None = None
    bytes: int = 0
    link: str = ""
    values: str = ""
    reason: str = ""

    @property
    def shapes(self) -> str:
        """The shapes, the types and the options in a line."""
        given = ", ".join(f"{name} {'x'.join(map(str, t.shape))}" for name, t in self.call.tensors)
        order = self.call.tensors[0][1]
        rows = " rows first" if not order.is_dense(order.axes) else ""
        options = "".join(f" {name}" if value is True else f" {name} {value}" for name, value in self.call.options)
        return f"{given} {order.dtype}{rows}{options}"


class Watched:
    """The calls of a model, in the order of their first occurrence. Its text is a table.

    values: whether files with the values of the calls are written, for the pages.
    with_weights: the calls of torch's MultiheadAttention that return their weights. torch computes them without
        scaled_dot_product_attention.
    """

    def __init__(self, site: str, values: bool) -> None:
        self.site, self.values, self._seen = site, values, dict[tuple[str, Call], Seen]()
        self.with_weights = 0

    @property
    def calls(self) -> list[Seen]:
        """Equal calls are one."""
        return list(self._seen.values())

    def __str__(self) -> str:
        lines = [WEIGHTS.format(self.with_weights)] if self.with_weights else []
        if not self._seen and not lines:
            return "No call of attention was seen. Use the operators, or torch's scaled_dot_product_attention."
        for seen in self.calls:
            lines.append(f"{seen.count} x {seen.by}: {seen.shapes}, {seen.bytes / 2**20:,.1f} MiB")
            time = "no recorded time of this size" if seen.us is None else f"about {seen.us:,.3g} us"
            share = f", {seen.roof_percent:.0f} % of the {seen.roof} roof" if seen.roof_percent is not None else ""
            lines.append(f"  {seen.kernel}: {time}{share}" if seen.kernel else f"  no kernel: {seen.reason}")
            if seen.link:
                lines.append(f"  {seen.link}\n  {seen.values}")
        return "\n".join(lines)

    def _add(self, by: str, call: Call, tensors: Tensors) -> None:
        if (by, call) not in self._seen:
            self._seen[by, call] = self._described(Seen(by, call), tensors)
        self._seen[by, call].count += 1

    def _described(self, seen: Seen, tensors: Tensors) -> Seen:
        """Fills in the kernel, its recorded time and the link. On a machine without a GPU it is the recorded GPU's."""
        from kernels.measure import nearest_times  # with pandas, which the import of the operators does without
        from kernels.ops import choice
        from kernels.ops.processors import processor

        on_gpu = torch.cuda.is_available()
        device = processor(torch.device("cuda")).device if on_gpu else nearest_times.recorded_device()
        try:
            chosen = choice.choose(seen.call, device)
        except WarpglassError as error:
            seen.reason = " ".join(str(error).split("\n")[1:3]) or str(error)
            return seen
        seen.kernel, known = chosen.kernel.name, chosen.recorded
        if known and known.is_near:
            seen.us, seen.roof, seen.roof_percent = known.us, known.roof, known.roof_percent
        seen.bytes = chosen.problem.call_bytes
        problem, seen.values = _valued(chosen.problem, tensors) if self.values else (chosen.problem, RANDOM)
        fields = fields_of(chosen.kernel.problem_type)
        changed = {
            name: write_value(value)
            for name, value in field_values(problem).items()
            if value != fields[name].default and name not in problem.follows
        }
        seen.link = f"{self.site}/{PAGE}?{urlencode({'kernel': seen.kernel, **changed})}"
        return seen


def _valued(problem: Problem, tensors: Tensors) -> tuple[Problem, str]:
    """The problem with the values of a call, and a sentence. The values go into a file of the private cache."""
    if problem.with_values("values_" + 16 * "0") is None:
        return problem, f"The kernel's problem takes no values of a call. {RANDOM}"
    if any(x.device.type not in ("cpu", "cuda") for x in tensors.values()) or torch.compiler.is_compiling():
        return problem, f"The call has no values. {RANDOM}"
    if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        return problem, f"A graph is being captured, so no value can be read. {RANDOM}"
    try:
        sized, arrays = problem.of_values(_Values(tensors))
        made = sized.with_values(own_values.save(arrays))
    except ProblemError as error:
        return problem, f"{error} {RANDOM}"
    return made or problem, OWN


class _Values:
    """The numbers of a call's tensors, at most as many as a file takes (core.call.Values)."""

    def __init__(self, tensors: Tensors) -> None:
        self._tensors, self._bytes = tensors, 0

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def read(self, name: str, rows: Sequence[int] | None = None) -> np.ndarray:
        x = self._tensors[name].detach()
        whole = not x.is_floating_point()
        count = x.numel() if rows is None else len(rows) * x[0].numel()
        self._bytes += count * (x.element_size() if whole or x.dtype == torch.float16 else 4)
        if self._bytes > own_values.MOST_BYTES:
            raise ProblemError(
                f"The values do not fit: {self._bytes / 2**20:,.1f} MiB, and a file takes "
                f"{own_values.MOST_BYTES / 2**20:,.0f} MiB."
            )
        x = x if rows is None else x[torch.tensor(rows, device=x.device)]
        found: np.ndarray = (x if whole or x.dtype == torch.float16 else x.float()).cpu().numpy()
        return found


@contextmanager
def watch(site: str = SITE, values: bool = True) -> Iterator[Watched]:
    """Records the calls of the operators and of torch's scaled_dot_product_attention.

    site: the address of the pages in the links.
    values: write the values of the first of equal calls into the private cache of this machine, if they fit. This
        waits for the GPU. A page on this machine shows them.
    """
    made = Watched(site, values)

    def called(found: binding.Bound, tensors: Tensors) -> None:
        if found.operator is not PLAN:  # a part of paged_decode
            made._add(found.operator.name, found.call, tensors)

    with launcher.watched(called), _TorchCalls(made):
        yield made


class _TorchCalls(TorchFunctionMode):
    """Adds the calls of torch's own attention, and those inside torch's modules.

    torch takes the mode away while it handles a call. So the calls inside multi_head_attention_forward, which all its
    modules use, reach `_attention` by name."""

    def __init__(self, watched: Watched) -> None:
        super().__init__()
        self.watched = watched

    def __torch_function__(
        self,
        function: Callable[..., object],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> object:
        given = kwargs or {}
        if function is _SDPA:
            return self._attention(*args, **given)
        if function is functional.multi_head_attention_forward:
            if signature(function).bind(*args, **given).arguments.get("need_weights", True):
                self.watched.with_weights += 1
            with patch.object(functional, "scaled_dot_product_attention", self._attention):
                return function(*args, **given)
        return function(*args, **given)

    def _attention(self, *args: Any, **given: Any) -> object:
        self._add(*args, **given)
        return _SDPA(*args, **given)

    def _add(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0, is_causal: bool = False, **more: object,
    ) -> None:  # fmt: skip
        options: dict[str, Option] = {"causal": is_causal, "attn_mask": attn_mask is not None, "dropout": dropout_p}
        if query.dim() == 4:
            given = {"q": query, "k": key, "v": value}
            self.watched._add("torch", ATTENTION.call(given, options), given)
