"""Reads a .cu and its headers. This text is hashed and compiled.

An include is a plain file name in quotes: a header next to the kernel, in kernels/device or in the shim. A header of
the toolchain has angle brackets, and the compiler's version covers it. Everything else is refused with its line: a
path, a macro, a link to another folder, `#include_next`, `#embed`, `__has_include`.

A kernel in CUDA's own names has two more forms. A path of folders, such as "../common/helper.h", means the header of
its last name next to the kernel, and so does a name in angle brackets. A header that is not there is left out: the
build reads no other file (build/plain/includes.py).
"""

import os
import re
import stat
from functools import lru_cache
from pathlib import Path

from kernels.errors import FrontMatterError, ProblemError

MOST_BYTES = 256 * 1024  # of one file; our largest has 28 KB
MOST_FILES = 64  # of one kernel
_SPLICE = re.compile(r"\\[ \t]*\n")
# Compilers, Python and readers differ about their meaning: some end a line, some hide the next character.
_ODD = re.compile(r"[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ufefe\uff00-\U0010ffff]")
_SKIPPED = re.compile(
    r"""(?P<number>(?<![\w.])\.?\d(?:[eEpP][+-]|'?[\w.])*)  # a digit separator starts no literal
    |//[^\n]*|/\*.*?(?:\*/|\Z)
    |(?:(?<!\w)(?:u8|[uUL])?R"(?P<end>[^()\\\s]{0,16})\(.*?(?:\)(?P=end)"|\Z)
    |"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')(?P<glued>(?:u8|[uUL])?R(?="))?""",
    re.S | re.X,
)
_DIRECTIVE = re.compile(r"^[^\S\n]*(?:\#|%:|\?\?=)[^\S\n]*(include|import|include_next|embed)\b([^\n]*)$", re.M)
_CONDITION = re.compile(r"^[^\S\n]*(?:\#|%:|\?\?=)[^\S\n]*(if|endif)", re.M)
_ANGLED = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<([\w+-][\w.+-]*)>", re.M)
_PATH = re.compile(r"(?:(?:\.\.?|[\w+-][\w.+-]*)/)+[\w+-][\w.+-]*")
_HAS = re.compile(r"\b__has_(?:include(?:_next)?|embed)\b")
_REMEDY = 'Put the header next to the kernel and write #include "NAME".'


def read_files(path: Path, device: Path, shim: Path) -> tuple[tuple[str, str], ...]:
    """(name, text) of a .cu and of all our headers in it, each once, depth first.

    path: the .cu, with links followed.
    device, shim: the folders of our headers. The compiler adds the shim's.
    Raises ProblemError for an unreadable file, FrontMatterError for a refused include."""
    found: dict[str, str] = {}
    of_plain = list[FrontMatterError]()  # includes that only a plain kernel may have

    def add(name: str, file: Path) -> None:
        if len(found) == MOST_FILES:
            raise FrontMatterError(f"{path.name}: it includes more than {MOST_FILES} files. Join some files.")
        found[name] = read_text(file)
        for line, written in includes(name, found[name]):
            header = written.rpartition("/")[2]
            if "/" in written:
                said = f"{name}: line {line}: it includes {written[:80]!r}, and an include has a plain file name"
                of_plain.append(FrontMatterError(f"{said}. {_REMEDY}"))
            if header in found or (shim / header).is_file() or (shim / "cuda" / header).is_file():
                continue
            place = next((folder / header for folder in (path.parent, device) if (folder / header).exists()), None)
            where = f"{name}: line {line}: it includes {header!r},"
            if not place:
                said = f"{where} and neither its folder nor kernels/device has that file. {_REMEDY}"
                of_plain.append(FrontMatterError(said))
                continue
            if place.resolve().parent not in (path.parent, device.resolve()):
                raise FrontMatterError(f"{where} a link to {place.resolve()}. {_REMEDY}")
            add(header, place)

    add(path.name, path)
    if not is_plain(tuple(found.items())):
        for error in of_plain:
            raise error
        return tuple(found.items())
    waiting = list(found)
    while waiting:
        for header in _ANGLED.findall(_SKIPPED.sub(_blanked, found[waiting.pop(0)])):
            place, before = path.parent / header, len(found)
            known = header in found or (shim / "cuda" / header).is_file()
            if not known and place.is_file() and place.resolve().parent == path.parent:
                add(header, place)
                waiting += list(found)[before:]
    return tuple(found.items())


