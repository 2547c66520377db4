"""The report of two versions of a kernel in Markdown. Its counts need no GPU."""

import difflib

from kernels.watching.changes import Change, changes
from kernels.watching.look import Look

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
