"""The tokens of a .cu with their places, without comments, literals and preprocessor lines, and its functions."""

import re
from dataclasses import dataclass

from kernels.core.sources import function_of

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
    code = _DIRECTIVE.sub(lambda found: _blank(found[0]), bare(text))
    return [Token(found[0], found.start(), found.end()) for found in _TOKEN.finditer(code)]


def macros(text: str) -> list[list[Token]]:
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
    return text.count("\n", 0, at) + 1


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


DEVICE = ("__global__", "__device__", "constexpr", "consteval")
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+((?:[^\n\\]|\\\n)*)", re.M)
_SCOPES = ("namespace", "extern")


@dataclass(frozen=True)
class Function:
    """A function definition.

    first, body, last: the numbers of its tokens: the first, the opening brace, the closing brace.
    is_kernel, on_device: whether it is a kernel, and whether a GPU may run it."""

    name: str
    first: int
    body: int
    last: int
    is_kernel: bool
    on_device: bool


def functions(text: str, found: list[Token]) -> list[Function]:
    """The function definitions outside of classes. Namespaces and extern "C" blocks are looked into."""
    macros = {name: set(re.findall(r"\w+", body)) for name, body in _MACRO.findall(bare(text))}
    listed, at, first = list[Function](), 0, 0
    while at < len(found):
        token = found[at].text
        if token == "{":
            head = [t.text for t in found[first:at]]
            if head and (head[0] in _SCOPES or head[:2] == ["inline", "namespace"]) and "(" not in head:
                first = at = at + 1
                continue
            last = closing(found, at)
            if "(" in head and not {"struct", "class", "union", "enum"} & set(head[: head.index("(")]):
                words = set(head).union(*(macros.get(word, set()) for word in head))
                listed.append(Function(_name(head), first, at, last, "__global__" in words, bool(words & {*DEVICE})))
                first = last + 1
            at = last
        elif token in ("(", "["):
            at = closing(found, at)
        elif token in (";", "}"):
            first = at + 1
        at += 1
    return listed


def line_of_kernel(files: tuple[tuple[str, str], ...], entry: str) -> tuple[str, int]:
    """File and line of the kernel of an entry, or the first line of the first file."""
    for file, text in files:
        found = tokens(text)
        for function in functions(text, found):
            if function.is_kernel and function.name == function_of(entry):
                return file, line_of(text, found[function.body].start)
    return files[0][0], 1


def _name(head: list[str]) -> str:
    """The name before the parameters: the last word before a bracket at the top level that is no attribute's."""
    depth, name = 0, ""
    for before, token in zip(["", *head], head):
        if token == "(" and depth == 0 and re.match(r"(?!__\w+__$|alignas$|decltype$|noexcept$)[A-Za-z_]", before):
            name = name or before
        depth += (token in "([") - (token in ")]")
    return name
