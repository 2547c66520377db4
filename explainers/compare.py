"""Two kernels side by side: their steps aligned by what they do, what differs in words, their outputs and state
compared, their source's diff.

The times of both are told by compare_times.py.
"""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from explainers import axes, tiling
from explainers.frames import AlignedFrame, TilingFrame
from explainers.tiling import query_rows
from explainers.traffic import access_order
from kernels.core.launch import Plan
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.memory import model
from kernels.run.results import Run, Traffic
from kernels.trace.kinds import READS

WANTS = tiling.WANTS
accepts = tiling.accepts
_WAITING: dict[str, Any] = {"touched": [], "uses": [], "scores": None, "lines": {}}


@dataclass(frozen=True)
class Aligned:
    """frames: one per common step, for the clock. a, b: that side's frame at each step; where only the other side
    steps, its last one, waiting."""

    frames: list[AlignedFrame]
    a: list[TilingFrame]
    b: list[TilingFrame]


def align(a: list[TilingFrame], b: list[TilingFrame]) -> Aligned:
    """Aligns two lists of tiling frames. Steps are the same if they are of one phase and of tiles that begin at the
    same key; where only one side has a step the other waits."""
    sides: tuple[list, list] = ([], [])
    frames: list[AlignedFrame] = []
    last: list[int | None] = [None, None]
    for pair in _pairs(_keys(a), _keys(b)):
        shown = []
        for side, (given, number) in enumerate(zip((a, b), pair)):
            last[side] = last[side] if number is None else number
            if number is not None:
                shown.append(given[number])
            sides[side].append(given[number] if number is not None else _waiting(given, last[side], "AB"[side]))
        alone = "" if len(shown) == 2 else f" ({'A' if pair[1] is None else 'B'} alone)"
        frames.append({"tile": shown[0]["tile"], "title": shown[0]["title"] + alone, "phase": shown[0]["phase"]})
    return Aligned(frames, *sides)


def _keys(frames: list[TilingFrame]) -> list[tuple[str, int]]:
    """Of each frame its phase, and the first key of its tile, or -1 outside all tiles.

    A tile's first key: of the scores that are computed in it; where none are, of what it reads of keys; else the tile's
    own number.
    """
    begins: dict[int, int] = {}
    for frame in frames:
        if frame["scores"]:
            begins[frame["tile"]] = min(begins.get(frame["tile"], frame["scores"][2]), frame["scores"][2])
    sizes = [begins[tile] / tile for tile in begins if tile > 0]
    step = sizes[0] if sizes else 1
    return [(f["phase"], begins.get(f["tile"], int(f["tile"] * step)) if f["tile"] >= 0 else -1) for f in frames]


def _pairs(a: list[tuple[str, int]], b: list[tuple[str, int]]) -> list[tuple[int | None, int | None]]:
    """The places of both lists, those of equal keys together."""
    pairs: list[tuple[int | None, int | None]] = []
    at = (0, 0)
    for block in difflib.SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks():
        pairs += [(n, None) for n in range(at[0], block.a)] + [(None, n) for n in range(at[1], block.b)]
        pairs += [(block.a + n, block.b + n) for n in range(block.size)]
        at = (block.a + block.size, block.b + block.size)
    return pairs


def _waiting(frames: list[TilingFrame], last: int | None, side: str) -> dict[str, Any]:
    """A side's frame while the other steps alone."""
    held: Any = frames[last] if last is not None else {**frames[0], "resident": {}, "bytes": {}, "o": -1}
    waits = "has not begun" if last is None else f"waits after {held['title']}"
    return {**held, **_WAITING, "sentence": f"{side} {waits}."}


def diff(a: KernelSpec, b: KernelSpec) -> str:
    """The unified diff of two kernels' sources, three lines of context."""
    lines = difflib.unified_diff(a.source.splitlines(), b.source.splitlines(), a.path.name, b.path.name, lineterm="")
    return "\n".join(lines)


# ---- outputs and state ----


def state(run: Run) -> pd.DataFrame:
    """The row's m and l after its last tile, in the traced query tile: by row, columns m and l."""
    if "row" not in run.trace.keys:
        return pd.DataFrame(columns=["m", "l"])
    table = run.trace.frame("launch", "seq", "event", "row", "value")
    found = {}
    for name in ("m", "l"):
        part = table[(table.event == name) & table.row.notna()]
        found[name] = part.sort_values("seq", kind="stable").groupby("row").value.last()
    return pd.DataFrame(found)


def outputs(run_a: Run, run_b: Run) -> pd.DataFrame:
    """What of the two runs is equal within what: rows of (what, over, largest difference), where both logged it."""
    rows = []
    names = {tensor.name: symbol for symbol, tensor in axes.tensors(run_a.request).items()}
    for output in run_a.request.problem.outputs:
        both_arrays = [
            run.arrays[output.name].astype(np.float64) for run in (run_a, run_b) if output.name in run.arrays
        ]
        if len(both_arrays) == 2:
            largest = float(np.abs(both_arrays[0] - both_arrays[1]).max())  # NaN where either holds one
            rows.append((names.get(output.name, output.name), f"all {both_arrays[0].size:,} numbers", largest))
    both = state(run_a).merge(state(run_b), left_index=True, right_index=True, suffixes=("_a", "_b"))
    for name in ("m", "l"):
        if len(both):
            gap = (both[f"{name}_a"] - both[f"{name}_b"]).abs()
            rows.append(
                (f"{name} after the last tile", f"{len(both)} rows that both traced", float(gap.max(skipna=False)))
            )
    return pd.DataFrame(rows, columns=["what", "over", "largest difference"])


def output_sentence(table: pd.DataFrame, run_a: Run, run_b: Run) -> str:
    """Whether they agree, in a sentence."""
    said = ", ".join(f"{what} {gap:.2g}" for what, gap in zip(table["what"], table["largest difference"]))
    errors = f"A is off by at most {run_a.max_abs_error:.2g}, B by {run_b.max_abs_error:.2g}"
    return f"Equal within: {said}. Against float64 {errors}."


# ---- what differs, in words ----


def costs(run: Run) -> dict[str, int]:
    """Shared wavefronts and global sectors of the traced query tile, derived from its addresses, by what is done."""
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
    """A table of what differs: what, A, B, in words. facts: inspection.inspect of each, or None; occupancies: of each
    launch, or None; cost: `costs` of each; traffics: of each."""
    a, b = requests
    rows: list[tuple] = [("launches", *(_launches(r.plan) for r in requests), None)]
    constants = dict.fromkeys([*a.constants, *b.constants])
    rows += [(name, a.constants.get(name, "none"), b.constants.get(name, "none"), None) for name in constants]
    queries = [query_rows(r)[2] - query_rows(r)[1] for r in requests]
    rows.append(("queries of a tile", *queries, _ratio(*queries)))
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
    for name in cost[0]:
        per_query = [c[name] / q for c, q in zip(cost, queries)]
        rows.append((f"{name}, per query", *(round(v, 2) for v in per_query), _ratio(*per_query)))
    named = [
        (what, _text(left), _text(right), words or ("the same" if left == right else "differ"))
        for what, left, right, words in rows
    ]
    return pd.DataFrame(named, columns=["what", f"A: {a.kernel.name}", f"B: {b.kernel.name}", "in words"])


def _moved(traffic: Traffic) -> dict[str, int]:
    """ "Q read" and so on -> bytes of global memory."""
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
    """B against A in words."""
    if a == b:
        return "the same"
    if not a or not b:
        return "only A" if a else "only B"
    return f"B {b / a:.3g} times A" if b > a else f"B 1/{a / b:.3g} of A"
