"""The device code of a kernel's files: blanks replace the functions and declarations that only the host needs.

No edit moves a line. A function of the host is blank: `main`, launches, calls of the CUDA runtime, bindings to Python.
In a file with host code, a declaration or function that the launched kernels do not reach is blank too. One kernel of
the file therefore runs although another one, or the host, needs what is missing here.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise

from kernels.build.plain import includes, refusals
from kernels.build.plain.tokens import DEVICE, DIRECTIVE, Item, Token, bare, blank, functions, items, tokens
from kernels.core.spec import KernelSpec
from kernels.errors import BuildError

_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:[^\n\\]|\\\n)*)", re.M)
_KEPT = re.compile(r"[ \t]*#[ \t]*(?:if|ifdef|ifndef|elif|else|endif|define|undef)\b")
_OF_HOST = re.compile(r"<<<|\bcuda[A-Z]\w+\s*+\(")
_WORD = re.compile(r"[A-Za-z_]\w*")
_WORDS = (  # of CUDA and C++, which no item declares
    "alignas auto bool char class const constexpr decltype double enum explicit extern false float inline int long "
    "mutable namespace nullptr operator private protected public register short signed sizeof static static_assert "
    "struct template this true typedef typename union unsigned using virtual void volatile "
    "dim3 half half2 size_t uint uchar ushort std"
)
_OF_CUDA = re.compile(
    rf"__\w+|(?:u?(?:char|short|int|long|longlong)|float|double)[1-4]|u?int\d+_t|{_WORDS.replace(' ', '|')}"
)
_NAMESPACES = ("std", "nvcuda", "cooperative_groups", "cuda", "wmma", "cub")
_OF_DEVICE = {
    *("typedef", "using", "struct", "class", "enum", "union", "template", "const", "constexpr", "namespace"),
    *("static_assert", "__constant__", "__device__", "__managed__", "__shared__"),
}
"""A declaration without one of these words is a variable or function of the host."""
_ANY_DEVICE = {*DEVICE, "struct", "class", "using", "typedef", "template"}


def device_text(text: str, entries: Collection[str] = ()) -> str:
    """The device code of one file (device_texts)."""
    return device_texts((("", text),), entries)[0][1]


def device_texts(files: Iterable[tuple[str, str]], entries: Collection[str] = ()) -> list[tuple[str, str]]:
    """(name, device code) of a kernel's files. A text without other code stays as it is.

    entries: words of the launched kernels and of marks. Without them, all device code stays."""
    files = list(files)
    plain = [(name, without_host_functions(text, _qualifiers(files))) for name, text in files]
    return _kept(files, set(entries), False) if _has_host_code(files, plain) else plain


def program_texts(files: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """(name, code) of a program's files: what main() reaches, on the host and on the device."""
    return _kept(list(files), {"main"}, True)


def _has_host_code(files: list[tuple[str, str]], plain: list[tuple[str, str]]) -> bool:
    """Whether a header is left out, the host calls CUDA, or some device code has a construct that no build accepts."""
    own = [name for name, _ in files]
    for (name, text), (_, device) in zip(files, plain):
        if any(one.is_left_out for one in includes.includes(text, own)):
            return True
        if text != device and _OF_HOST.search(bare(text)) and not _OF_HOST.search(bare(device)):
            return True
        try:
            refusals.check(name, device)
        except BuildError:
            return True
    return False


def _kept(files: list[tuple[str, str]], entries: set[str], with_host: bool) -> list[tuple[str, str]]:
    macros = {name: body for _, text in files for name, body in _MACRO.findall(bare(text))}
    qualifiers = _qualifiers(files)
    of_host = _of_host(macros) if not with_host else set[str]()
    parsed = [(name, text, found := tokens(text), items(text, found, qualifiers)) for name, text in files]
    reached = _reached(files, parsed, entries, with_host)
    defined = [item.function for *_, listed in parsed for item in listed if item.function]
    if not with_host:
        device = {one.name for one in defined if one.on_device}
        of_host |= {one.name for one in defined if not one.on_device} - device
    made = []
    for name, text, found, listed in parsed:
        for item in listed:
            if not _is_kept(item, found, reached, of_host, macros, with_host):
                text = _without(text, found[item.first].start, found[item.last].end)
        made.append((name, text))
    return made


