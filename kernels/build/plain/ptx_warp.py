"""Instructions of a warp, a warpgroup or a block: matrices, products, shuffles, votes, barriers."""

import re
from collections.abc import Callable

from kernels.build.plain.ptx import SPECIAL, Instruction, Untaken

_TYPES = {"f16": 0, "bf16": 1, "tf32": 2, "e4m3": 3, "e5m2": 4, "s8": 5, "u8": 6, "f64": 7}
_SUMS = {"f32": 0, "f16": 1, "s32": 2, "f64": 3}
_WIDTHS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "f64": 64}
"""A type of an element, and of a sum -> its number in device/simt/cuda/matrices.h, and the bits of an element."""


def _matrix(one: Instruction) -> str:
    """ldmatrix and stmatrix."""
    words = one.parts[1:]
    count = next(int(word[1:]) for word in words if re.fullmatch(r"x[124]", word))
    rest = set(words) - {"sync", "aligned", "m8n8", f"x{count}", "trans", "shared", "shared::cta", "b16"}
    if rest or "b16" not in words:
        raise Untaken(one.name)
    trans = int("trans" in words)
    if one.parts[0] == "ldmatrix":
        targets, values = one.listed(0), one.array(4)
        if len(targets) != count:
            raise Untaken(one.name)
        rows = [f"unsigned {values}[4]; simt_ptx_ldmatrix({values}, {count}, {trans}, {one.address(1, True)});"]
        return " ".join([*rows, *(f"{one.written(text, 'b32')} = {values}[{n}];" for n, text in enumerate(targets))])
    sources = one.listed(1)
    if len(sources) != count:
        raise Untaken(one.name)
    read = ", ".join(f"(unsigned){one.read(text, 'b32')}" for text in sources)
    values = one.array(4)
    given = f"const unsigned {values}[4] = {{{read}}};"
    return f"{given} simt_ptx_stmatrix({values}, {count}, {trans}, {one.address(0, True)});"


def _movmatrix(one: Instruction) -> str:
    if one.name != "movmatrix.sync.aligned.m8n8.trans.b16":
        raise Untaken(one.name)
    return f"{one.target(0, 'b32')} = simt_ptx_movmatrix({one.value(1, 'b32')});"


