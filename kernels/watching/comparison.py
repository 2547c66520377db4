"""The table of two versions of a kernel: compare(), and its forms in lines, in Markdown and in JSON."""

import difflib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass

import numpy as np

from kernels.build import EntryFacts
from kernels.core.request import Request
from kernels.core.tensors import Initial
from kernels.core.tolerance import worst
from kernels.errors import RunError
from kernels.watching import values
from kernels.watching.version import MOST_ROWS, Traced, Version, of_all_items

BETTER, WORSE, UNKNOWN = "better", "worse", "unknown"
DIFF_LINES = 200
SAME_TIME = 0.05  # of a time: a smaller difference has no verdict


@dataclass(frozen=True)
class Row:
    """A fact of both versions.

    before, after: as a person reads them. UNKNOWN for a fact of the other version only.
    where: the place of a difference, or "".
    judged: BETTER or WORSE for the later version, or "" if that is not plain."""

    what: str
    before: str
    after: str
    where: str = ""
    judged: str = ""

    @property
    def differs(self) -> bool:
        return self.before != self.after and UNKNOWN not in (self.before, self.after)

    @property
    def label(self) -> str:
        return f"{self.what}: {self.where}" if self.where else self.what


@dataclass(frozen=True)
class Comparison:
    """Two versions side by side.

    reasons: of each version, the sentences about its error or its wrong result.
    notes: sentences about the table.
    difference: of the texts, as a unified diff."""

    names: tuple[str, str]
    rows: tuple[Row, ...]
    reasons: tuple[tuple[str, ...], tuple[str, ...]]
    notes: tuple[str, ...]
    difference: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        rows = [{**asdict(row), "differs": row.differs} for row in self.rows]
        return {**asdict(self), "rows": rows, "markdown": markdown(self)}


def compare_whole(before: Version, after: Version, trace: Callable[[Request], Traced]) -> Comparison:
    """compare(), over all items if both traces are short and no other item stops. trace: see of_all_items."""
    both = before, after
    if before.run and after.run and max(before.rows_of_all, after.rows_of_all) <= MOST_ROWS:
        with suppress(RunError):
            both = of_all_items(before, trace), of_all_items(after, trace)
    return compare(*both)


def compare(before: Version, after: Version) -> Comparison:
    firsts = [*_first_differences(before, after)] if _one_problem(before, after) else []
    doubt = _doubt(before, after, firsts)
    plain = not doubt
    fair = plain and _same_items(before, after)
    rows = [_verdict(before, after), *_errors(before, after), *firsts, *_launches(before, after)]
    rows += [*_compiled(before, after, plain), *_counts(before, after, fair)]
    rows += [*(_moved(before, after) if firsts else ()), *_times(before, after, plain)]
    if plain and not fair:
        doubt = "The counts cover different parts of the work, so they have no verdict."
    notes = [*_covered(before, after, bool(firsts)), *([doubt] if doubt else []), *_unknown(before, after)]
    reasons = tuple(before.reasons), tuple(after.reasons)
    return Comparison((before.name, after.name), tuple(rows), reasons, tuple(notes), _difference(before, after))


def _doubt(before: Version, after: Version, firsts: list[Row]) -> str:
    """The reason why no number has a verdict, in a sentence, or ""."""
    if not before.run or not after.run:
        return "A version has no run, so no number has a verdict."
    if not firsts:
        return (
            "The versions have different inputs or outputs, so no value is compared and no number has a verdict. Give "
            "both the same tensors."
        )
    if not before.is_right or not after.is_right:
        return "A version is wrong, so no number has a verdict."
    if firsts[0].differs and not (before.errors and after.errors):
        return "The values differ, and no truth is known, so no number has a verdict."
    return ""


def _one_problem(before: Version, after: Version) -> bool:
    """Whether both ran on equal inputs, and wrote outputs of equal shapes. Their names tell which belong together."""
    if not before.run or not after.run:
        return False
    one, other = before.run.request.problem, after.run.request.problem
    if one == other:
        return True
    shapes = [{t.name: (t.shape, t.dtype, t.initial) for t in problem.tensors()} for problem in (one, other)]
    if shapes[0] != shapes[1] or [t.name for t in one.outputs] != [t.name for t in other.outputs]:
        return False
    given, inputs = one.inputs(), other.inputs()
    named = [tensor.name for tensor in one.tensors() if tensor.initial is Initial.GIVEN]
    return all(np.array_equal(given[name].view(np.uint8), inputs[name].view(np.uint8)) for name in named)


