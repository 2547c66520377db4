"""The bytes, conflicts, launches, constants, outputs and sources in which two runs differ."""

import difflib
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
import pandas as pd

from explainers.models import tiling
from explainers.models.tiling import access_order
from explainers.stories.compare import time_verdict
from explainers.stories.compare.pair_times import WORDS
from explainers.story import axes, stage
from explainers.story.glossary import count, short
from explainers.story.picture import query_rows
from kernels.build.occupancy import Occupancy
from kernels.core.launch import Plan
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.core.tolerance import OutputError
from kernels.run.results import Run, Traffic
from kernels.trace.kinds import READS
from kernels.trace.memory import traced

Value = float | str
Facts = Mapping[str, Any]  # of inspection.inspect


def costs(run: Run) -> dict[str, int]:
    """The shared wavefronts and global sectors of the traced items by direction, from their addresses."""
    shared = traced.requests(run.trace, space="shared").costs
    sectors = traced.requests(run.trace, space="global").costs
    reads = shared.kind.isin(READS)
    return {
        "shared wavefronts, reads": int(shared.wavefronts[reads].sum()),
        "shared wavefronts, writes": int(shared.wavefronts[~reads].sum()),
        "shared wavefronts without conflicts": int(shared.ideal.sum()),
        "global sectors": int(sectors.sectors.sum()),
    }


def differences(
    requests: Sequence[Request],
    facts: Sequence[Facts | None],
    occupancies: Sequence[Sequence[Occupancy] | None],
    cost: Sequence[dict[str, int]],
    traffics: Sequence[Traffic],
) -> pd.DataFrame:
    """A table of the differences: what, A, B, in words.

    facts: inspection.inspect of each, or None.
    occupancies: of each launch, or None.
    cost: `costs` of each.
    traffics: the traffic of each.
    """
    a, b = requests
    found: list[tuple[str, str, str, str]] = []

    def add(what: str, a: Value, b: Value, words: str = "") -> None:
        texts = [f"{value:,}" if isinstance(value, (int, float)) else str(value) for value in (a, b)]
        found.append((what, texts[0], texts[1], words or ("the same" if a == b else "differ")))

    def measured(what: str, a: float, b: float) -> None:
        add(what, a, b, _ratio(a, b))

    dense = all(tiling.accepts(request.kernel) for request in requests)
    items = [request.scope.count for request in requests]  # of a dense kernel, its traced queries
    add("launches", _launches(a.plan), _launches(b.plan))
    for field in time_verdict.problem_differences(requests):
        add(*field)
    for name in dict.fromkeys([*a.constants, *b.constants]):
        add(name, a.constants.get(name, "none"), b.constants.get(name, "none"))
    if dense:
        rows = [query_rows(request) for request in requests]
        items = [end - first for _, first, end in rows]
        measured("queries of a tile", items[0], items[1])
    shared = [max(launch.shared_bytes for launch in request.plan.launches) for request in requests]
    measured("shared bytes of a block", shared[0], shared[1])
    known = [fact["builds"] for fact in facts if fact]
    for mode in ("timed", "probed") if len(known) == len(facts) else ():
        registers = [max(entry["registers"] for entry in builds[mode]["entries"]) for builds in known]
        measured(f"registers of a thread, {mode} build", registers[0], registers[1])
    least = [min(launches, key=lambda launch: launch.warps) for launches in occupancies if launches]
    if len(least) == len(occupancies):
        texts = [f"{launch.warps} (limited by {launch.limited_by})" for launch in least]
        add("warps a multiprocessor holds", texts[0], texts[1], _ratio(least[0].warps, least[1].warps))
    moved = [_moved(traffic) for traffic in traffics]
    for access in access_order(requests):
        tensor, _, verb = access.rpartition(" ")
        sizes = [one.get(access, 0) for one in moved]
        if any(sizes):
            measured(f"bytes of {tensor} {verb}, global", sizes[0], sizes[1])
    for name in cost[0]:
        each = [one[name] / n for one, n in zip(cost, items)]
        item = "query" if dense else a.plan.item
        add(f"{name}, per {item}", round(each[0], 2), round(each[1], 2), _ratio(each[0], each[1]))
    return pd.DataFrame(found, columns=["what", f"A: {a.kernel.name}", f"B: {b.kernel.name}", "in words"])


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


def _ratio(a: float, b: float) -> str:
    if a == b:
        return "the same"
    if not a or not b:
        return "only A" if a else "only B"
    return f"B {short(b / a, 3)} times A" if b > a else f"B 1/{short(a / b, 3)} of A"


# ---- outputs ----


def state(run: Run) -> pd.DataFrame:
    """m and l of each row after its last tile, in the traced query tile."""
    if "row" not in run.trace.keys:
        return pd.DataFrame(columns=["m", "l"])
    table = run.trace.frame("launch", "seq", "event", "row", "value")
    found = {}
    for name in ("m", "l"):
        part = table[(table.event == name) & table.row.notna()]
        found[name] = part.sort_values("seq", kind="stable").groupby("row").value.last()
    return pd.DataFrame(found)


