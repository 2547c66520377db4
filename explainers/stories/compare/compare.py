"""Two kernels side by side: their steps aligned by what they do, what differs in words, their outputs and state
compared, their source side by side.

Times are told by compare_times.py, and why they differ by compare_reasons.py.
"""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

import numpy as np
import pandas as pd

from explainers.stories.any_kernel import generic
from explainers.stories.compare import compare_times
from explainers.stories.tiling import tiling
from explainers.stories.tiling.tiling import query_rows
from explainers.stories.tiling.traffic import access_order
from explainers.story import axes, marks, probed, stage
from explainers.story.frames import AlignedFrame
from explainers.story.glossary import phase_title
from kernels.core.launch import Plan
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.core.tolerance import OutputError
from kernels.run.results import Run, Traffic
from kernels.trace.kinds import READS
from kernels.trace.memory import model

SIDES = "AB"
MOST_OPTIONS = 4  # of a question
CONTEXT = 3  # unchanged lines that stay around a change; longer runs are folded
# What a frame of a side that waits says of the step, and what of the run, if that has not begun; as far as it has it.
_WAITING: dict[str, Any] = {"touched": [], "uses": [], "scores": None, "logged": [], "lines": {}}
_NOT_BEGUN: dict[str, Any] = {"resident": {}, "bytes": {}, "o": -1}


def accepts(spec: KernelSpec) -> bool:
    """Every kernel that has a probe: the steps of two kernels are compared."""
    return len(probed.probes(spec)) > 0


@dataclass(frozen=True)
class Aligned:
    """frames: one per common step, for the clock. a, b: that side's frame at each step; where only the other side
    steps, its last one, waiting."""

    frames: list[AlignedFrame]
    a: list[Any]
    b: list[Any]


def align(a: Sequence[Any], b: Sequence[Any]) -> Aligned:
    """Aligns two lists of frames. Steps are the same if they are of one phase (and role) and of tiles that begin at the
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
            sides[side].append(given[number] if number is not None else _waiting(given, last[side], SIDES[side]))
        alone = "" if len(shown) == 2 else f" ({'A' if pair[1] is None else 'B'} alone)"
        now = [side[-1] for side in sides]
        frames.append(
            {
                "tile": shown[0]["tile"],
                "title": shown[0]["title"] + alone,
                "phase": shown[0]["phase"],
                "sentence": "",
                "sentences": [frame["sentence"] for frame in now],
                "lines_a": now[0]["lines"],
                "lines_b": now[1]["lines"],
                "marks": [marks.ALONE] if alone else [],
            }
        )
    return Aligned(frames, *sides)


def _keys(frames: Sequence[Any]) -> list[tuple[str, str, int]]:
    """Of each frame its role and phase, and the first key of its tile, or -1 outside all tiles.

    A tile's first key: of the scores that are computed in it; where none are, of what it reads of keys; else the tile's
    own number.
    """
    begins: dict[int, int] = {}
    for frame in frames:
        if frame.get("scores"):
            begins[frame["tile"]] = min(begins.get(frame["tile"], frame["scores"][2]), frame["scores"][2])
    sizes = [begins[tile] / tile for tile in begins if tile > 0]
    step = sizes[0] if sizes else 1
    return [
        (f.get("role", ""), f["phase"], begins.get(f["tile"], int(f["tile"] * step)) if f["tile"] >= 0 else -1)
        for f in frames
    ]


def _pairs(a: list[Any], b: list[Any]) -> list[tuple[int | None, int | None]]:
    """The places of both lists, those of equal keys together."""
    pairs: list[tuple[int | None, int | None]] = []
    at = (0, 0)
    for block in difflib.SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks():
        pairs += [(n, None) for n in range(at[0], block.a)] + [(None, n) for n in range(at[1], block.b)]
        pairs += [(block.a + n, block.b + n) for n in range(block.size)]
        at = (block.a + block.size, block.b + block.size)
    return pairs


def _waiting(frames: Sequence[Any], last: int | None, side: str) -> dict[str, Any]:
    """A side's frame while the other steps alone."""
    held = frames[0] if last is None else frames[last]
    other = _WAITING if last is not None else _WAITING | _NOT_BEGUN
    waits = "has not begun" if last is None else f"waits after {held['title']}"
    return {**held, **{k: v for k, v in other.items() if k in held}, "sentence": f"{side} {waits}."}