def _same_items(before: Version, after: Version) -> bool:
    """Whether both counts cover all items, or the first of equally many."""
    assert before.run and after.run
    plans = [version.run.request.plan for version in (before, after) if version.run]
    one, other = ([(launch.item, launch.items) for launch in plan.launches] for plan in plans)
    whole = not before.run.trace.lost and not after.run.trace.lost
    return whole and before.whole == after.whole and (before.whole or one == other)


def _verdict(before: Version, after: Version) -> Row:
    judged = "" if before.is_right == after.is_right else BETTER if after.is_right else WORSE
    return Row("verdict", before.verdict, after.verdict, judged=judged)


def _errors(before: Version, after: Version) -> Iterator[Row]:
    if before.errors or after.errors:
        said = [f"{worst(v.errors).largest:.3g}" if v.errors else UNKNOWN for v in (before, after)]
        yield Row("largest error against float64", *said)


def _first_differences(before: Version, after: Version) -> Iterator[Row]:
    assert before.run and after.run
    found = values.first_value(before.run, after.run, before.arrays, after.arrays)
    yield Row("first different value", found.before, found.after, found.place)
    if access := values.first_access(before.run, after.run):
        yield Row("first different access", access.before, access.after, access.place)


def _launches(before: Version, after: Version) -> Iterator[Row]:
    said = []
    for version in (before, after):
        plan = version.run.request.plan if version.run else None
        shapes = [
            f"{launch.entry}: {_sides(launch.grid)} blocks of {_sides(launch.block)} threads"
            for launch in (plan.launches if plan else ())
        ]
        said.append("; ".join(dict.fromkeys(shapes)) or UNKNOWN)
    if said != [UNKNOWN, UNKNOWN]:
        yield Row("launches", *said)


def _sides(sizes: tuple[int, int, int]) -> str:
    """The sizes without the last ones of 1: "2 x 3" for (2, 3, 1)."""
    x, y, z = sizes
    return f"{x} x {y} x {z}" if z > 1 else f"{x} x {y}" if y > 1 else f"{x}"


FACTS = (
    ("registers of a thread", "registers"),
    ("local memory of a thread, bytes", "stack_bytes"),
    ("spilled bytes of a thread", "spill_bytes"),
    ("static shared memory of a block, bytes", "shared_bytes"),
)


def _compiled(before: Version, after: Version, plain: bool) -> Iterator[Row]:
    """ptxas's facts. Kernels with one name belong together, and so do two single ones."""
    pairs = _pairs(before.entries, after.entries)
    for entry, one, other in pairs:
        for label, key in FACTS:
            said, later = (UNKNOWN if facts is None else f"{getattr(facts, key):,}" for facts in (one, other))
            judged = ""
            if key == "stack_bytes" and plain and one and other:
                # fewer bytes are better, unless they cost registers
                changed = (other.stack_bytes - one.stack_bytes, other.registers - one.registers)
                judged = _judged(changed[0], changed[1])
            yield Row(f"{label}, {entry}" if len(pairs) > 1 else label, said, later, judged=judged)


Pair = tuple[str, EntryFacts | None, EntryFacts | None]


def _pairs(before: tuple[EntryFacts, ...], after: tuple[EntryFacts, ...]) -> list[Pair]:
    if len(before) == len(after) == 1:
        return [(after[0].entry, before[0], after[0])]
    one, other = ({facts.entry: facts for facts in entries} for entries in (before, after))
    return [(name, one.get(name), other.get(name)) for name in dict.fromkeys([*one, *other])]


def _judged(change: float, price: float) -> str:
    """The verdict on a number of which less is better, if nothing else pays for its change."""
    if change < 0 and price <= 0:
        return BETTER
    return WORSE if change > 0 and price >= 0 else ""


def _counts(before: Version, after: Version, fair: bool) -> Iterator[Row]:
    if not before.run and not after.run:
        return
    totals = [_totals(version) for version in (before, after)]
    for label in totals[0] or totals[1]:
        said, later = (f"{total[label]:,}" if total else UNKNOWN for total in totals)
        judged = ""
        if fair and label in JUDGED:
            paid = JUDGED[label]
            judged = _judged(totals[1][label] - totals[0][label], totals[1][paid] - totals[0][paid])
        yield Row(label, said, later, judged=judged)