def _product(one: Instruction) -> str:
    """mma.sync of 16x8 products. Registers: a warp's, 32 bits each (64 for f64)."""
    words = one.parts[1:]
    shape = re.fullmatch(r"m(\d+)n8k(\d+)", next(word for word in words if re.fullmatch(r"m\d+n\d+k\d+", word)))
    if shape is None or words[:2] != ["sync", "aligned"] or words[3:5] != ["row", "col"]:
        raise Untaken(one.name)
    rest = [word for word in words[5:] if word not in ("satfinite", "kind::f8f6f4")]
    d, a, b, c = rest
    rows, depth = int(shape[1]), int(shape[2])
    if c != d or a not in _TYPES or b not in _TYPES or d not in _SUMS or _WIDTHS[a] != _WIDTHS[b]:
        raise Untaken(one.name)
    fits = {"f64": "f64", "s8": "s32", "u8": "s32"}.get(a)
    if fits and d != fits or not fits and d not in ("f32", "f16") or rows != (8 if a == "f64" else 16):
        raise Untaken(one.name)
    width = max(32, _WIDTHS[a])
    counts = [rows * depth * _WIDTHS[a] // width // 32, 8 * depth * _WIDTHS[a] // width // 32]
    sums = rows * 8 * (16 if d == "f16" else max(32, _WIDTHS[a]) if d == "f64" else 32) // width // 32
    lists = [one.listed(n) for n in range(4)]
    if [len(each) for each in lists] != [sums, *counts, sums]:
        raise Untaken(one.name)
    names = [one.array(1) for _ in range(4)]
    given = [
        f"const unsigned long long {name}[] = {{{', '.join(map(one.read, texts))}}};"
        for name, texts in zip(names[1:], lists[1:])
    ]
    kind = f"{_TYPES[a]}, {_TYPES[b]}, {_SUMS[d]}, {depth}, {int('satfinite' in words)}"
    call = f"unsigned long long {names[0]}[{sums}]; simt_ptx_mma({names[0]}, {', '.join(names[1:])}, {kind});"
    return " ".join([*given, call, *(f"{one.written(text)} = {names[0]}[{n}];" for n, text in enumerate(lists[0]))])


def _shuffle(one: Instruction) -> str:
    way = {"idx": 0, "up": 1, "down": 2, "bfly": 3}[one.parts[2]]
    if one.parts[1] != "sync" or one.parts[3] != "b32":
        raise Untaken(one.name)
    first, _, second = one.operands[0].partition("|")
    inside = one.fresh("pred").cpp
    values = ", ".join(one.value(n) for n in (1, 2, 3, 4))
    result = f"bool {inside}; {one.written(first, 'b32')} = simt_ptx_shuffle({way}, {values}, {inside});"
    return f"{result} {one.written(second, 'pred')} = {inside};" if second else result


def _vote(one: Instruction) -> str:
    how = {"all": 0, "any": 1, "uni": 2, "ballot": 3}[one.parts[2]]
    text = one.operands[1]
    holds = f"{'!' * text.startswith('!')}{one.read(text.lstrip('!'), 'pred')}"
    of = "b32" if how == 3 else "pred"
    return f"{one.target(0, of)} = simt_ptx_vote({how}, {holds}, {one.value(2)});"


def _redux(one: Instruction) -> str:
    how, of = one.parts[2:]
    if how not in ("add", "min", "max", "and", "or", "xor") or of not in ("u32", "s32", "b32"):
        raise Untaken(one.name)
    cpp = "int" if of == "s32" else "unsigned"
    return f"{one.target(0, 'b32')} = simt_ptx_redux_{how}<{cpp}>({one.value(1, of)}, {one.value(2)});"


def _mask(one: Instruction) -> str:
    return f"{one.target(0, 'b32')} = ~0u;"


def _elect(one: Instruction) -> str:
    first, _, second = one.operands[0].partition("|")
    chosen = one.fresh("b32").cpp
    rows = [f"const unsigned long long {chosen} = simt_ptx_elect({one.value(1)});"]
    rows.append(f"{one.written(first, 'b32')} = {chosen};")
    return " ".join([*rows, f"{one.written(second, 'pred')} = {chosen} == ({SPECIAL['laneid']});"])


def _barrier(one: Instruction) -> str:
    words = [word for word in one.parts[1:] if word not in ("cta", "aligned")]
    if words == ["warp", "sync"]:
        return f"simt_ptx_syncwarp({one.value(0)});"
    if words not in (["sync"], ["arrive"]):
        raise Untaken(one.name)
    number = one.value(0) if one.operands else "0"
    count = one.value(1) if len(one.operands) > 1 else "0"
    return f"simt_ptx_barrier({number}, {count}, {int(words == ['sync'])});"


def _wait_a_little(one: Instruction) -> str:
    return "simt_ptx_spin();"


def _trap(one: Instruction) -> str:
    return "simt_ptx_trap();"


def _nothing(one: Instruction) -> str:
    return ""


# ---- wgmma: products by a warpgroup, 128 threads ----


def _warpgroup(one: Instruction) -> str:
    words = one.parts[1:]
    if words[0] == "mma_async":
        return _joint_product(one, words)
    if words[1:] != ["sync", "aligned"]:
        raise Untaken(one.name)
    if words[0] == "wait_group":
        return f"simt_ptx_wgmma_wait({one.value(0)});"
    if words[0] in ("fence", "commit_group"):
        return f"simt_ptx_wgmma_{'fence' if words[0] == 'fence' else 'commit'}();"
    raise Untaken(one.name)


def _joint_product(one: Instruction, words: list[str]) -> str:
    shape = re.fullmatch(r"m64n(\d+)k(\d+)", words[3])
    if shape is None or words[1:3] != ["sync", "aligned"]:
        raise Untaken(one.name)
    d, a, b = [word for word in words[4:] if word != "satfinite"]
    columns, depth = int(shape[1]), int(shape[2])
    if a not in _TYPES or d not in _SUMS or _WIDTHS[a] != _WIDTHS[b] or depth * _WIDTHS[a] != 256 or columns % 8:
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
    types = f"{_TYPES[a]}, {_TYPES[b]}, {_SUMS[d]}, {columns}"
    scale = one.value(3)
    rows.append(f"simt_ptx_wgmma({held}, {operand}, {first}, {one.value(2, 'b64')}, ({scale}) != 0, {flags}, {types});")
    return " ".join([*rows, *(f"{one.written(text)} = {held}[{n}];" for n, text in enumerate(targets))])


RULES: dict[str, Callable[[Instruction], str]] = {
    **{"ldmatrix": _matrix, "stmatrix": _matrix, "movmatrix": _movmatrix, "mma": _product},
    **{"shfl": _shuffle, "vote": _vote, "redux": _redux, "activemask": _mask, "elect": _elect},
    **{"bar": _barrier, "barrier": _barrier, "nanosleep": _wait_a_little, "trap": _trap},
    **{"griddepcontrol": _nothing, "setmaxnreg": _nothing, "wgmma": _warpgroup},
}
