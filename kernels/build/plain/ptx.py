"""The inline PTX that a plain kernel may have: few instructions, each with its meaning in C++ for the CPU.

A statement works on typed copies of its operands. Its outputs are written last.
"""

import re
from collections import Counter
from dataclasses import dataclass

from kernels.build.plain.tokens import Token, closing, macros, tokens

_FLOATS = {"rcp": "1.f / {1}", "rsqrt": "rsqrtf({1})", "sqrt": "sqrtf({1})", "ex2": "exp2f({1})", "lg2": "log2f({1})"}
_FLOATS |= {"sin": "sinf({1})", "cos": "cosf({1})", "tanh": "tanhf({1})"}
_TYPES = {"f32": "float", "u32": "unsigned", "s32": "int", "u64": "unsigned long long"}
MEANINGS: dict[str, str] = {
    **{f"{name}.approx{ftz}.f32": f"{{0}} = {text}" for name, text in _FLOATS.items() for ftz in ("", ".ftz")},
    **{f"fma.rn{ftz}.f32": "{0} = fmaf({1}, {2}, {3})" for ftz in ("", ".ftz")},
    **{f"add{kind}.f32": "{0} = {1} + {2}" for kind in ("", ".rn", ".ftz")},
    **{f"mul{kind}.f32": "{0} = {1} * {2}" for kind in ("", ".rn", ".ftz")},
    **{"max.f32": "{0} = fmaxf({1}, {2})", "min.f32": "{0} = fminf({1}, {2})", "neg.f32": "{0} = -{1}"},
    **{f"mov.{kind}": "{0} = {1}" for kind in ("u32", "s32", "f32")},
    **{"mov.b32": "{0} = simt_bits<decltype({0})>({1})"},
    **{f"ld.global{way}.{kind}": f"{{0}} = *(const {c}*)({{1}})" for kind, c in _TYPES.items() for way in ("", ".nc")},
    **{f"ld.global{way}.b32": "{0} = simt_bits<decltype({0})>(*(const unsigned*)({1}))" for way in ("", ".nc")},
    **{f"st.global.{kind}": f"*({c}*)({{0}}) = {{1}}" for kind, c in _TYPES.items()},
    **{"st.global.b32": "*(unsigned*)({0}) = simt_bits<unsigned>({1})"},
    **{"red.global.add.f32": "atomicAdd((float*)({0}), {1})", "bar.sync": "__syncthreads()"},
    **{"membar.gl": "__threadfence()", "membar.cta": "__threadfence_block()", "membar.sys": "__threadfence_system()"},
}
"""Each accepted instruction and its C++. {N}: its operand."""
SPECIAL = {
    **{"laneid": "(simt_rank() & 31)", "warpid": "(simt_rank() / 32)"},
    **{
        f"{name}.{axis}": f"{own}.{axis}"
        for name, own in (("tid", "threadIdx"), ("ctaid", "blockIdx"), ("ntid", "blockDim"), ("nctaid", "gridDim"))
        for axis in "xyz"
    },
}
"""The special registers for `mov`, such as %%laneid."""
_COUNTS = {name: len(set(re.findall(r"\{\d\}", text))) for name, text in MEANINGS.items()} | {"bar.sync": 1}
_STRING = r'"((?:\\.|[^"\\])*)"'
_COMMENT = re.compile(rf"(?P<literal>{_STRING})|//[^\n]*|/\*.*?(?:\*/|\Z)", re.S)
_OPERAND = re.compile(r'\s*(?:\[\w+\]\s*)?"([=+]?)&?([frnl])"\s*\(')
_LETTERS = {"f": "float", "r": "unsigned", "n": "unsigned", "l": "unsigned long long"}
_FITS = {"f32": "f", "u32": "rn", "s32": "rn", "b32": "rnf", "u64": "l"}  # an instruction's type: its letters
MACRO = "a macro in asm"
_ASM = ("asm", "__asm__", "__asm")


@dataclass(frozen=True)
class _Operand:
    """An operand such as "+f"(y): its letter, "=", "+" or "", and its C++."""

    letter: str
    way: str
    text: str

    def before(self, number: int) -> str:
        kind, name = _LETTERS[self.letter], f"simt_{number}"
        if not self.way:
            return f"{kind} {name} = ({kind}){self.text};"
        start = f" = simt_to_{number}" if self.way == "+" else "{}"
        return f"auto& simt_to_{number} = {self.text}; {kind} {name}{start};"