def _moved(before: Version, after: Version) -> Iterator[Row]:
    """The bytes of each tensor, if they differ."""
    for key in sorted({*before.bytes, *after.bytes}):
        tensor, space, kind = key
        row = Row(f"bytes, {kind} {tensor}, {space}", *(f"{v.bytes.get(key, 0):,}" for v in (before, after)))
        if row.differs:
            yield row


WAVEFRONTS, SECTORS = "wavefronts of shared memory", "sectors of global memory"
JUDGED = {WAVEFRONTS: SECTORS, SECTORS: WAVEFRONTS}
"""A count with a verdict -> the one that may pay for it."""


def _totals(version: Version) -> dict[str, int]:
    costs = version.costs
    if not version.run:
        return {}
    shared = costs.space == "shared"
    return {
        "requests of warps, shared memory": int(shared.sum()),
        WAVEFRONTS: int(costs.wavefronts.sum()),
        "wavefronts by bank conflicts": int(costs.conflicts.sum()),
        "requests of warps, global memory": int((~shared).sum()),
        SECTORS: int(costs.sectors.sum()),
    }


def _times(before: Version, after: Version, plain: bool) -> Iterator[Row]:
    times = [version.time_us if version.is_right else None for version in (before, after)]
    if times == [None, None]:
        return
    one, other = times
    judged = ""
    if plain and one is not None and other is not None and abs(other - one) > SAME_TIME * one:
        judged = BETTER if other < one else WORSE
    said, later = (UNKNOWN if time is None else f"{time:.2f} us" for time in times)
    yield Row("time on the GPU", said, later, judged=judged)


def _covered(before: Version, after: Version, one_problem: bool) -> Iterator[str]:
    ran = [(version.name, version.whole, version.run.request) for version in (before, after) if version.run]
    for name, whole, request in ran[:1] if one_problem else ran:
        item = request.plan.launches[0].item
        of = "" if one_problem else f" of {name}"
        covered = f"all {item}s" if whole else f"the first {item}"
        yield f"Problem{of}: {request.problem.size}. Counts cover {covered}, run on the CPU."


def _unknown(before: Version, after: Version) -> Iterator[str]:
    for version in (before, after):
        if version.note and not version.error:
            yield f"Registers of {version.name} are unknown: {version.note}"


def _difference(before: Version, after: Version) -> tuple[str, ...]:
    one, two = (version.text.splitlines() for version in (before, after))
    shown = list(difflib.unified_diff(one, two, before.name, after.name, lineterm="", n=1))
    rest = [f"... {len(shown) - DIFF_LINES} more lines"] if len(shown) > DIFF_LINES else []
    return (*shown[:DIFF_LINES], *rest)


# ---- forms ----


def lines(rows: tuple[Row, ...]) -> list[str]:
    """The different rows for a terminal."""
    shown = [row for row in rows if row.differs]
    if not shown:
        return ["No count and no value changed."]
    width = max(len(row.label) for row in shown)
    judged = [f" ({row.judged})" if row.judged else "" for row in shown]
    return [f"{row.label:{width}}  {row.before} -> {row.after}{end}" for row, end in zip(shown, judged)]


def markdown(found: Comparison) -> str:
    """The table with bold different rows, the reasons, the notes, and the difference of the texts."""
    one, other = map(_cell, found.names)
    rows = [f"| | {one} | {other} | |", "| --- | --- | --- | --- |"]
    for row in found.rows:
        mark = "**" if row.differs else ""
        cells = (f"{mark}{_cell(row.label)}{mark}", _cell(row.before), _cell(row.after), row.judged)
        rows.append(f"| {' | '.join(cells)} |")
    parts = [f"# {found.names[0]} and {found.names[1]}", *found.notes, "\n".join(rows)]
    for name, reasons in zip(found.names, found.reasons):
        if reasons:
            parts.append("\n".join([f"Faults of {name}:", *(f"- {_line(reason)}" for reason in reasons)]))
    fence = "`" * (max((line.count("`") for line in found.difference), default=0) + 3)
    parts.append("\n".join([f"{fence}diff", *found.difference, fence]) if found.difference else "The texts are equal.")
    return "\n\n".join(parts) + "\n"


def _line(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    return _line(text).replace("|", "\\|")
