"""The tensors of attention over a paged KV cache, found by their declared parts and axes.

The stories of the block table, of partitions and of heads share them.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from explainers.story import axes, picture, probed
from explainers.story.glossary import short
from explainers.story.scene import Datum, Span, Texts
from explainers.story.words import Names, Row, Words
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Role, Tensor
from kernels.run.results import Run
from kernels.trace import steps as cutting
from kernels.trace.kinds import READS

WORDS = Words.of(__package__)
ITEM = "query head"  # item of the scope in these stories' kernels
QUERY, TABLE, LENGTHS = ("sequence", "head", "dim"), ("sequence", "entry"), ("sequence",)
K_AXES, V_AXES = ("page", "kv_head", "piece", "slot", "element"), ("page", "kv_head", "dim", "slot")


@dataclass(frozen=True)
class Paged:
    """The tensors of a request, each with its name in probes. The request's scope is one query head of one sequence."""

    request: Request

    def _one(self, wanted: tuple[str, ...], role: Role, part: str = "") -> tuple[str, Tensor]:
        return next(iter(_found(self.request, wanted, role, part).items()))

    @cached_property
    def q(self) -> tuple[str, Tensor]:
        return self._one(QUERY, Role.INPUT, "Q")

    @cached_property
    def o(self) -> tuple[str, Tensor]:
        return self._one(QUERY, Role.OUTPUT, "O")

    @cached_property
    def k(self) -> tuple[str, Tensor]:
        return self._one(K_AXES, Role.INPUT, "K")

    @cached_property
    def v(self) -> tuple[str, Tensor]:
        return self._one(V_AXES, Role.INPUT, "V")

    @cached_property
    def tables(self) -> tuple[str, Tensor]:
        return self._one(TABLE, Role.INPUT)

    @property
    def num_heads(self) -> int:
        return axes.length(self.q[1], "head")

    @property
    def num_kv_heads(self) -> int:
        return axes.length(self.k[1], "kv_head")

    @property
    def block_size(self) -> int:
        """Returns the slots of a page."""
        return axes.length(self.v[1], "slot")

    @property
    def head_dim(self) -> int:
        return axes.length(self.q[1], "dim")

    @property
    def x(self) -> int:
        """Returns the elements of a piece of K. One load reads a piece."""
        return axes.length(self.k[1], "element")

    @property
    def page_bytes(self) -> int:
        """Returns the bytes of one page of one KV head, in K or in V."""
        return (
            axes.byte_of(self.v[1], kv_head=1)
            if self.num_kv_heads > 1
            else self.v[1].nbytes // axes.length(self.v[1], "page")
        )

    def kv_head_of(self, head: int) -> int:
        """Returns the KV head of a query head."""
        return head * self.num_kv_heads // self.num_heads

    @property
    def place(self) -> tuple[int, int]:
        """Returns the sequence and the query head of the scope's first item."""
        sequence, head = divmod(self.request.scope.first, self.num_heads)
        return sequence, head


def accepts(spec: KernelSpec) -> bool:
    """Whether the kernel's items are query heads, and it has the tensors of attention over pages."""
    request = probed.sample(spec)
    return attends(request) and request.plan.item == ITEM


def attends(request: Request) -> bool:
    """Whether the kernel has the tensors of attention over pages: Q, K, V and O in their parts, and the block table."""
    wanted = (
        (QUERY, Role.INPUT, "Q"),
        (QUERY, Role.OUTPUT, "O"),
        (K_AXES, Role.INPUT, "K"),
        (V_AXES, Role.INPUT, "V"),
        (TABLE, Role.INPUT, ""),
    )
    return all(_found(request, *tensor) for tensor in wanted)


def _found(request: Request, names: tuple[str, ...], role: Role, part: str) -> dict[str, Tensor]:
    """Returns the tensors with these axes, this role and this part in the picture. An empty part matches any."""
    at = picture.places(request)
    found = axes.with_axes(request, *names, role=role)
    return {symbol: tensor for symbol, tensor in found.items() if part in ("", at.get(symbol))}


def lengths(run: Run) -> np.ndarray:
    """Returns the context length of each sequence, int [sequences]."""
    known = run.request.problem.tensors()  # a kernel may ignore it
    return run.arrays[next(t.name for t in known if t.axes == LENGTHS and t.role is Role.INPUT)]


def pages_of(run: Run, sequence: int) -> list[int]:
    """Returns the pages of a sequence's context, in order."""
    paged = Paged(run.request)
    needed = -(-int(lengths(run)[sequence]) // paged.block_size)
    return [int(page) for page in run.arrays[paged.tables[1].name][sequence][:needed]]


def span(
    row: int,
    start: int,
    end: int,
    colour: str,
    datum: Datum,
    tip: str,
    texts: Texts,
    since: int | None = None,
    early: Texts | None = None,
    early_tip: str = "",
) -> Span:
    """A span that the step `since` makes: a frame marks it then, and a click goes there."""
    at = Span(row=row, start=start, end=end, colour=colour, datum=datum, tip=tip, texts=texts, early=early)
    return replace(at, early_tip=early_tip, since=since, now=[] if since is None else [since], go=since)


def marked(run: Run) -> tuple[cutting.Steps, pd.DataFrame]:
    """The marked steps, and every record with its step, and its source line as `place`."""
    cut, records, sites = cutting.cut(run.trace, run.sites), run.trace.frame(), run.sites
    places = np.array([site.place if site.kind in ("value", "access") else "" for site in sites])
    words = {name: records[name].astype(str) for name in ("event", "tensor", "space")}
    return cut, records.assign(step=cut.of_record, place=places[sites.index(run.trace.table)], **words)


def counted(records: pd.DataFrame) -> Row:
    """The lines and the bytes from global memory of a step's records."""
    lines = records.place[records.place != ""].value_counts()
    loads = records[records.event.isin(READS) & (records.space == "global")]
    return {"lines": {str(line): int(n) for line, n in lines.items()}, "read": int(loads.bytes.sum())}


def exact(values: Names) -> str:
    """m and l for a tip."""
    return f"m = {short(values['m'], 9)}, l = {short(values['l'], 9)}"
