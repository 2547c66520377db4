"""The tokens of a .cu with their places, without comments, literals and preprocessor lines, and its functions."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kernels.core.sources import function_of

SKIPPED = re.compile(
    r"""(?P<number>(?<![\w.])\.?\d(?:[eEpP][+-]|'?[\w.])*)
    |//[^\n]*|/\*.*?(?:\*/|\Z)
    |(?<!\w)(?:u8|[uUL])?R"(?P<end>[^()\\\s]{0,16})\(.*?(?:\)(?P=end)"|\Z)
    |"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""",
    re.S | re.X,
)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.)*+", re.M | re.S)
_DEFINE = re.compile(r"[ \t]*#[ \t]*define\b")
TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.']*|<<<|>>>|::|->|\S")
OPEN, CLOSE = "([{", ")]}"


@dataclass(frozen=True)
class Token:
    """A token. start, end: its place in the text."""

    text: str
    start: int
    end: int


def bare(text: str) -> str:
    """The text with blanks for comments and literals. Line ends stay."""
    return SKIPPED.sub(lambda found: found[0] if found["number"] else blank(found[0]), text)


def tokens(text: str) -> list[Token]:
    code = DIRECTIVE.sub(lambda found: blank(found[0]), bare(text))
    return [Token(found[0], found.start(), found.end()) for found in TOKEN.finditer(code)]


def macros(text: str) -> list[list[Token]]:
    code = bare(text)
    defines = (found for found in DIRECTIVE.finditer(code) if _DEFINE.match(found[0]))
    return [
        [Token(one[0], one.start(), one.end()) for one in TOKEN.finditer(code, each.start(), each.end())][2:]
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


def blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


DEVICE = ("__global__", "__device__", "constexpr", "consteval")
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+((?:[^\n\\]|\\\n)*)", re.M)
_CALL_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)\([^()]*\)((?:[^\n\\]|\\\n)*)", re.M)
_SCOPES = ("namespace", "extern")
_STARTS = (
    "template",
    "static",
    "inline",
    "void",
    *DEVICE,
    "__host__",
    "__forceinline__",
    "struct",
    "extern",
    "namespace",
)


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


@dataclass(frozen=True)
class Item:
    """A definition or declaration outside of functions: the numbers of its first and last token, and its function.

    names: the names that it may declare."""

    first: int
    last: int
    function: Function | None = None
    names: tuple[str, ...] = ()


def functions(text: str, found: list[Token], qualifiers: Collection[str] = ()) -> list[Function]:
    """The function definitions outside of classes. Namespaces and extern "C" blocks are looked into.

    qualifiers: more words of device functions, such as macros of a header."""
    return [item.function for item in items(text, found, qualifiers) if item.function]


def items(text: str, found: list[Token], qualifiers: Collection[str] = ()) -> list[Item]:
    """The functions, declarations and uses of macros outside of functions and classes, in order."""
    macros = {name: set(re.findall(r"\w+", body)) for name, body in _MACRO.findall(bare(text))}
    calls = {name: body for name, body in _CALL_MACRO.findall(bare(text))}
    listed, at, first = list[Item](), 0, 0
    while at < len(found):
        token = found[at].text
        if at == first and _is_call(found, at, calls):
            at = closing(found, at + 1)
            listed.append(Item(first, at))
            first = at + 1
        elif token == "{":
            head = _untemplated([t.text for t in found[first:at]])
            if head and (head[0] in _SCOPES or head[:2] == ["inline", "namespace"]) and "(" not in head:
                first = at = at + 1
                continue
            last = closing(found, at)
            if "(" in head and not {"struct", "class", "union", "enum"} & set(head[: head.index("(")]):
                words = set(head).union(*(macros.get(word, set()) for word in head))
                on_device = bool(words & {*DEVICE, *qualifiers})
                function = Function(_name(head, calls), first, at, last, "__global__" in words, on_device)
                listed.append(Item(first, last, function, (function.name,)))
                first = last + 1
            at = last
        elif token in ("(", "["):
            at = closing(found, at)
        elif token == ";":
            if at > first:
                listed.append(Item(first, at, None, tuple(_declared(found[first:at]))))
            first = at + 1
        elif token == "}":
            first = at + 1
        at += 1
    return listed


def _is_call(found: list[Token], at: int, calls: Mapping[str, str]) -> bool:
    """Whether a token begins a use of a macro that makes a whole item, such as BINDING(f32, float).

    A macro of the file does so if its body has a brace, a semicolon or a launch. An unknown macro does so if it is in
    capitals, and a new item follows."""
    name = found[at].text
    if at + 1 >= len(found) or found[at + 1].text != "(":
        return False
    if name in calls:
        return bool(re.search(r"[{;]|<<<", calls[name]))
    after = closing(found, at + 1) + 1
    follows = found[after].text if after < len(found) else ""
    return bool(re.fullmatch(r"[A-Z][A-Z0-9_]+", name)) and follows in _STARTS


def _untemplated(texts: list[str]) -> list[str]:
    """The words of a head behind its template<...>."""
    while texts[:2] == ["template", "<"]:
        angles, last = 0, len(texts) - 1
        for number, text in enumerate(texts[1:], 1):
            angles += (text == "<") - (text.count(">") if set(text) == {">"} else 0)
            if angles <= 0:
                last = number
                break
        texts = texts[last + 1 :]
    return texts


def _declared(head: list[Token]) -> list[str]:
    """The words that a declaration may declare: outside of brackets, or the values of an enum."""
    words, depth, texts = list[str](), 0, _untemplated([token.text for token in head])
    is_enum = "enum" in texts[:2] or texts[:2] == ["typedef", "enum"]
    for text in texts:
        if re.match(r"[A-Za-z_]", text) and (depth == 0 or is_enum):
            words.append(text)
        depth += (text in OPEN) - (text in CLOSE)
    return words


def line_of_kernel(files: tuple[tuple[str, str], ...], entry: str) -> tuple[str, int]:
    """File and line of the kernel of an entry, or the first line of the first file."""
    for file, text in files:
        found = tokens(text)
        for function in functions(text, found):
            if function.is_kernel and function.name == function_of(entry):
                return file, line_of(text, found[function.body].start)
    return files[0][0], 1


def _name(head: list[str], macros: Collection[str]) -> str:
    """The name before the parameters: the first word before a bracket at the top level that is no attribute's.

    A macro of the file may be an attribute too, such as BOUNDS(256)."""
    depth, names = 0, list[str]()
    for before, token in zip(["", *head], head):
        if token == "(" and depth == 0 and re.match(r"(?!__\w+__$|alignas$|decltype$|noexcept$)[A-Za-z_]", before):
            names.append(before)
        depth += (token in "([") - (token in ")]")
    return next((name for name in names if name not in macros), names[0] if names else "")