def is_plain(files: tuple[tuple[str, str], ...]) -> bool:
    """Whether a kernel is in CUDA's own names: its files do not include common.cuh, the header of written probes."""
    return all(name != "common.cuh" for name, _ in files)


@lru_cache(maxsize=256)  # kernels share their headers
def includes(name: str, text: str) -> tuple[tuple[int, str], ...]:
    """(line, header) of each include in quotes in the text of the file `name`, in an inactive #if too.

    header: a plain file name, or a path of folders such as "../common/helper.h" in a plain line.
    Raises FrontMatterError for a refused include."""
    pieces = _SPLICE.split(text)
    joined, spliced = "".join(pieces), [sum(map(len, pieces[: n + 1])) for n in range(len(pieces) - 1)]
    bare = _SKIPPED.sub(_blanked, joined)

    def line_of(at: int) -> int:
        return 1 + sum(bare.count(end, 0, at) for end in "\n\v") + sum(place <= at for place in spliced)

    def refused(at: int, what: str) -> FrontMatterError:
        return FrontMatterError(f"{name}: line {line_of(at)}: {what}. {_REMEDY}")

    def literal(skipped: re.Match[str]) -> str:
        if skipped["glued"]:
            where = f"{name}: line {line_of(skipped.end())}: "
            raise FrontMatterError(f'{where}compilers differ about a literal directly before R". Put a blank before R.')
        return skipped[0] if skipped["number"] else " " * len(skipped[0])

    if (at := _SKIPPED.sub(literal, joined).find("$")) >= 0:
        raise FrontMatterError(f"{name}: line {line_of(at)}: it has a $ outside of a literal. Remove it.")
    if asked := _HAS.search(bare):
        raise refused(asked.start(), f"it uses {asked[0]}, and the answer depends on the disk")
    found = []
    for directive in _DIRECTIVE.finditer(bare):
        at, said = directive.start(1), joined[directive.start(2) : directive.end(2)]
        operand = bare[directive.start(2) : directive.end(2)].strip()
        quoted, angled = re.fullmatch(r'"([^"]*)"', operand), re.fullmatch(r"<([^>]*)>", operand)
        named = quoted or angled
        if directive[1] not in ("include", "import") or not named:
            raise refused(at, f"#{directive[1]} {said.strip()[:80]} is not an #include of a file name")
        header = named[1]
        is_one_line = not any(directive.start() <= place <= directive.end() for place in spliced)
        is_usual = is_one_line and re.match(r"\s*#", directive[0]) and directive[1] == "include"
        if quoted and is_usual and _PATH.fullmatch(header):
            found.append((line_of(at), header))
            continue
        if not _is_plain(header) if quoted else not all(map(_is_plain, header.split("/"))):
            raise refused(at, f"it includes {header[:80]!r}, and an include has a plain file name")
        if header == "common.cuh":
            conditions = [condition[1] for condition in _CONDITION.finditer(bare, 0, at)]
            if conditions.count("if") > conditions.count("endif"):
                raise FrontMatterError(
                    f"{name}: line {line_of(at)}: it includes common.cuh in an #if, so a build may lack its "
                    "probes. Move the include out of the #if."
                )
        if quoted:
            found.append((line_of(at), header))
    return tuple(found)


def _is_plain(header: str) -> bool:
    return re.fullmatch(r"[\w+-][\w.+-]*", header) is not None


def _blanked(skipped: re.Match[str]) -> str:
    """Blanks for a comment or a raw string, any other literal as it is. A vertical tab replaces a newline."""
    text = skipped[0]
    if skipped["number"] or text[:2] not in ("//", "/*") and skipped["end"] is None:
        return text
    return "".join("\v" if c == "\n" else " " for c in text)


