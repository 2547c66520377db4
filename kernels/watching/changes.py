"""The changes between two looks at a kernel, in the order in which an engineer asks for them, and their report."""

import difflib
from dataclasses import dataclass

import numpy as np

from kernels.core.dtypes import widened
from kernels.core.tolerance import worst
from kernels.watching.look import Look

POSITION = ["launch", "block", "thread", "seq"]


@dataclass(frozen=True)
class Change:
    """A fact of both versions. before, after: as a person reads them. differs: whether they differ."""

    what: str
    before: str
    after: str
    differs: bool = True


def changes(before: Look, after: Look) -> list[Change]:
    """All facts of two versions: the first differing value, errors, registers, spills, counts, bytes and time."""
    found = [
        (_first_logged(before, after) or _first_element(before, after) or Change("first value", "", "", False)),
        _of("correct", _correct(before), _correct(after)),
    ]
    found.append(_of("largest error", *(f"{worst(look.errors).largest:.3g}" for look in (before, after))))
    for one, other in zip(before.entries, after.entries):
        name = "" if len(after.entries) == 1 else f" of {other.entry}"
        found += [
            _of(f"{label}{name}", *(f"{getattr(facts, key):,}" for facts in (one, other))) for label, key in FACTS
        ]
    found.append(_of("wavefronts", f"{before.wavefronts:,}", f"{after.wavefronts:,}"))
    found.append(_of("sectors", f"{before.sectors:,}", f"{after.sectors:,}"))
    for key in sorted({*before.bytes, *after.bytes}):
        tensor, space, kind = key
        moved = (f"{look.bytes.get(key, 0):,}" for look in (before, after))
        found.append(_of(f"bytes {kind} {tensor} ({space})", *moved))
    if before.time_us is not None and after.time_us is not None:
        found.append(_of("time on the GPU", f"{before.time_us:.2f} us", f"{after.time_us:.2f} us"))
    return found


FACTS = (("registers", "registers"), ("spilled bytes", "spill_bytes"), ("static shared bytes", "shared_bytes"))


def _of(what: str, before: str, after: str) -> Change:
    return Change(what, before, after, before != after)


def _correct(look: Look) -> str:
    return "yes" if look.is_correct else f"no: {look.faults[0]}" if look.faults else "no"


def _first_logged(before: Look, after: Look) -> Change | None:
    one, other = (look.run.trace.frame(*POSITION, "line", "value") for look in (before, after))
    both = one.merge(other, on=POSITION, suffixes=("_before", "_after"))
    differ = both[both.value_before.ne(both.value_after) & ~(both.value_before.isna() & both.value_after.isna())]
    if differ.empty:
        return None
    row = differ.sort_values(["launch", "seq", "block", "thread"]).iloc[0]
    where = f"line {int(row.line_after)}, block {int(row.block)}, thread {int(row.thread)}"
    return Change(f"first value: {where}", f"{row.value_before:.6g}", f"{row.value_after:.6g}")


def _first_element(before: Look, after: Look) -> Change | None:
    for name, held in after.arrays.items():
        other = before.arrays.get(name)
        if other is None or other.shape != held.shape:
            continue
        one, two = widened(other), widened(held)
        same = (one == two) | ((one != one) & (two != two))
        if not same.all():
            at = tuple(int(i) for i in np.argwhere(~same)[0])
            return Change(f"first value: {name}[{', '.join(map(str, at))}]", f"{one[at]:.6g}", f"{two[at]:.6g}")
    return None


def lines(found: list[Change]) -> list[str]:
    """The changes that differ as aligned lines, or one line without any."""
    shown = [change for change in found if change.differs]
    if not shown:
        return ["No count and no value changed."]
    width = max(len(change.what) for change in shown)
    return [f"{change.what:{width}}  {change.before} -> {change.after}" for change in shown]


DIFF_LINES = 200


def markdown(before: Look, after: Look) -> str:
    """The report: the problem, the facts of both versions, their faults, and the difference of the texts."""
    request = after.run.request
    names = before.kernel.path.name, after.kernel.path.name
    found = changes(before, after)
    parts = [
        f"# {names[0]} and {names[1]}",
        f"Problem: {request.problem.size}. Counts cover the first {request.plan.launches[0].item}, run on the CPU.",
        _table(names, found),
    ]
    parts += [
        "\n".join([f"Faults of {look.kernel.path.name}:", *(f"- {fault}" for fault in look.faults)])
        for look in (before, after)
        if look.faults
    ]
    if after.note:
        parts.append(f"Registers are unknown: {after.note}")
    return "\n\n".join([*parts, _difference(before, after)]) + "\n"


def _table(names: tuple[str, str], found: list[Change]) -> str:
    rows = [f"| | {names[0]} | {names[1]} |", "| --- | --- | --- |"]
    for change in found:
        mark = "**" if change.differs else ""
        cells = (_cell(text) for text in (change.before, change.after))
        rows.append(f"| {mark}{_cell(change.what)}{mark} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ") or "same"


def _difference(before: Look, after: Look) -> str:
    one, two = (look.kernel.source.splitlines() for look in (before, after))
    name, other = before.kernel.path.name, after.kernel.path.name
    shown = list(difflib.unified_diff(one, two, name, other, lineterm="", n=1))
    rest = [f"... {len(shown) - DIFF_LINES} more lines"] if len(shown) > DIFF_LINES else []
    fence = "`" * (max((line.count("`") for line in shown), default=0) + 3)
    return "\n".join([f"{fence}diff", *shown[:DIFF_LINES], *rest, fence])
