"""The names in a text of the host: a parameter's meaning, a constant, or the expression of a variable."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from kernels.build.plain.tokens import tokens
from kernels.opening.expressions import translated
from kernels.opening.host import HostLaunch, constants_of, parts, variable
from kernels.opening.matching import Meaning

MOST_STEPS = 6  # from a variable to the variables of its declaration


@dataclass(frozen=True)
class Names:
    """The names of a text.

    text: the .cu.
    meaning: a name -> the size or field that it means, or "".
    arguments: names in the arguments of a launch -> the meaning of their parameters.
    allowed: a field -> its values, if they are few. A constant with one of these values means the field.
    """

    text: str
    meaning: Meaning
    arguments: Mapping[str, str] = field(default_factory=dict)
    allowed: Mapping[str, tuple[object, ...]] = field(default_factory=dict)

    def expression(self, text: str, line: int, steps: int = MOST_STEPS) -> str | None:
        """A C expression in names of the problem, or None."""
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
