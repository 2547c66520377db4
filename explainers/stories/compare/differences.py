"""The bytes, conflicts, launches and constants in which two runs differ."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from explainers.models import tiling
from explainers.models.tiling import access_order
from explainers.stories.compare import time_verdict
from explainers.story.glossary import short
from explainers.story.picture import query_rows
from kernels.build.occupancy import Occupancy
from kernels.core.launch import Plan
from kernels.core.request import Request
from kernels.run.results import Run, Traffic
from kernels.trace.kinds import READS
from kernels.trace.memory import traced

Value = float | str
Facts = Mapping[str, Any]  # of inspection.inspect


def costs(run: Run) -> dict[str, int]:
    """Returns the shared wavefronts and global sectors of the traced items by direction, from their addresses."""
    shared = traced.requests(run.trace, space="shared").costs
    sectors = traced.requests(run.trace, space="global").costs
    reads = shared.kind.isin(READS)
    return {
        "shared wavefronts, reads": int(shared.wavefronts[reads].sum()),
        "shared wavefronts, writes": int(shared.wavefronts[~reads].sum()),
        "shared wavefronts without conflicts": int(shared.ideal.sum()),
        "global sectors": int(sectors.sectors.sum()),
    }


@dataclass(frozen=True)
class Difference:
    """A row of the table.

    name: the compared property.
    a, b: its values.
    words: b against a, None for "the same" or "differ".
    """

    name: str
    a: Value
    b: Value
    words: str | None = None

    @property
    def text(self) -> str:
        """Returns b against a in words."""
        return self.words or ("the same" if self.a == self.b else "differ")


def differences(
    requests: Sequence[Request],
    facts: Sequence[Facts | None],
    occupancies: Sequence[Sequence[Occupancy] | None],
    cost: Sequence[dict[str, int]],
    traffics: Sequence[Traffic],
) -> pd.DataFrame:
    """Returns a table of the differences: what, A, B, in words.

    facts: inspection.inspect of each, or None.
    occupancies: of each launch, or None.
    cost: `costs` of each.
    traffics: the traffic of each.
    """
    a, b = requests
    dense = all(tiling.accepts(request.kernel) for request in requests)
    items = [_items(request, dense) for request in requests]
    known = [fact for fact in facts if fact]
    launches = [occupancy for occupancy in occupancies if occupancy]
    rows = [
        Difference("launches", _launches(a.plan), _launches(b.plan)),
        *(Difference(*found) for found in time_verdict.problem_differences(requests)),
        *_constants(a, b),
        *([_measured("queries of a tile", *items)] if dense else []),
        _measured("shared bytes of a block", _shared_bytes(a.plan), _shared_bytes(b.plan)),
        *(_registers(known) if len(known) == len(facts) else []),
        *([_warps(launches)] if len(launches) == len(occupancies) else []),
        *_global_bytes(requests, traffics),
        *_costs_per_item(cost, items, "query" if dense else a.plan.item),
    ]
    columns = ["what", f"A: {a.kernel.name}", f"B: {b.kernel.name}", "in words"]
    return pd.DataFrame([(row.name, _text(row.a), _text(row.b), row.text) for row in rows], columns=columns)


def _measured(name: str, a: float, b: float) -> Difference:
    """Returns a row of two amounts, with their ratio in words."""
    return Difference(name, a, b, _ratio(a, b))


def _items(request: Request, dense: bool) -> int:
    """Returns the traced queries of a dense kernel, else the traced items."""
    if not dense:
        return request.scope.count
    _, first, end = query_rows(request)
    return end - first


def _constants(a: Request, b: Request) -> list[Difference]:
    names = dict.fromkeys([*a.constants, *b.constants])
    return [Difference(name, a.constants.get(name, "none"), b.constants.get(name, "none")) for name in names]


def _shared_bytes(plan: Plan) -> int:
    return max(launch.shared_bytes for launch in plan.launches)


def _registers(facts: Sequence[Facts]) -> list[Difference]:
    """Returns the registers of a thread in both builds of each side."""
    found = []
    for mode in ("timed", "probed"):
        a, b = (max(entry["registers"] for entry in fact["builds"][mode]["entries"]) for fact in facts)
        found.append(_measured(f"registers of a thread, {mode} build", a, b))
    return found


def _warps(occupancies: Sequence[Sequence[Occupancy]]) -> Difference:
    """Returns the warps that an SM holds of each side's launch with the fewest."""
    least = [min(launches, key=lambda launch: launch.warps) for launches in occupancies]
    a, b = (f"{launch.warps} (limited by {launch.limited_by})" for launch in least)
    return Difference("warps a multiprocessor holds", a, b, _ratio(least[0].warps, least[1].warps))


def _global_bytes(requests: Sequence[Request], traffics: Sequence[Traffic]) -> list[Difference]:
    """Returns the bytes of each tensor in global memory."""
    moved_a, moved_b = (_moved(traffic) for traffic in traffics)
    found = []
    for access in access_order(requests):
        a, b = moved_a.get(access, 0), moved_b.get(access, 0)
        tensor, _, verb = access.rpartition(" ")
        if a or b:
            found.append(_measured(f"bytes of {tensor} {verb}, global", a, b))
    return found


def _costs_per_item(cost: Sequence[dict[str, int]], items: Sequence[int], item: str) -> list[Difference]:
    found = []
    for name in cost[0]:
        a, b = cost[0][name] / items[0], cost[1][name] / items[1]
        found.append(Difference(f"{name}, per {item}", round(a, 2), round(b, 2), _ratio(a, b)))
    return found


def _moved(traffic: Traffic) -> dict[str, int]:
    """Returns "Q read" and so on -> bytes of global memory."""
    table = traffic.table[traffic.table.space == "global"]
    verbs = {True: "read", False: "written"}
    named = table.tensor.astype(str) + " " + table.kind.isin(READS).map(verbs)
    return table.bytes.groupby(named).sum().astype(int).to_dict()


def _launches(plan: Plan) -> str:
    return "; ".join(
        f"{launch.entry}: {' x '.join(str(n) for n in launch.grid)} blocks of {launch.threads} threads"
        for launch in plan.launches
    )


def _text(value: Value) -> str:
    return f"{value:,}" if isinstance(value, (int, float)) else str(value)


def _ratio(a: float, b: float) -> str:
    """Returns B against A in words."""
    if a == b:
        return "the same"
    if not a or not b:
        return "only A" if a else "only B"
    return f"B {short(b / a, 3)} times A" if b > a else f"B 1/{short(a / b, 3)} of A"
