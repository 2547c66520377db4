"""Two sources side by side, line by line."""

import difflib
from itertools import zip_longest

from explainers.story import stage
from kernels.core.spec import KernelSpec

Row = list[int | str | None]
CONTEXT = 3  # unchanged lines around a change


def diff(a: KernelSpec, b: KernelSpec) -> stage.Block:
    """Returns both sources side by side, in parts.

    A row is (left number, left text, right number, right text), with None on a side without the line. A part with
    `same` is unchanged and folded. CONTEXT lines around a change stay outside it.
    """
    left, right = a.source.splitlines(), b.source.splitlines()
    opcodes = difflib.SequenceMatcher(None, left, right, autojunk=False).get_opcodes()
    last = len(opcodes) - 1
    parts: list[dict[str, object]] = []
    for number, (tag, l0, l1, r0, r1) in enumerate(opcodes):
        lines = zip_longest(range(l0, l1), range(r0, r1))
        rows = [[*_side(left, i), *_side(right, j)] for i, j in lines]
        if tag == "equal":
            parts += _folded(rows, CONTEXT if number else 0, CONTEXT if number < last else 0)
        else:
            parts.append({"same": False, "rows": rows})
    return {"kind": "diff", "names": [f"A: {a.path.name}", f"B: {b.path.name}"], "parts": parts}


def _side(lines: list[str], index: int | None) -> tuple[int | None, str | None]:
    """Returns the number and the text of a line, None on a side without it."""
    return (None, None) if index is None else (index + 1, lines[index])


def _folded(rows: list[Row], before: int, after: int) -> list[dict[str, object]]:
    """Returns an unchanged run as parts. Its first and last lines stay unfolded."""
    if len(rows) <= before + after + 1:
        return [{"same": False, "rows": rows}]
    end = len(rows) - after
    pieces = [
        {"same": False, "rows": rows[:before]},
        {"same": True, "rows": rows[before:end]},
        {"same": False, "rows": rows[end:]},
    ]
    return [piece for piece in pieces if piece["rows"]]