def read_text(file: Path) -> str:
    """The text of a small regular file, without control characters. Raises ProblemError, FrontMatterError."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK)  # a FIFO does not wait for its writer
        with open(descriptor, encoding="utf-8") as opened:  # noqa: PTH123 - no path
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise ProblemError(f"{file} cannot be read: it is not a regular file. Copy its text into a file.")
            text = opened.read(MOST_BYTES + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise ProblemError(f"{file} cannot be read: {error}.") from None
    if len(text) > MOST_BYTES:
        raise ProblemError(f"{file} has more than {MOST_BYTES:,} characters. Split it into smaller files.")
    if odd := _ODD.search(text):
        line = 1 + text.count("\n", 0, odd.start())
        raise FrontMatterError(
            f"{file.name}: line {line}: it has the control character U+{ord(odd[0]):04X}. Remove it."
        )
    return text


_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.S)
_QUALIFIERS = ("const", "__restrict__", "__restrict", "volatile", "__grid_constant__")
# Between __global__ and the name: void, and attributes with up to three levels of parentheses. No step goes back.
_NESTED = r"\((?:[^()]++|\((?:[^()]++|\([^()]*+\))*+\))*+\)"
_ATTRIBUTES = rf"(?:(?:__\w++(?<=__)|alignas\b)\s*+(?:{_NESTED}\s*+)?+)*+"
_HEADER = re.compile(rf"\s++{_ATTRIBUTES}void\s++{_ATTRIBUTES}(\w++)\s*+\(([^();{{}}]*+)\)")
_GLOBAL = re.compile(r"\b__global__\b")
_PLAIN_C = re.compile(r'\bextern\s++"C"\s++__global__\s')
_OF_PROBES = re.compile(r"\bPROBE_(?:PARAM|CHILDREN)\b")
C_TYPES = {
    "int32": ("int", "int32_t", "signed", "signed int"),
    "uint32": ("unsigned", "unsigned int", "uint32_t", "uint"),
    "int64": ("long long", "int64_t", "long", "long long int", "long int"),
    "float32": ("float",),
    "float64": ("double",),
    "uint64": ("unsigned long long", "size_t", "uint64_t", "unsigned long"),
    "bool": ("bool",),
}
"""A number's type in the comment -> its spellings in the signature. Another spelling, such as a typedef, passes."""
OTHER_C_TYPES = (
    *("char", "signed char", "unsigned char", "short", "unsigned short", "int8_t", "uint8_t", "int16_t"),
    *("uint16_t", "half", "__half", "__nv_bfloat16"),
)
"""Spellings of numbers without a type in the comment."""


def parameters(source: str, entry: str) -> tuple[tuple[str, str], ...]:
    """(C type, name) of each parameter of a __global__ function, in order, or () without this function.

    The type has no const and no __restrict__, such as float*. An entry may be an instance, such as flash<64>."""
    texts = (re.findall(r"[\w:<>]+|[*&]", text.partition("=")[0]) for text in _declared(source, entry))
    listed = ([word for word in words if word not in _QUALIFIERS] for words in texts)
    return tuple((re.sub(r" (?=[*&])", "", " ".join(words[:-1])), "".join(words[-1:])) for words in listed)


def defaults(source: str, entry: str) -> tuple[str, ...]:
    """The default value of each parameter of a __global__ function, or "" without one."""
    return tuple(text.partition("=")[2].strip() for text in _declared(source, entry))


def _declared(source: str, entry: str) -> list[str]:
    for after in _GLOBAL.split(_COMMENT.sub(" ", source))[1:]:
        found = _HEADER.match(after)
        if found and found[1] == function_of(entry):
            return [text for text in _OF_PROBES.sub("", found[2]).split(",") if text.strip()]
    return []


def kernels_text(files: tuple[tuple[str, str], ...]) -> str:
    """The text with the kernels of a file: its own, and for a plain kernel that of its headers too."""
    return "\n".join(text for _, text in files) if is_plain(files) else files[0][1]


def signature(source: str, entry: str) -> tuple[str, ...]:
    return tuple(name for _, name in parameters(source, entry))


def function_of(entry: str) -> str:
    """The function of an entry: flash for flash<64, 32>."""
    return entry.partition("<")[0].strip()


def symbol_of(entry: str) -> str:
    """The entry as a name in C: flash_64_32_ for flash<64, 32>."""
    return re.sub(r"\W+", "_", entry)


def is_plain_c(source: str, entry: str) -> bool:
    """Whether an entry is extern "C", so that its symbol is its name."""
    name = re.compile(rf"\b{re.escape(entry)}\s*+\(")
    return any(name.search(re.split("[;{]", after, maxsplit=1)[0]) for after in _PLAIN_C.split(source)[1:])


def without_comments(text: str) -> str:
    """Source text without comments, blank lines and the space at the ends of lines."""
    lines = (line.strip() for line in _COMMENT.sub(" ", text).splitlines())
    return "\n".join(line for line in lines if line)