def outputs(run_a: Run, run_b: Run) -> pd.DataFrame:
    """Rows of (what, over, largest difference) between two runs of one problem. Empty for two problems."""
    rows: list[tuple[str, str, float]] = []
    if run_a.request.problem != run_b.request.problem:
        return pd.DataFrame(rows, columns=["what", "over", "largest difference"])
    names = {tensor.name: symbol for symbol, tensor in axes.tensors(run_a.request).items()}
    for output in run_a.request.problem.outputs:
        both_arrays = [
            run.arrays[output.name].astype(np.float64) for run in (run_a, run_b) if output.name in run.arrays
        ]
        if len(both_arrays) == 2:
            largest = float(np.abs(both_arrays[0] - both_arrays[1]).max())  # NaN if either has one
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
    """The distance of the two outputs in sentences, and the sides that are wrong on purpose.

    errors: the errors of each run's outputs (execute.judge).
    """
    right = [is_right(found) for found in errors]
    names = {
        "off": " and ".join(f"{side} {short(run.max_abs_error, 2)}" for side, run in zip("AB", runs)),
        "two": runs[0].request.problem != runs[1].request.problem,
        "largest": largest_sentence(table),
        "broken": broken_sentence([run.request for run in runs], right),
        "wrong": [side for side, ok in zip("AB", right) if not ok],
    }
    return WORDS.say("output", names)


def largest_sentence(table: pd.DataFrame) -> str:
    """The largest differences of `outputs`."""
    return WORDS.say("largest", {"gaps": [*zip(table["what"], table["largest difference"])]})


def is_right(errors: Sequence[OutputError]) -> bool:
    """Whether each output of a run is right within rounding."""
    return all(error.ok for error in errors)


def broken_sentence(requests: Sequence[Request], right: Sequence[bool]) -> str:
    """The sides with a what-if, and its effect, or "". right: for each side, whether its output is right."""
    said = [
        WORDS.say("broken", {"side": side, "what_if": constant.what_if, "ok": ok})
        for side, request, ok in zip("AB", requests, right)
        for constant in request.broken
    ]
    return " ".join(said)


def broken_tone(requests: Sequence[Request], right: Sequence[bool]) -> str:
    """Bad if a what-if makes an output wrong, else info."""
    return "bad" if any(request.broken and not ok for request, ok in zip(requests, right)) else "info"


# ---- sources ----

Row = list[int | str | None]
CONTEXT = 3  # unchanged lines around a change


def diff(a: KernelSpec, b: KernelSpec) -> stage.Block:
    """both sources side by side, in parts. The code comes first in sight: front matter is folded.

    A row is (left number, left text, right number, right text), with None on a side without the line. A part with
    `same` is unchanged and folded. CONTEXT lines around a change stay outside it. A part with `folded` is folded under
    that text.
    """
    left, right = a.source.splitlines(), b.source.splitlines()
    l0, r0 = _front(left), _front(right)
    front = [row for _, rows in _compared(left, right, (0, l0), (0, r0)) for row in rows]
    changed = sum(row[1] != row[3] for row in front)
    parts: list[dict[str, object]] = []
    if front:
        said = f"Front matter: {count(changed, 'line differs', 'lines differ')}"
        parts.append({"same": False, "folded": said, "rows": front})
    runs = _compared(left, right, (l0, len(left)), (r0, len(right)))
    last = len(runs) - 1
    for number, (same, rows) in enumerate(runs):
        if same:
            before, after = CONTEXT if number else 0, CONTEXT if number < last else 0
            end = len(rows) - after
            pieces = [(False, rows[:before]), (True, rows[before:end]), (False, rows[end:])]
            if len(rows) <= before + after + 1:
                pieces = [(False, rows)]
            parts += [{"same": folded, "rows": piece} for folded, piece in pieces if piece]
        else:
            parts.append({"same": False, "rows": rows})
    return {"kind": "diff", "names": [f"A: {a.path.name}", f"B: {b.path.name}"], "parts": parts}


def _front(lines: list[str]) -> int:
    if not lines or not lines[0].startswith("/*"):
        return 0
    return next((n for n, line in enumerate(lines, 1) if line.strip() == "*/"), 0)


def _compared(
    left: list[str], right: list[str], of_left: tuple[int, int], of_right: tuple[int, int]
) -> list[tuple[bool, list[Row]]]:
    matcher = difflib.SequenceMatcher(None, left[slice(*of_left)], right[slice(*of_right)], autojunk=False)
    found: list[tuple[bool, list[Row]]] = []
    for tag, l0, l1, r0, r1 in matcher.get_opcodes():
        lines = zip_longest(range(of_left[0] + l0, of_left[0] + l1), range(of_right[0] + r0, of_right[0] + r1))
        found.append((tag == "equal", [[*_side(left, i), *_side(right, j)] for i, j in lines]))
    return found


def _side(lines: list[str], index: int | None) -> tuple[int | None, str | None]:
    return (None, None) if index is None else (index + 1, lines[index])