# ---- the stage ----


@dataclass(frozen=True)
class _Side:
    """A side's picture before it is aligned. kind, title: of the view. frames: as `draw` takes them. draw(frames): the
    view's meta and columns. states(frames): of the strip."""

    kind: str
    title: str
    frames: Sequence[Any]
    draw: Any
    states: Any


def stage_of(
    runs: Sequence[Run], provenance: stage.Provenance, summary: str, tone: str, tabs: Sequence[stage.Tab]
) -> stage.Stage:
    """The whole stage of two runs. summary, tone: the verdict."""
    requests = [run.request for run in runs]
    dense = all(tiling.accepts(request.kernel) for request in requests)
    sides = [_matrices(run) if dense else _tensors(run) for run in runs]
    traced = [query_rows(request)[2] - query_rows(request)[1] if dense else 0 for request in requests]
    of = [f" ({count} queries)" if traced[0] != traced[1] else "" for count in traced]  # else they are alike
    aligned = align(sides[0].frames, sides[1].frames)
    views, states = [], []
    for number, (side, frames) in enumerate(zip(sides, (aligned.a, aligned.b))):
        meta, columns = side.draw(frames)
        views.append(stage.View(side.kind, side.kind, side.title, meta, columns, number))
        states += [replace(s, name=f"{SIDES[number]}: {s.name}{of[number]}", side=number) for s in side.states(frames)]
    return stage.Stage(
        headline=" · ".join(f"{side}: {r.kernel.name} {r.kernel.title}" for side, r in zip(SIDES, requests)),
        frames=aligned.frames,
        views=views,
        codes=[stage.code(r, aligned.frames, f"lines_{SIDES[n].lower()}", n) for n, r in enumerate(requests)],
        state=states,
        tabs=tabs,
        provenance=provenance,
        summary=summary,
        tone=tone,
        questions=questions(aligned),
    )


def questions(aligned: Aligned) -> list[stage.Question]:
    """Asked before the stage is read: what one side does for which the other has no step. None if both always step
    together."""
    for side, frames in ((1, aligned.b), (0, aligned.a)):
        alone = [n for n, frame in enumerate(aligned.frames) if frame["title"].endswith(f"({SIDES[side]} alone)")]
        titles = list(dict.fromkeys(phase_title(frame["phase"]) for frame in frames))
        if not alone or len(titles) < 2:
            continue
        right = phase_title(frames[alone[0]]["phase"])
        others = [title for title in titles if title != right][: MOST_OPTIONS - 1]
        options = [title for title in titles if title in (right, *others)]
        text = (
            f"At {len(alone)} of the {len(aligned.frames)} steps {SIDES[side]} steps alone and {SIDES[1 - side]} "
            f"waits. What does {SIDES[side]} do the first time?"
        )
        why = f"{right}. {frames[alone[0]]['sentence']}"
        key, veils = options.index(right), ("sentence",)
        return [stage.Question("alone", text, "options", key, why, options, alone[0], veils=veils)]
    return []


def _matrices(run: Run) -> _Side:
    story = tiling.explain(run)

    def draw(frames: list[Any]) -> Any:
        return tiling.view(run, replace(story, frames=frames))

    def states(frames: list[Any]) -> list[stage.State]:
        return [s for s in tiling.states(replace(story, frames=frames)) if not isinstance(s.values[0], str)]

    return _Side("matrices", "Matrices", story.frames, draw, states)


def _tensors(run: Run) -> _Side:
    story = generic.explain(run)

    def states(frames: list[Any]) -> list[stage.State]:
        def so_far(kind: str) -> list[int]:
            moved = [sum(t["bytes"] for t in f["touched"] if t["kind"] == kind) for f in frames]
            return np.cumsum(moved).astype(int).tolist()

        return [
            stage.State("read so far", so_far("load"), "B", colour="load"),
            stage.State("written so far", so_far("store"), "B", colour="store"),
        ]

    return _Side("tensors", "Tensors", story.frames, lambda frames: generic.view(replace(story, frames=frames)), states)


def provenance(parts: Sequence[stage.Provenance]) -> stage.Provenance:
    """Of both runs in one."""
    said = [f"{side}: {part.said}" for side, part in zip(SIDES, parts)]
    warnings = [f"{side}: {warning}" for side, part in zip(SIDES, parts) for warning in part.warnings]
    return stage.Provenance(parts[0].label, " ".join(said), warnings)


