"""The bytes, conflicts, launches, constants, outputs and sources in which two runs differ."""

import difflib
from collections.abc import Mapping, Sequence
from itertools import zip_longest

import numpy as np
import pandas as pd

from explainers.models import tiling
from explainers.models.tiling import access_order
from explainers.stories.compare.pair_times import SIDES, WORDS, problem_differences
from explainers.story import axes, stage
from explainers.story.glossary import count, short
from explainers.story.picture import query_rows
from kernels.build.occupancy import Occupancy
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.core.tolerance import OutputError
from kernels.run.results import Run, Traffic
from kernels.trace.kinds import READS
from kernels.trace.memory import traced

Registers = Mapping[str, int]  # mode of a build -> registers of a thread
CONTEXT = 3  # unchanged lines around a change


def costs(run: Run) -> dict[str, int]:
    """The shared wavefronts and global sectors of the traced items by direction, from their addresses."""
    shared = traced.requests(run.trace, space="shared").costs
    reads = shared.kind.isin(READS)
    return {
        "shared wavefronts, reads": int(shared.wavefronts[reads].sum()),
        "shared wavefronts, writes": int(shared.wavefronts[~reads].sum()),
        "shared wavefronts without conflicts": int(shared.ideal.sum()),
        "global sectors": int(traced.requests(run.trace, space="global").costs.sectors.sum()),
    }


def differences(
    runs: Sequence[Run],
    registers: Sequence[Registers],
    occupancies: Sequence[Sequence[Occupancy]],
    traffics: Sequence[Traffic],
) -> pd.DataFrame:
    """A table of the differences: what, A, B, in words.

    registers: of each side, and occupancies: of each launch of each side. Both are empty if they are not known.
    """
    requests, found = [run.request for run in runs], list[tuple[str, str, str, str]]()
    a, b = requests
    dense = all(tiling.accepts(request.kernel) for request in requests)

    def add(what: str, a: float | str, b: float | str, words: str = "") -> None:
        text_a, text_b = (f"{value:,}" if isinstance(value, (int, float)) else str(value) for value in (a, b))
        found.append((what, text_a, text_b, words or ("the same" if a == b else "differ")))

    def amounts(what: str, a: float, b: float) -> None:
        add(what, a, b, _ratio(a, b))

    launches = [
        "; ".join(
            f"{one.entry}: {' x '.join(map(str, one.grid))} blocks of {one.threads} threads" for one in r.plan.launches
        )
        for r in requests
    ]
    add("launches", *launches)
    for field in problem_differences(requests):
        add(*field)
    for name in dict.fromkeys([*a.constants, *b.constants]):
        add(name, a.constants.get(name, "none"), b.constants.get(name, "none"))
    items = [request.scope.count for request in requests]  # of a dense kernel, its traced queries
    if dense:
        items = [end - first for _, first, end in map(query_rows, requests)]
        amounts("queries of a tile", *items)
    amounts("shared bytes of a block", *(max(one.shared_bytes for one in r.plan.launches) for r in requests))
    for mode in registers[0] if registers else ():
        amounts(f"registers of a thread, {mode} build", *(one[mode] for one in registers))
    if occupancies:
        least = [min(launches, key=lambda launch: launch.warps) for launches in occupancies]
        texts = [f"{launch.warps} (limited by {launch.limited_by})" for launch in least]
        add("warps a multiprocessor holds", texts[0], texts[1], _ratio(least[0].warps, least[1].warps))
    moved = []
    for traffic in traffics:
        table = traffic.table[traffic.table.space == "global"]
        named = table.tensor.astype(str) + " " + table.kind.isin(READS).map({True: "read", False: "written"})
        moved.append(table.bytes.groupby(named).sum().astype(int).to_dict())
    for access in access_order(requests):
        tensor, _, verb = access.rpartition(" ")
        sizes = [one.get(access, 0) for one in moved]
        if any(sizes):
            amounts(f"bytes of {tensor} {verb}, global", *sizes)
    cost = [costs(run) for run in runs]
    for name in cost[0]:
        each = [one[name] / n for one, n in zip(cost, items)]
        item = "query" if dense else a.plan.item
        add(f"{name}, per {item}", round(each[0], 2), round(each[1], 2), _ratio(each[0], each[1]))
    return pd.DataFrame(found, columns=["what", f"A: {a.kernel.name}", f"B: {b.kernel.name}", "in words"])


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
    table = table[table.row.notna()].sort_values("seq", kind="stable")
    return pd.DataFrame({name: table[table.event == name].groupby("row").value.last() for name in ("m", "l")})


