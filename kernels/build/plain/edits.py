"""The text that compiles for the CPU. No edit moves a line.

1. `extern __shared__ T s[];` becomes a pointer to the block's dynamic shared memory.
2. A call after each other `__shared__` array tells the runtime its name, so that each block starts with poison.
3. `return;` of a kernel notes its line, so that a divergent barrier names it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from kernels.build.plain.tokens import Token, closing, functions, tokens

_ATTRIBUTES = ("__align__", "alignas", "__attribute__")
Edit = tuple[int, int, str]  # start, end, the new text


@dataclass(frozen=True)
class Arrays:
    """The __shared__ arrays of a declaration: its token numbers, and the names."""

    first: int
    last: int
    names: tuple[str, ...]
    dynamic: bool


def cpu_text(text: str, more: Sequence[Edit] = ()) -> str:
    """A text for the CPU, with all edits: of a program, or of device code (device_text).

    more: other edits, such as the calls of marks."""
    found = tokens(text)
    listed, arrays = functions(text, found), shared_arrays(found)
    edits, outside = [*more], list[tuple[int, str]]()
    for array in arrays:
        inside = any(f.body < array.first < f.last for f in listed)
        if array.dynamic:
            edits.append(_pointer(text, found, array))
            continue
        declared = found[array.first : array.last]
        edits += [(t.start, t.end, "__align__") for t in declared if t.text == "alignas"]
        edits += [(t.start, t.end, "") for t in declared if t.text == "static"]  # __shared__ itself becomes static
        calls = "".join(f' simt_shared_array("{name}", {name});' for name in array.names)
        if inside:
            edits.append((found[array.last].end, found[array.last].end, calls))
        else:
            outside.append((array.first, calls))
    for kernel in (f for f in listed if f.is_kernel):
        at = found[kernel.body].end
        edits.append((at, at, "".join(calls for first, calls in outside if first < kernel.first)))
        edits += [
            (token.start, after.end, "{ simt_leave_here(); return; }")
            for token, after in pairwise(found[kernel.body : kernel.last + 1])
            if token.text == "return" and after.text == ";"
        ]
    return applied(text, edits)


def shared_arrays(found: list[Token]) -> list[Arrays]:
    listed = []
    for at, token in enumerate(found):
        if token.text != "__shared__":
            continue
        first = at
        while first and found[first - 1].text not in (";", "{", "}", ")", ":"):
            first -= 1
        last = at
        while last < len(found) - 1 and found[last].text != ";":
            last = closing(found, last) + 1 if found[last].text in ("(", "[", "{") else last + 1
        words = [t.text for t in found[first:at]]
        names, depth, angles, before = [], 0, 0, ""
        start = at + 1
        if found[start].text in ("struct", "union", "class"):  # with a body: its name is no array's
            start = next((closing(found, n) + 1 for n in range(start, last) if found[n].text == "{"), start)
        for text in [*(t.text for t in found[start:last]), ";"]:
            if depth == 0 and angles == 0 and text in ("[", ",", "=", ";", "{") and re.match(r"[A-Za-z_]\w*$", before):
                names.append(before)
            if depth == 0:
                angles += (text == "<") - (text == ">")
            depth += (text in "([{") - (text in ")]}")
            before = text if depth == 0 and text not in ")]}" else ""
        dynamic = "extern" in [*words, *(t.text for t in found[at + 1 : at + 2])]
        listed.append(Arrays(first, last, tuple(dict.fromkeys(names)), dynamic))
    return listed


def dynamic_names(files: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """The names of the arrays in dynamic shared memory, each once."""
    arrays = [array for _, text in files for array in shared_arrays(tokens(text)) if array.dynamic]
    return tuple(dict.fromkeys(name for array in arrays for name in array.names))


def _pointer(text: str, found: list[Token], array: Arrays) -> Edit:
    words, at = [], array.first
    while at < array.last and found[at].text != "[":
        if found[at].text in _ATTRIBUTES:
            at = closing(found, at + 1)
        elif found[at].text not in ("extern", "__shared__"):
            words.append(found[at].text)
        at += 1
    *kind, name = words
    of = " ".join(kind).replace(" :: ", "::")
    start, end = found[array.first].start, found[array.last].end
    lines = "\n" * text.count("\n", start, end)
    rest = closing(found, at) + 1 if at < array.last else at  # behind the first [], as of s[][32]
    sizes = " ".join(text[found[rest].start : found[array.last].start].split()) if rest < array.last else ""
    if sizes.startswith("["):
        made = f"{of} (*const {name}){sizes} = reinterpret_cast<{of} (*){sizes}>(simt_dynamic_shared());"
        return start, end, f"{made}{lines}"
    return start, end, f"{of}* const {name} = reinterpret_cast<{of}*>(simt_dynamic_shared());{lines}"


def applied(text: str, edits: list[Edit]) -> str:
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text