# ---- source ----


def diff(a: KernelSpec, b: KernelSpec) -> stage.Block:
    """Both sources side by side, line by line: parts of (left number, left text, right number, right text), None where
    a side has no such line. A part that is `same` is an unchanged run, folded; the lines around a change are not in
    it."""
    left, right = a.source.splitlines(), b.source.splitlines()
    parts: list[dict[str, Any]] = []
    opcodes = difflib.SequenceMatcher(None, left, right, autojunk=False).get_opcodes()
    for number, (tag, l0, l1, r0, r1) in enumerate(opcodes):
        pairs = zip_longest(range(l0, l1), range(r0, r1))
        rows = [
            [
                None if i is None else i + 1,
                None if i is None else left[i],
                None if j is None else j + 1,
                None if j is None else right[j],
            ]
            for i, j in pairs
        ]
        if tag != "equal":
            parts.append({"same": False, "rows": rows})
            continue
        before = CONTEXT if number else 0
        after = CONTEXT if number < len(opcodes) - 1 else 0
        if len(rows) <= before + after + 1:
            parts.append({"same": False, "rows": rows})
            continue
        end = len(rows) - after
        pieces = ((False, rows[:before]), (True, rows[before:end]), (False, rows[end:]))
        parts += [{"same": same, "rows": piece} for same, piece in pieces if piece]
    return {"kind": "diff", "names": [f"A: {a.path.name}", f"B: {b.path.name}"], "parts": parts}


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
    """By how much the two runs differ: rows of (what, over, largest difference), where both logged it. None of two
    problems."""
    rows: list[tuple[str, str, float]] = []
    if run_a.request.problem != run_b.request.problem:
        return pd.DataFrame(rows, columns=["what", "over", "largest difference"])
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


def output_sentence(table: pd.DataFrame, runs: Sequence[Run], errors: Sequence[Sequence[OutputError]]) -> str:
    """How far apart the two are, in sentences, and which of them is wrong on purpose. errors: of each run's outputs
    (execute.judge). Only two that are right agree."""
    off = " and ".join(f"{side} {run.max_abs_error:.2g}" for side, run in zip(SIDES, runs))
    two = runs[0].request.problem != runs[1].request.problem
    far = "Each solves a problem of its own, so they are not compared." if two else largest_sentence(table)
    against = f"The largest error against float64 is of {off}."
    right = [is_right(found) for found in errors]
    if broken := broken_sentence([run.request for run in runs], right):
        return f"{broken} {far} {against}"
    wrong = [side for side, ok in zip(SIDES, right) if not ok]
    if wrong:
        return f"{' and '.join(wrong)} {'is' if len(wrong) == 1 else 'are'} off by more than rounding. {far} {against}"
    return f"{'Both are right' if two else 'A and B agree'} within rounding. {far} {against}"


def largest_sentence(table: pd.DataFrame) -> str:
    """How far apart `outputs` are."""
    said = ", ".join(f"{what} {gap:.2g}" for what, gap in zip(table["what"], table["largest difference"]))
    return f"Largest difference between A and B: {said or 'not known, as they log nothing in common'}."


def is_right(errors: Sequence[OutputError]) -> bool:
    """Whether no output of a run is off by more than rounding."""
    return all(error.ok for error in errors)


def broken_sentence(requests: Sequence[Request], right: Sequence[bool]) -> str:
    """Which side is broken on purpose, and how; "" if none is. right: of each side, whether its output is all the
    same."""
    said = [
        f"{side} is built with {constant.what_if}, a what-if; on this problem its output is still right."
        if ok
        else f"{side} is broken on purpose: {constant.what_if[0].lower()}{constant.what_if[1:]}."
        for side, request, ok in zip(SIDES, requests, right)
        for constant in request.broken
    ]
    return " ".join(said)


def broken_tone(requests: Sequence[Request], right: Sequence[bool]) -> str:
    """bad where a side's what-if makes its output wrong, else info."""
    return "bad" if any(request.broken and not ok for request, ok in zip(requests, right)) else "info"


# ---- what differs, in words ----


def costs(run: Run) -> dict[str, int]:
    """Shared wavefronts and global sectors of the traced items, derived from their addresses, by what is done."""
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
    rows += [(name, *values, None) for name, *values in compare_times.problem_differences(requests)]
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
