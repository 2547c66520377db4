"""Two sources side by side, line by line."""

import difflib
from itertools import zip_longest
from typing import Any

from explainers.story import stage
from kernels.core.spec import KernelSpec

CONTEXT = 3  # unchanged lines around a change; the rest of a long run is folded


def diff(a: KernelSpec, b: KernelSpec) -> stage.Block:
    """Returns both sources side by side, in parts.

    A row is (left number, left text, right number, right text), with None on a side without the line. A part with
    `same` is unchanged and folded. CONTEXT lines around a change stay outside it.
    """
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