@dataclass(frozen=True)
class Statement:
    """An asm statement.

    cpp: its C++, or "".
    refused: its first instruction without a meaning."""

    start: int
    end: int
    cpp: str
    refused: str = ""


def statements(text: str) -> list[Statement]:
    """The asm statements of a text and of its used macros."""
    code, defined = tokens(text), macros(text)
    uses = Counter(token.text for part in (code, *defined) for token in part)
    listed = [code, *(each for each in defined if each and uses[each[0].text] > 1)]
    return [_statement(text, part, n) for part in listed for n, token in enumerate(part) if token.text in _ASM]


def _statement(text: str, found: list[Token], number: int) -> Statement:
    bracket = next((n for n in range(number, len(found)) if found[n].text == "("), number)
    start, last = found[number].start, found[closing(found, bracket)]
    raw = text[found[bracket].end : last.start].replace("\\\n", " ")
    inside = _COMMENT.sub(lambda each: each["literal"] or " ", raw)
    code, *lists = _parts(inside)
    source = "".join(re.findall(_STRING, code)).replace("\\n", "\n").replace("\\t", " ")
    operands, rests = _operands(lists[:2])
    calls, refused = [], ""
    for instruction in filter(None, (line.strip() for line in re.split(r"[;\n]", source))):
        calls.append(_call(instruction, operands))
        refused = refused or ("" if calls[-1] else instruction.split()[0])
    words = {token.text for token in found[number + 1 : bracket]} - {"volatile", "__volatile__", "__volatile"}
    if words or any(re.sub(rf"{_STRING}|[\s,]", "", part) for part in (code, *rests, *lists[2:])):
        refused = refused or MACRO
    if refused or not calls:
        return Statement(start, last.end, "", refused or "asm")
    before = [operand.before(n) for n, operand in enumerate(operands)]
    after = [f"simt_to_{n} = simt_{n};" for n, operand in enumerate(operands) if operand.way]
    lines = "".join(re.findall(r"\\?\n", text[start : last.end]))
    return Statement(start, last.end, f"do {{ {' '.join([*before, *calls, *after])} }} while (0){lines}")


def _call(instruction: str, known: list[_Operand]) -> str:
    name, _, rest = instruction.partition(" ")
    fits = _FITS.get(name.rpartition(".")[2], "")
    operands = [_operand(operand.strip(), known, fits) for operand in rest.split(",")] if rest.strip() else []
    if name not in MEANINGS or "" in operands or len(operands) != _COUNTS[name]:
        return ""
    if name == "bar.sync":
        return "__syncthreads();" if operands == ["0"] else ""
    return MEANINGS[name].format(*operands) + ";"


def _operand(text: str, known: list[_Operand], fits: str) -> str:
    """The C++ of an operand, or "": %N of a fitting letter, [%N], a whole number, a special register."""
    inside = re.fullmatch(r"(\[?)%(\d+)\]?", text)
    if inside:
        number, fits = int(inside[2]), "l" if inside[1] else fits
        return f"simt_{number}" if number < len(known) and known[number].letter in fits else ""
    special = re.fullmatch(r"%%([\w.]+)", text)
    if special:
        return SPECIAL.get(special[1], "")
    return text if re.fullmatch(r"-?\d+", text) else ""


def _parts(inside: str) -> list[str]:
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


def _operands(lists: list[str]) -> tuple[list[_Operand], list[str]]:
    """The operands of lists such as "=f"(y), "f"(x * 2), and the rest of each list, which is no operand."""
    found, rests = [], []
    for part in lists:
        while literal := _OPERAND.match(part):
            depth, end = 1, literal.end()
            while depth and end < len(part):
                depth += (part[end] == "(") - (part[end] == ")")
                end += 1
            found.append(_Operand(literal[2], literal[1], f"({' '.join(part[literal.end() : end - 1].split())})"))
            part = part[end:].lstrip().removeprefix(",")
        rests.append(part)
    return found, rests