def outputs(run_a: Run, run_b: Run) -> pd.DataFrame:
    """Rows of (what, over, largest difference) between two runs of one problem. Empty for two problems."""
    rows: list[tuple[str, str, float]] = []
    if run_a.request.problem == run_b.request.problem:
        names = {tensor.name: symbol for symbol, tensor in axes.tensors(run_a.request).items()}
        for name in (output.name for output in run_a.request.problem.outputs):
            if name in run_a.arrays and name in run_b.arrays:
                a, b = (run.arrays[name].astype(np.float64) for run in (run_a, run_b))
                largest = float(np.abs(a - b).max())  # NaN if either has one
                rows.append((names.get(name, name), f"all {a.size:,} numbers", largest))
        both = state(run_a).merge(state(run_b), left_index=True, right_index=True, suffixes=("_a", "_b"))
        for name in ("m", "l") if len(both) else ():
            gap = float((both[f"{name}_a"] - both[f"{name}_b"]).abs().max(skipna=False))
            rows.append((f"{name} after the last tile", f"{len(both)} rows that both traced", gap))
    return pd.DataFrame(rows, columns=["what", "over", "largest difference"])


def output_sentence(table: pd.DataFrame, runs: Sequence[Run], errors: Sequence[Sequence[OutputError]]) -> str:
    """The distance of the two outputs in sentences, and the sides that are wrong on purpose.

    errors: the errors of each run's outputs (execute.judge).
    """
    right = [is_right(found) for found in errors]
    names = {
        "off": " and ".join(f"{side} {short(run.max_abs_error, 2)}" for side, run in zip(SIDES, runs)),
        "two": runs[0].request.problem != runs[1].request.problem,
        "largest": largest_sentence(table),
        "broken": broken_sentence([run.request for run in runs], right),
        "wrong": [side for side, ok in zip(SIDES, right) if not ok],
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
        for side, request, ok in zip(SIDES, requests, right)
        for constant in request.broken
    ]
    return " ".join(said)


def broken_tone(requests: Sequence[Request], right: Sequence[bool]) -> str:
    """Bad if a what-if makes an output wrong, else info."""
    return "bad" if any(request.broken and not ok for request, ok in zip(requests, right)) else "info"


# ---- sources ----

Line = tuple[int | None, str | None, int | None, str | None]


def diff(a: KernelSpec, b: KernelSpec) -> stage.Block:
    """Both sources side by side, in parts. The code comes first in sight: front matter is folded.

    A row is (left number, left text, right number, right text), with None on a side without the line. A part with
    `same` is unchanged and folded. CONTEXT lines around a change stay outside it. A part with `folded` is folded under
    that text.
    """
    left, right = a.source.splitlines(), b.source.splitlines()
    l0, r0 = _front(left), _front(right)
    front = [row for _, rows in _compared(left[:l0], right[:r0], 0, 0) for row in rows]
    parts: list[dict[str, object]] = []
    if front:
        changed = count(sum(row[1] != row[3] for row in front), "line differs", "lines differ")
        parts.append({"same": False, "folded": f"Front matter: {changed}", "rows": front})
    pieces = _compared(left[l0:], right[r0:], l0, r0)
    for number, (same, rows) in enumerate(pieces):
        before, after = CONTEXT if number else 0, CONTEXT if number < len(pieces) - 1 else 0
        end = len(rows) - after
        if same and len(rows) > before + after + 1:
            cut = (False, rows[:before]), (True, rows[before:end]), (False, rows[end:])
            parts += [{"same": folded, "rows": piece} for folded, piece in cut if piece]
        else:
            parts.append({"same": False, "rows": rows})
    return {"kind": "diff", "names": [f"A: {a.path.name}", f"B: {b.path.name}"], "parts": parts}


def _front(lines: list[str]) -> int:
    if not lines or not lines[0].startswith("/*"):
        return 0
    return next((n for n, line in enumerate(lines, 1) if line.strip() == "*/"), 0)


def _compared(left: list[str], right: list[str], l0: int, r0: int) -> list[tuple[bool, list[Line]]]:
    """l0, r0: the numbers of lines before these."""
    found, none = list[tuple[bool, list[Line]]](), (None, None)
    of_left, of_right = ([*enumerate(lines, first + 1)] for lines, first in ((left, l0), (right, r0)))
    for tag, a, b, c, d in difflib.SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        rows = zip_longest(of_left[a:b], of_right[c:d], fillvalue=none)
        found.append((tag == "equal", [(*one, *other) for one, other in rows]))
    return found
