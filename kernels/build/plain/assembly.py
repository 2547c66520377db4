"""The asm statements of a preprocessed text, as C++ for the CPU. Macros with asm are expanded by then.

A statement becomes a block. Each operand and each `.reg` is a 64-bit number with the bits of its register. Outputs are
written last. A label becomes a label of C++. An instruction without a meaning (ptx.py) becomes a call of a function
that does not exist, so that only a build that needs it is refused.
"""

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kernels.build.plain import ptx, ptx_memory, ptx_warp
from kernels.build.plain.ptx import OPERAND, Instruction, Register, Untaken

_LITERAL = r'(?:R"(?P<end>[^()\\\s]{0,16})\((?:.|\n)*?(?:\)(?P=end)"|\Z)|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\')'
_TOKEN = re.compile(rf"(?P<literal>{_LITERAL})|(?P<marker>^\#[^\n]*$)|(?P<word>[^\W\d]\w*)|\S", re.M)
_ASM = ("asm", "__asm__", "__asm")
_WORDS = ("volatile", "__volatile__", "__volatile", "inline", "__inline__")
_OPERAND = re.compile(r'\s*"([^"]*)"\s*\(')
_ESCAPES = {"n": "\n", "t": "\t", "r": " ", '"': '"', "\\": "\\", "'": "'"}
_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.S)
_LABEL = re.compile(r"\s*([\w$%]+)\s*:(?!:)")
_LETTERS = {"r": "32", "l": "64", "h": "16", "f": "f32", "d": "f64", "n": "n"}
RULES = {**ptx.RULES, **ptx_memory.RULES, **ptx_warp.RULES}
"""The first word of each accepted instruction -> its C++."""
UNTAKEN = "simt_ptx_untaken_"
HAS_ASM = re.compile(r"\b(?:__)?asm(?:__)?\b")
_ROW = re.compile(r'^# \d+ "((?:[^"\\]|\\.)*)"((?: \d)*)$', re.M)


@dataclass
class _Statement:
    """An asm statement in translation.

    number: in the text, for its labels.
    registers: name -> the register, of operands (OPERAND and their number) and of `.reg`.
    rows: declarations, code: calls."""

    number: int
    registers: dict[str, Register] = field(default_factory=dict)
    rows: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    count: int = 0

    def fresh(self, kind: str) -> Register:
        self.count += 1
        return Register(f"simt_{self.count - 1}", kind)

    def label(self, name: str) -> str:
        return self.labels.setdefault(name, f"simt_at_{self.number}_{len(self.labels)}")


def translated(text: str, own: Collection[str]) -> tuple[str, list[str]]:
    """The text with C++ in place of its asm statements, and the sentence of each untaken instruction.

    text: the preprocessor's output. own: the paths of the kernel's files, as in its line markers.
    No line moves. A call of UNTAKEN and a number stands for the sentence of this number."""
    first = next((found.start() for found in _ROW.finditer(text) if found[1] in own and "1" in found[2]), len(text))
    made, at, untaken = [text[:first]], first, list[str]()
    found = list(_TOKEN.finditer(text, first))
    markers = list(re.finditer(r'^# (\d+) "((?:[^"\\]|\\.)*)"[\d ]*\n', text, re.M))
    starts = [marker.end() for marker in markers]

    def place(at: int) -> str:
        marker = markers[bisect_right(starts, at) - 1]
        return f"{Path(marker[2]).name} line {int(marker[1]) + text.count(chr(10), marker.end(), at)}"

    number = 0
    for n, token in enumerate(found):
        if token["word"] not in _ASM or token.start() < at:
            continue
        bracket = n + 1
        while bracket < len(found) and found[bracket][0] in _WORDS:
            bracket += 1
        last = _closing(found, bracket)
        if last is None:
            continue
        inside = text[found[bracket].end() : found[last].start()]
        number += 1
        cpp = _cpp(number, _ROW.sub("", inside), untaken, place(token.start()))
        made += [text[at : token.start()], cpp, _lines(text[token.start() : found[last].end()])]
        at = found[last].end()
    return "".join([*made, text[at:]]), untaken


def _closing(found: list[re.Match[str]], bracket: int) -> int | None:
    depth = 0
    for n in range(bracket, len(found)):
        depth += (found[n][0] == "(") - (found[n][0] == ")")
        if depth == 0:
            return n if n > bracket else None
    return None


def _lines(text: str) -> str:
    """The line ends and line markers of a text."""
    rows = text.split("\n")
    return "\n".join(["", *(row if _ROW.match(row) else "" for row in rows[1:])]) if len(rows) > 1 else ""


def _cpp(number: int, inside: str, untaken: list[str], place: str) -> str:
    template, *lists = _parts(inside)
    statement = _Statement(number)
    try:
        literals = [found for found in re.finditer(_LITERAL, template)]
        if re.sub(_LITERAL, "", template).strip():
            raise Untaken("its text is not a literal")
        source = "".join(_text(found[0]) for found in literals)
        after = _operands(statement, [*lists[:2], "", ""][:2])
        _translate(statement, _COMMENT.sub(" ", source))
    except Untaken as found:
        untaken.append(
            f"{place}: the CPU has no meaning for its inline PTX ({found}). kernels/first-kernel.md lists the "
            "instructions that it has."
        )
        name = f"{UNTAKEN}{len(untaken) - 1}"
        return f"do {{ void {name}(); {name}(); }} while (0)"
    return " ".join(["do {", *statement.rows, *statement.code, *after, "} while (0)"])


