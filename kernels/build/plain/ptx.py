"""The inline PTX that a plain kernel may have: few instructions, each with its meaning in C++ for the CPU."""

import re
from dataclasses import dataclass

from kernels.build.plain.tokens import Token, closing

_FLOATS = {"rcp": "1.f / {1}", "rsqrt": "rsqrtf({1})", "sqrt": "sqrtf({1})", "ex2": "exp2f({1})", "lg2": "log2f({1})"}
_FLOATS |= {"sin": "sinf({1})", "cos": "cosf({1})", "tanh": "tanhf({1})"}
_TYPES = {"f32": "float", "u32": "unsigned", "s32": "int", "b32": "unsigned", "u64": "unsigned long long"}
MEANINGS: dict[str, str] = {
    **{f"{name}.approx{ftz}.f32": f"{{0}} = {text}" for name, text in _FLOATS.items() for ftz in ("", ".ftz")},
    **{f"fma.rn{ftz}.f32": "{0} = fmaf({1}, {2}, {3})" for ftz in ("", ".ftz")},
    **{f"add{kind}.f32": "{0} = {1} + {2}" for kind in ("", ".rn", ".ftz")},
    **{f"mul{kind}.f32": "{0} = {1} * {2}" for kind in ("", ".rn", ".ftz")},
    **{"max.f32": "{0} = fmaxf({1}, {2})", "min.f32": "{0} = fminf({1}, {2})", "neg.f32": "{0} = -{1}"},
    **{f"mov.{kind}": "{0} = {1}" for kind in ("u32", "s32", "b32", "f32")},
    **{f"ld.global{way}.{kind}": f"{{0}} = *(const {c}*)({{1}})" for kind, c in _TYPES.items() for way in ("", ".nc")},
    **{f"st.global.{kind}": f"*({c}*)({{0}}) = {{1}}" for kind, c in _TYPES.items()},
    **{"red.global.add.f32": "atomicAdd((float*)({0}), {1})", "bar.sync": "__syncthreads()"},
    **{"membar.gl": "__threadfence()", "membar.cta": "__threadfence_block()", "membar.sys": "__threadfence_system()"},
}
"""Each accepted instruction and its C++. {N}: its operand."""
SPECIAL = {
    **{"laneid": "(simt_rank() & 31)", "warpid": "(simt_rank() / 32)"},
    **{
        f"{name}.{axis}": f"{own}.{axis}"
        for name, own in (("tid", "threadIdx"), ("ctaid", "blockIdx"))
        for axis in "xyz"
    },
    **{
        f"{name}.{axis}": f"{own}.{axis}"
        for name, own in (("ntid", "blockDim"), ("nctaid", "gridDim"))
        for axis in "xyz"
    },
}
"""The special registers for `mov`, such as %%laneid."""
_COUNTS = {name: len(set(re.findall(r"\{\d\}", text))) for name, text in MEANINGS.items()} | {"bar.sync": 1}
_STRING = r'"((?:\\.|[^"\\])*)"'


@dataclass(frozen=True)
class Statement:
    """An asm statement.

    start, end: its place.
    cpp: its C++, or "".
    refused: its first instruction without a meaning.
    """

    start: int
    end: int
    cpp: str
    refused: str = ""


def statements(text: str, found: list[Token]) -> list[Statement]:
    """The asm statements of a text."""
    return [_statement(text, found, n) for n, token in enumerate(found) if token.text in ("asm", "__asm__", "__asm")]


def _statement(text: str, found: list[Token], number: int) -> Statement:
    bracket = next((n for n in range(number, len(found)) if found[n].text == "("), number)
    start, last = found[number].start, found[closing(found, bracket)]
    code, *lists = _parts(text[found[bracket].end : last.start])
    source = "".join(re.findall(_STRING, code)).replace("\\n", "\n").replace("\\t", " ")
    values = [value for part in lists[:2] for value in _values(part)]
    calls = []
    for instruction in filter(None, (line.strip() for line in re.split(r"[;\n]", source))):
        call = _call(instruction, values)
        if not call:
            return Statement(start, last.end, "", instruction.split()[0])
        calls.append(call)
    lines = "\n" * text.count("\n", start, last.end)
    return Statement(
        start, last.end, f"do {{ {' '.join(calls)} }} while (0){lines}" if calls else "", "" if calls else "asm"
    )


def _call(instruction: str, values: list[str]) -> str:
    """The C++ of an instruction, or ""."""
    name, _, rest = instruction.partition(" ")
    operands = [_operand(operand.strip(), values) for operand in rest.split(",")] if rest.strip() else []
    if name not in MEANINGS or "" in operands or len(operands) != _COUNTS[name]:
        return ""
    if name == "bar.sync":
        return "__syncthreads();" if operands == ["0"] else ""
    return MEANINGS[name].format(*operands) + ";"


def _operand(text: str, values: list[str]) -> str:
    """The C++ of an operand, or "": %N, [%N], a whole number, a special register."""
    inside = re.fullmatch(r"\[?%(\d+)\]?", text)
    if inside:
        return f"({values[int(inside[1])]})" if int(inside[1]) < len(values) else ""
    special = re.fullmatch(r"%%([\w.]+)", text)
    if special:
        return SPECIAL.get(special[1], "")
    return text if re.fullmatch(r"-?\d+", text) else ""


def _parts(inside: str) -> list[str]:
    """The parts of an asm statement between its colons."""
    parts, depth, at = [""], 0, 0
    while at < len(inside):
        literal = re.compile(_STRING).match(inside, at)
        step = literal[0] if literal else inside[at]
        depth += (step in ("(", "[")) - (step in (")", "]"))
        if step == ":" and depth == 0:
            parts.append("")
        else:
            parts[-1] += step
        at += len(step)
    return parts


def _values(part: str) -> list[str]:
    """The C++ expressions of a list of operands such as "=f"(y), "f"(x * 2). Named operands have none."""
    found, at = [], 0
    while literal := re.compile(rf"\s*,?\s*{_STRING}\s*\(").match(part, at):
        depth, end = 1, literal.end()
        while depth and end < len(part):
            depth += (part[end] == "(") - (part[end] == ")")
            end += 1
        found.append(part[literal.end() : end - 1])
        at = end
    return found
