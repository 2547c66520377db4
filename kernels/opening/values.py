"""The value of a constant expression in C++, such as (D < 128) ? 8 : D / 16."""

import re
from collections.abc import Callable

_TOKEN = re.compile(r"0[xX][\da-fA-F]+|\d+|[A-Za-z_]\w*|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%<>?:()!]|\S")
_ORDER = ("||", "&&", "== !=", "< <= > >=", "<< >>", "+ -", "* / %")
"""The signs between two values, the weakest first."""
_SIGNS: dict[str, Callable[[int, int], int]] = {
    **{"||": lambda a, b: int(bool(a or b)), "&&": lambda a, b: int(bool(a and b))},
    **{"==": lambda a, b: int(a == b), "!=": lambda a, b: int(a != b), "<": lambda a, b: int(a < b)},
    **{"<=": lambda a, b: int(a <= b), ">": lambda a, b: int(a > b), ">=": lambda a, b: int(a >= b)},
    **{"<<": lambda a, b: a << b if 0 <= b < 32 else _none(), ">>": lambda a, b: a >> b if b >= 0 else _none()},
    **{"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b},
    **{"/": lambda a, b: _quotient(a, b), "%": lambda a, b: a - b * _quotient(a, b)},
}
MOST = 2**63
MOST_TOKENS = 200
Meaning = Callable[[str], int | None]


def value(text: str, meaning: Meaning) -> int | None:
    """The whole number of an expression, or None if it has none. meaning: the number of a name, or None."""
    text = re.sub(r"(?<=\d)[uUlL]+\b", "", text)
    found = _TOKEN.findall(text)
    if not 0 < len(found) <= MOST_TOKENS:
        return None
    reader = _Reader(found, meaning)
    try:
        number = reader.choice()
        return number if reader.at == len(found) else None
    except (ValueError, ZeroDivisionError, RecursionError):
        return None


def _none() -> int:
    raise ValueError("no whole number")


def _quotient(a: int, b: int) -> int:
    """Division of C++, which rounds to zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


class _Reader:
    def __init__(self, found: list[str], meaning: Meaning) -> None:
        self.found, self.meaning, self.at = found, meaning, 0

    def _takes(self, *signs: str) -> str:
        if self.at < len(self.found) and self.found[self.at] in signs:
            self.at += 1
            return self.found[self.at - 1]
        return ""

    def choice(self) -> int:
        number = self._between(0)
        if not self._takes("?"):
            return number
        first = self.choice()
        if not self._takes(":"):
            raise ValueError("a ? without :")
        other = self.choice()
        return first if number else other

    def _between(self, level: int) -> int:
        if level == len(_ORDER):
            return self._one()
        number = self._between(level + 1)
        while sign := self._takes(*_ORDER[level].split()):
            number = _SIGNS[sign](number, self._between(level + 1))
            if abs(number) > MOST:
                raise ValueError(number)
        return number

    def _one(self) -> int:
        if sign := self._takes("-", "+", "!"):
            number = self._one()
            return -number if sign == "-" else int(not number) if sign == "!" else number
        if self._takes("("):
            number = self.choice()
            if not self._takes(")"):
                raise ValueError("a bracket without an end")
            return number
        word = self.found[self.at] if self.at < len(self.found) else ""
        self.at += 1
        known = int(word, 0) if word[:1].isdigit() else self.meaning(word) if re.match(r"[A-Za-z_]", word) else None
        return known if known is not None else _none()