def _text(literal: str) -> str:
    if literal.startswith("R"):
        return literal[literal.index("(") + 1 : literal.rindex(")")]
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), literal[1:-1])


def _parts(inside: str) -> list[str]:
    """The template, the outputs, the inputs and the clobbers."""
    parts, depth, at = [""], 0, 0
    literal = re.compile(_LITERAL)
    while at < len(inside):
        found = literal.match(inside, at)
        step = found[0] if found else inside[at]
        depth += (step in ("(", "[", "{")) - (step in (")", "]", "}"))
        if step == ":" and depth == 0:
            parts.append("")
        else:
            parts[-1] += step
        at += len(step)
    return parts


def _operands(statement: _Statement, lists: list[str]) -> list[str]:
    """Declares the operands. Returns the stores of the outputs."""
    after = []
    for part in lists:
        rest = part
        while found := _OPERAND.match(rest):
            expression, rest = _bracketed(rest, found.end())
            after += _operand(statement, found[1].strip(), " ".join(expression.split()))
            rest = rest.lstrip().removeprefix(",")
        if rest.strip():
            raise Untaken(f'the operand {rest.strip()[:40]} has another form than "r"(x)')
    return after


def _bracketed(text: str, first: int) -> tuple[str, str]:
    """The text up to the bracket that closes the one before `first`, and the rest after it."""
    depth, at, literal = 1, first, re.compile(_LITERAL)
    while at < len(text):
        found = literal.match(text, at)
        at += len(found[0]) if found else 1
        depth += 0 if found else (text[at - 1] == "(") - (text[at - 1] == ")")
        if not depth:
            return text[first : at - 1], text[at:]
    return text[first:], ""


def _operand(statement: _Statement, constraint: str, expression: str) -> list[str]:
    found = re.fullmatch(r"([=+]?)&?([rlhfdn])", constraint)
    if not found:
        raise Untaken(f'the constraint "{constraint}" of an operand')
    way, letter = found.groups()
    register = statement.fresh(_LETTERS[letter])
    statement.registers[f"{OPERAND}{statement.count - 1}"] = register
    to, read = register.cpp.replace("simt_", "simt_to_"), f"simt_ptx_in_{letter}"
    if not way:
        statement.rows.append(f"unsigned long long {register.cpp} = {read}({expression});")
        return []
    start = f" = {read}({to})" if way == "+" else "{}"
    statement.rows.append(f"auto& {to} = ({expression}); unsigned long long {register.cpp}{start};")
    return [f"{to} = simt_ptx_out<decltype({to})>({register.cpp});"]


def _translate(statement: _Statement, source: str) -> None:
    """Adds the calls of all instructions."""
    for instruction in _instructions(statement, source):
        if instruction.startswith(":"):
            statement.code.append(f"{statement.label(instruction[1:])}:;")
            continue
        guard = re.match(r"@(!?)\s*(\S+)\s+(.*)", instruction, re.S)
        code, condition = instruction, ""
        if guard:
            register = statement.registers.get(guard[2])
            if register is None or register.kind != "pred":
                raise Untaken(f"the predicate {guard[2][:40]}")
            code, condition = guard[3], f"if ({guard[1]}{register.cpp}) "
        if branch := re.match(r"bra(?:\.uni)?\s+([\w$%]+)$", code):
            statement.code.append(f"{condition}goto {statement.label(branch[1])};")
        else:
            statement.code.append(f"{condition}{{ {_call(code, statement)} }}")


def _call(code: str, statement: _Statement) -> str:
    name, _, rest = code.partition(" ")
    one = Instruction(name, tuple(ptx.split(rest)), statement.registers, statement.fresh)
    try:
        return RULES[one.parts[0]](one)
    except (ValueError, IndexError, KeyError):  # an unknown word, or another number of operands
        raise Untaken(name[:80]) from None


def _instructions(statement: _Statement, source: str) -> Iterator[str]:
    """The instructions and labels (":name") of a text. Registers are declared on the way."""
    scopes = list[dict[str, Register]]()
    source = re.sub(r"%(\d+)", lambda found: OPERAND + found[1], source)
    rest = source.replace("%=", str(statement.number)).replace("%%", "%").strip()
    while rest:
        if rest[0] == ";":
            rest = rest[1:]
        elif rest[0] == "{":
            rest = rest[1:]
            scopes.append(dict(statement.registers))
        elif rest[0] == "}":
            rest = rest[1:]
            if not scopes:
                raise Untaken("a } without its {")
            statement.registers = scopes.pop()
        elif label := _LABEL.match(rest):
            rest = rest[label.end() :]
            yield f":{label[1]}"
        else:
            one, _, rest = rest.partition(";")
            one = " ".join(one.split())
            if one.startswith(".reg"):
                _declare(statement, one)
            else:
                yield one
        rest = rest.lstrip()


def _declare(statement: _Statement, one: str) -> None:
    found = re.fullmatch(r"\.reg\s*\.(\w+)\s+(.+)", one)
    if not found:
        raise Untaken(one[:40])
    kind = ptx.kind_of_register(found[1])
    for name in found[2].split(","):
        many = re.fullmatch(r"([\w$%]+)<(\d+)>", name.strip())
        names = [f"{many[1]}{n}" for n in range(min(int(many[2]), 1024))] if many else [name.strip()]
        for each in names:
            register = statement.fresh(kind)
            statement.registers[each] = register
            statement.rows.append(f"unsigned long long {register.cpp}{{}};")
