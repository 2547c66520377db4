"""Two sources side by side, line by line."""

import difflib
from itertools import zip_longest

from explainers.story import stage
from explainers.story.glossary import count
from kernels.core.spec import KernelSpec

Row = list[int | str | None]
CONTEXT = 3  # unchanged lines around a change


def diff(a: KernelSpec, b: KernelSpec) -> stage.Block:
    """Returns both sources side by side, in parts. The code comes first in sight: front matter is folded.

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
            parts += _folded(rows, CONTEXT if number else 0, CONTEXT if number < last else 0)
        else:
            parts.append({"same": False, "rows": rows})
    return {"kind": "diff", "names": [f"A: {a.path.name}", f"B: {b.path.name}"], "parts": parts}


def _front(lines: list[str]) -> int:
    """Returns the number of lines of front matter."""
    if not lines or not lines[0].startswith("/*"):
        return 0
    return next((n for n, line in enumerate(lines, 1) if line.strip() == "*/"), 0)


def _compared(
    left: list[str], right: list[str], of_left: tuple[int, int], of_right: tuple[int, int]
) -> list[tuple[bool, list[Row]]]:
    """Returns the runs of equal and of different lines: whether they are equal, and their rows."""
    matcher = difflib.SequenceMatcher(None, left[slice(*of_left)], right[slice(*of_right)], autojunk=False)
    found: list[tuple[bool, list[Row]]] = []
    for tag, l0, l1, r0, r1 in matcher.get_opcodes():
        lines = zip_longest(range(of_left[0] + l0, of_left[0] + l1), range(of_right[0] + r0, of_right[0] + r1))
        found.append((tag == "equal", [[*_side(left, i), *_side(right, j)] for i, j in lines]))
    return found


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
