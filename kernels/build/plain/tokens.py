"""The tokens of a .cu with their places, without comments, literals and preprocessor lines."""

import re
from dataclasses import dataclass

_SKIPPED = re.compile(
    r"""(?P<number>(?<![\w.])\.?\d(?:[eEpP][+-]|'?[\w.])*)
    |//[^\n]*|/\*.*?(?:\*/|\Z)
    |(?<!\w)(?:u8|[uUL])?R"(?P<end>[^()\\\s]{0,16})\(.*?(?:\)(?P=end)"|\Z)
    |"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""",
    re.S | re.X,
)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.)*+", re.M | re.S)
_DEFINE = re.compile(r"[ \t]*#[ \t]*define\b")
_TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.']*|<<<|>>>|::|->|\S")
OPEN, CLOSE = "([{", ")]}"


@dataclass(frozen=True)
class Token:
    """A token. start, end: its place in the text."""

    text: str
    start: int
    end: int


def bare(text: str) -> str:
    """The text with blanks for comments and literals. Line ends stay."""
    return _SKIPPED.sub(lambda found: found[0] if found["number"] else _blank(found[0]), text)


def tokens(text: str) -> list[Token]:
    """The tokens of a text outside comments, literals and preprocessor lines."""
    code = _DIRECTIVE.sub(lambda found: _blank(found[0]), bare(text))
    return [Token(found[0], found.start(), found.end()) for found in _TOKEN.finditer(code)]


def macros(text: str) -> list[list[Token]]:
    """The tokens of each #define, from its name."""
    code = bare(text)
    defines = (found for found in _DIRECTIVE.finditer(code) if _DEFINE.match(found[0]))
    return [
        [Token(one[0], one.start(), one.end()) for one in _TOKEN.finditer(code, each.start(), each.end())][2:]
        for each in defines
    ]


def closing(found: list[Token], at: int) -> int:
    """The number of the token that closes the bracket at `at`, or of the last token."""
    depth = 0
    for number in range(at, len(found)):
        depth += (found[number].text in OPEN) - (found[number].text in CLOSE)
        if depth == 0:
            return number
    return len(found) - 1


def line_of(text: str, at: int) -> int:
    """The line of a place in a text, from 1."""
    return text.count("\n", 0, at) + 1


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)