def words_of(spec: KernelSpec) -> set[str]:
    """The words of a kernel's launches and marks, as the entries of device_texts."""
    said = [launch.entry for launch in spec.launch_texts]
    for watched in (one for text in spec.watch for one in text.parts):
        said += [watched.name, watched.expression, *(part for _, part in watched.keys or ())]
    return {word for text in said for word in _words(text)}


def _qualifiers(files: list[tuple[str, str]]) -> set[str]:
    """The macros that stand for words such as __device__."""
    macros = [found for _, text in files for found in _MACRO.findall(bare(text))]
    return {name for name, body in macros if {*DEVICE} & _words(body)}


def without_host_functions(text: str, qualifiers: Collection[str] = ()) -> str:
    """The text with blanks for the functions of the host only. qualifiers: macros of other files for __device__."""
    found = tokens(text)
    for function in functions(text, found, qualifiers):
        if not function.on_device:
            text = _without(text, found[function.first].start, found[function.last].end)
    return text


def _without(text: str, start: int, end: int) -> str:
    """The text with blanks between two places. Conditions and definitions of the preprocessor stay."""
    kept = (one.span() for one in DIRECTIVE.finditer(bare(text[start:end])) if _KEPT.match(one[0]))
    made, at = text[:start], start
    for first, last in kept:
        made += blank(text[at : start + first]) + text[start + first : start + last]
        at = start + last
    return made + blank(text[at:end]) + text[end:]


Parsed = tuple[str, str, list[Token], list[Item]]


def _reached(files: list[tuple[str, str]], parsed: list[Parsed], entries: set[str], with_host: bool) -> set[str]:
    """The words of the code that the entries reach, by way of functions, declarations and macros."""
    uses = defaultdict[str, set[str]](set)  # a name -> the words of its definitions
    roots = set(entries)
    for _, text in files:
        for name, body in _MACRO.findall(bare(text)):
            uses[name] |= _words(body)
    for _, _, found, listed in parsed:
        for item in listed:
            words = {token.text for token in found[item.first : item.last + 1]}
            if item.function is None:
                for name in item.names:
                    if not is_of_cuda(name):
                        uses[name] |= words
            elif item.function.on_device or with_host:
                name = item.function.name
                uses[name] |= words
                if not entries or not _WORD.fullmatch(name):  # such as an operator
                    roots |= words
    reached, waiting = set[str](), list(roots)
    while waiting:
        word = waiting.pop()
        if word not in reached:
            reached.add(word)
            waiting += uses.get(word, ())
    return reached


def _of_host(macros: Mapping[str, str]) -> set[str]:
    """The macros whose uses make functions of the host, such as bindings to Python."""
    made = {name: _words(body) for name, body in macros.items()}
    found = {name for name, body in macros.items() if "<<<" in body or "{" in body and not made[name] & _ANY_DEVICE}
    while more := {
        name for name, words in made.items() if name not in found and words & found and not words & _ANY_DEVICE
    }:
        found |= more
    return found


def _is_kept(
    item: Item, found: list[Token], reached: set[str], of_host: set[str], macros: Collection[str], with_host: bool
) -> bool:
    """Whether the code needs an item. of_host: the names of the host's functions and macros."""
    if item.function is not None:
        name = item.function.name
        return (item.function.on_device or with_host) and (name in reached or not _WORD.fullmatch(name))
    texts = [token.text for token in found[item.first : item.last + 1]]
    if texts[:2] == ["using", "namespace"]:
        return texts[2] in _NAMESPACES or texts[2] in reached
    if not item.names:  # a use of a macro
        is_used = with_host or not reached.isdisjoint(text for text in texts if _WORD.fullmatch(text))
        return texts[0] in macros and texts[0] not in of_host and is_used
    is_instance = texts[0] == "template" and texts[1] != "<"
    if (
        any(after == "(" and word in of_host for word, after in pairwise(texts))
        or is_instance
        and of_host & {*item.names}
    ):
        return False
    declared = {name for name in item.names if not is_of_cuda(name)}
    return bool(declared & reached) and (with_host or bool(_OF_DEVICE & set(texts)))


def is_of_cuda(word: str) -> bool:
    """Whether a word is of C++ or CUDA, such as float4."""
    return _OF_CUDA.fullmatch(word) is not None


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text))
