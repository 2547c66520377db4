"""wgmma: products by a warpgroup, 128 threads."""

import re
from collections.abc import Callable

from kernels.build.plain.ptx import Instruction, Untaken
from kernels.build.plain.ptx_warp import SUMS, TYPES, WIDTHS


def _call(one: Instruction) -> str:
    words = one.parts[1:]
    if words[0] == "mma_async":
        return _product(one, words)
    if words[1:] != ["sync", "aligned"]:
        raise Untaken(one.name)
    if words[0] == "wait_group":
        return f"simt_ptx_wgmma_wait({one.value(0)});"
    if words[0] in ("fence", "commit_group"):
        return f"simt_ptx_wgmma_{'fence' if words[0] == 'fence' else 'commit'}();"
    raise Untaken(one.name)


def _product(one: Instruction, words: list[str]) -> str:
    shape = re.fullmatch(r"m64n(\d+)k(\d+)", words[3])
    if shape is None or words[1:3] != ["sync", "aligned"]:
        raise Untaken(one.name)
    d, a, b = [word for word in words[4:] if word != "satfinite"]
    columns, depth = int(shape[1]), int(shape[2])
    if a not in TYPES or d not in SUMS or WIDTHS[a] != WIDTHS[b] or depth * WIDTHS[a] != 256 or columns % 8:
        raise Untaken(one.name)
    targets, sources = one.listed(0), one.listed(1)
    count = columns // (4 if d == "f16" else 2)
    if columns > 256 or len(targets) != count or len(sources) not in (1, 4):
        raise Untaken(one.name)
    shared = len(sources) == 1
    signs, turned = one.operands[4:6], one.operands[6:]
    if a in ("s8", "u8"):
        signs, turned = (), ()
    whole = [one.read(text) for text in (*signs, *turned)]
    minus = [f"((long long)({text}) < 0)" for text in whole[: len(signs)]] or ["0", "0"]
    turns = whole[len(signs) :] if shared else ["0", *whole[len(signs) :]]
    turns = [*turns, "0", "0"][:2]
    held, own = one.array(1), one.array(1)
    rows = [f"unsigned long long {held}[] = {{{', '.join(map(one.read, targets))}}};"]
    if shared:
        first, operand = one.read(sources[0], "b64"), "nullptr"
    else:
        rows.append(f"const unsigned long long {own}[] = {{{', '.join(map(one.read, sources))}}};")
        first, operand = "0", own
    flags = f"({minus[0]} | {minus[1]} << 1 | (int)({turns[0]} != 0) << 2 | (int)({turns[1]} != 0) << 3)"
    types = f"{TYPES[a]}, {TYPES[b]}, {SUMS[d]}, {columns}"
    scale = one.value(3)
    rows.append(f"simt_ptx_wgmma({held}, {operand}, {first}, {one.value(2, 'b64')}, ({scale}) != 0, {flags}, {types});")
    return " ".join([*rows, *(f"{one.written(text)} = {held}[{n}];" for n, text in enumerate(targets))])


RULES: dict[str, Callable[[Instruction], str]] = {"wgmma": _call}
