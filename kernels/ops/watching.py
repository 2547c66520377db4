"""Watches a model: which calls of attention it makes, and the kernel, time, bytes and page of each.

with watch() as seen: model(x)
print(seen)
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import torch
from torch.overrides import TorchFunctionMode

from kernels.core.call import Call, Option
from kernels.core.fields import field_values, fields_of, write_value
from kernels.core.tensors import Initial, Role
from kernels.errors import WarpglassError
from kernels.ops import binding
from kernels.ops.operators import ATTENTION

PAGE = "any_kernel"  # the page that shows any problem of any kernel
SITE = "http://127.0.0.1:8501"
Key = tuple[str, Call, str]


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
    """The calls of a model, in the order of their first occurrence. Its text is a table."""

    def __init__(self, site: str) -> None:
        self.site, self._seen = site, dict[Key, Seen]()

    @property
    def calls(self) -> list[Seen]:
        """Equal calls are one."""
        return list(self._seen.values())

    def __str__(self) -> str:
        if not self._seen:
            return "No call of attention was seen. Use the operators, or torch's scaled_dot_product_attention."
        lines = []
        for seen in self.calls:
            lines.append(f"{seen.count} x {seen.by}: {seen.shapes}, {seen.bytes / 2**20:,.1f} MiB")
            time = "no recorded time of this size" if seen.us is None else f"about {seen.us:,.3g} us"
            share = f", {seen.roof_percent:.0f} % of the {seen.roof} roof" if seen.roof_percent is not None else ""
            lines.append(f"  {seen.kernel}: {time}{share}" if seen.kernel else f"  no kernel: {seen.reason}")
            if seen.link:
                lines.append(f"  {seen.link}")
        return "\n".join(lines)

    def _add(self, by: str, call: Call, kernel: str = "") -> None:
        key = (by, call, kernel)
        if key not in self._seen:
            self._seen[key] = self._described(Seen(by, call), kernel)
        self._seen[key].count += 1

    def _described(self, seen: Seen, kernel: str) -> Seen:
        """Fills in the kernel, its recorded time and the link. On a machine without a GPU it is the recorded GPU's."""
        from kernels.ops import choice

        on_gpu = torch.cuda.is_available()
        device = binding.device_of(torch.device("cuda")) if on_gpu else choice.recorded_device()
        try:
            chosen = choice.choose(seen.call, device, kernel)
        except WarpglassError as error:
            seen.reason = " ".join(str(error).split("\n")[1:3]) or str(error)
            return seen
        seen.kernel, known = chosen.kernel.name, chosen.recorded
        if known and known.is_near:
            seen.us, seen.roof, seen.roof_percent = known.us, known.roof, known.roof_percent
        seen.bytes = sum(
            t.nbytes for t in chosen.problem.tensors() if t.initial is Initial.GIVEN or t.role is Role.OUTPUT
        )
        values, known_fields = field_values(chosen.problem), fields_of(chosen.kernel.problem_type)
        changed = {
            n: write_value(v)
            for n, v in values.items()
            if v != known_fields[n].default and n not in chosen.problem.follows
        }
        seen.link = f"{self.site}/{PAGE}?{urlencode({'kernel': seen.kernel, **changed})}"
        return seen


@contextmanager
def watch(site: str = SITE) -> Iterator[Watched]:
    """Records the calls of the operators and of torch's scaled_dot_product_attention.

    site: the address of the pages in the links.
    """
    made = Watched(site)

    def called(found: binding.Bound, tensors: dict[str, torch.Tensor]) -> None:
        made._add(found.operator.name, found.call)

    binding.watchers.append(called)
    try:
        with _TorchCalls(made):
            yield made
    finally:
        binding.watchers.remove(called)


class _TorchCalls(TorchFunctionMode):
    """Adds the calls of torch's own attention."""

    def __init__(self, watched: Watched) -> None:
        super().__init__()
        self.watched = watched

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if function is torch.nn.functional.scaled_dot_product_attention:
            self._add(*args, **given)
        return function(*args, **given)

    def _add(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0, is_causal: bool = False, **more: Any,
    ) -> None:  # fmt: skip
        options: dict[str, Option] = {"causal": is_causal, "attn_mask": attn_mask is not None, "dropout": dropout_p}
        if query.dim() == 4:
            self.watched._add("torch", ATTENTION.call({"q": query, "k": key, "v": value}, options))
