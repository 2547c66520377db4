"""The names and C expressions in a text of the host, in the words of the front matter."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from kernels.build.plain.tokens import tokens
from kernels.opening.host import HostLaunch, constants_of, parts, variable
from kernels.opening.matching import Meaning

_BYTES = {"float": 4, "int": 4, "unsigned": 4, "half": 2, "__half": 2, "__nv_bfloat16": 2, "double": 8, "float4": 16}
_INNER = r"((?:[\w*+ ]|\([\w*+ ]*\))+?)"
_ROUND_UP = re.compile(rf"\({_INNER} \+ \(?(\w+) ?- ?1\)?\) ?// ?(\2)\b")
_ROUND_UP_NUMBER = re.compile(rf"\({_INNER} \+ (\d+)\) ?// ?(\d+)\b")
_CEIL = re.compile(r"(?:\w*ceil\w*|\w*div_?up\w*|cdiv)", re.I)


def translated(text: str, names: Mapping[str, str]) -> str | None:
    """The expression, or None with an unknown name. names: C name -> expression."""
    text = re.sub(r"sizeof\s*\(\s*([\w ]+?)\s*\)", lambda found: str(_BYTES.get(found[1], "?")), text)
    text = re.sub(r"static_cast\s*<[^<>]*>|\((?:int|unsigned|size_t|float|double|unsigned int)\)", "", text)
    text = re.sub(r"(?<=\d)[uUlLfF]+\b", "", text)
    text = re.sub(r"(?<!/)/(?!/)", "//", text).strip()
    text = re.sub(r"\bceilf?\s*\(\s*([^()]+?)\s*//\s*(\w+)\s*\)", r"ceil_div(\1, \2)", text)
    unknown = list[str]()

    def word(found: re.Match[str]) -> str:
        name = found[0]
        if _CEIL.fullmatch(name) and text[found.end() :].lstrip().startswith("("):
            return "ceil_div"
        if name in ("min", "max"):
            return name
        if name not in names:
            unknown.append(name)
            return name
        held = names[name]
        return f"({held})" if re.search(r"\W", held) else held

    said = re.sub(r"[A-Za-z_]\w*", word, text.replace("std::", ""))
    if unknown or "?" in said or re.search(r"[&<>.\[\]{}=]", said):
        return None
    text = re.sub(r"\s+", " ", said)
    text = _ROUND_UP.sub(r"ceil_div(\1, \2)", text)
    text = _ROUND_UP_NUMBER.sub(_rounded, text)
    while (bare := re.sub(r"^\(((?:[^()]|\([^()]*\))*)\)$|\b(ceil_div\()\(([^()]*)\),", _unwrap, text)) != text:
        text = bare
    return text


def _rounded(found: re.Match[str]) -> str:
    same = int(found[2]) == int(found[3]) - 1
    return f"ceil_div({found[1]}, {found[3]})" if same else found[0]


def _unwrap(found: re.Match[str]) -> str:
    return found[1] if found[1] is not None else f"{found[2]}{found[3]},"


MOST_STEPS = 6  # from a variable to the variables of its declaration


@dataclass(frozen=True)
class Names:
    """The names of a text.

    meaning: a name -> the size or field that it means, or "".
    arguments: names in the arguments of a launch -> the meaning of their parameters.
    allowed: a field -> its values, if they are few. A constant with one of these values means the field.
    """

    text: str
    meaning: Meaning
    arguments: Mapping[str, str] = field(default_factory=dict)
    allowed: Mapping[str, tuple[object, ...]] = field(default_factory=dict)

    def expression(self, text: str, line: int, steps: int = MOST_STEPS) -> str | None:
        words = {token.text for token in tokens(text) if re.match(r"[A-Za-z_]", token.text)}
        found = {word: self._name(word, line, steps) for word in words}
        return translated(text, {word: said for word, said in found.items() if said is not None})

    def sizes(self, text: str, line: int) -> list[str] | None:
        """One to three sizes: of a dim3, of a variable that is a dim3, or one expression. None if one is unknown."""
        text = text.strip()
        declared = variable(self.text, text, line) if re.fullmatch(r"[A-Za-z_]\w*", text) else ""
        text = declared if declared.startswith(("dim3", "{")) else text
        inside = re.fullmatch(r"(?:dim3\s*)?[({](.*)[)}]", text, re.S)
        listed = parts(inside[1]) if inside and text.startswith(("dim3", "{")) else [text]
        said = [self.expression(part, line) for part in listed]
        known = [one for one in said if one is not None]
        while len(known) > 1 and known[-1] == "1":
            known.pop()
        return known if said and len(known) and None not in said else None

    def _name(self, name: str, line: int, steps: int) -> str | None:
        if name in self.arguments:
            return self.arguments[name]
        meant = self.meaning(name)
        if name in (constants := constants_of(self.text)) and constants[name] not in self.allowed.get(meant, ()):
            return str(constants[name])
        if meant:
            return meant
        declared = variable(self.text, name, line) if steps else ""
        return self.expression(declared, line, steps - 1) if declared and name not in declared else None


def arguments_of(launch: HostLaunch, symbols: list[str], meaning: Meaning) -> dict[str, str]:
    """The names in a launch's arguments -> the meaning of their parameters."""
    found = {}
    for text, symbol in zip(launch.args, symbols):
        if re.fullmatch(r"[A-Za-z_]\w*", text) and (meant := meaning(symbol)):
            found[text] = meant
    return found
