"""The bytes, conflicts, launches and constants in which two runs differ."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from explainers.stories.compare import time_verdict
from explainers.stories.tiling import tiling
from explainers.stories.tiling.traffic import access_order
from explainers.story.picture import query_rows
from kernels.core.launch import Plan
from kernels.core.request import Request
from kernels.run.results import Run, Traffic
from kernels.trace.kinds import READS
from kernels.trace.memory import model


def costs(run: Run) -> dict[str, int]:
    """Returns the shared wavefronts and global sectors of the traced items by direction, from their addresses."""
    shared = model.requests(run.trace, space="shared").costs
    sectors = model.requests(run.trace, space="global").costs
    reads = shared.kind.isin(READS)
    return {
        "shared wavefronts, reads": int(shared.wavefronts[reads].sum()),
        "shared wavefronts, writes": int(shared.wavefronts[~reads].sum()),
        "shared wavefronts without conflicts": int(shared.ideal.sum()),
        "global sectors": int(sectors.sectors.sum()),
    }


def differences(
    requests: Sequence[Request],
    facts: Sequence[Any],
    occupancies: Sequence[Any],
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
    rows: list[tuple] = [("launches", *(_launches(r.plan) for r in requests), None)]
    constants = dict.fromkeys([*a.constants, *b.constants])
    rows += [(name, *values, None) for name, *values in time_verdict.problem_differences(requests)]
    rows += [(name, a.constants.get(name, "none"), b.constants.get(name, "none"), None) for name in constants]
    dense = all(tiling.accepts(r.kernel) for r in requests)
    items = [query_rows(r)[2] - query_rows(r)[1] if dense else r.scope.count for r in requests]
    if dense:
        rows.append(("queries of a tile", *items, _ratio(*items)))
    smem = [max(launch.shared_bytes for launch in r.plan.launches) for r in requests]
    rows.append(("shared bytes of a block", *smem, _ratio(*smem)))
    if all(facts):
        for mode in ("timed", "probed"):
            registers = [max(e["registers"] for e in fact["builds"][mode]["entries"]) for fact in facts]
            rows.append((f"registers of a thread, {mode} build", *registers, _ratio(*registers)))
    if all(occupancies):
        least = [min(o, key=lambda launch: launch.warps) for o in occupancies]
        words = (f"{launch.warps} (limited by {launch.limited_by})" for launch in least)
        rows.append(("warps a multiprocessor holds", *words, _ratio(*(launch.warps for launch in least))))
    moved = [_moved(traffic) for traffic in traffics]
    for access in access_order(requests):
        each = [m.get(access, 0) for m in moved]
        if any(each):
            tensor, _, verb = access.rpartition(" ")
            rows.append((f"bytes of {tensor} {verb}, global", *each, _ratio(*each)))
    each_item = "query" if dense else a.plan.item
    for name in cost[0]:
        per_item = [c[name] / n for c, n in zip(cost, items)]
        rows.append((f"{name}, per {each_item}", *(round(v, 2) for v in per_item), _ratio(*per_item)))
    named = [
        (what, _text(left), _text(right), words or ("the same" if left == right else "differ"))
        for what, left, right, words in rows
    ]
    return pd.DataFrame(named, columns=["what", f"A: {a.kernel.name}", f"B: {b.kernel.name}", "in words"])


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


def _text(value: Any) -> str:
    return f"{value:,}" if isinstance(value, (int, float)) else str(value)


def _ratio(a: float, b: float) -> str:
    """Returns B against A in words."""
    if a == b:
        return "the same"
    if not a or not b:
        return "only A" if a else "only B"
    return f"B {b / a:.3g} times A" if b > a else f"B 1/{a / b:.3g} of A"
