"""The macros of a text: their definitions, their expansion, and the parts that no build compiles (#if 0, #ifdef)."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kernels.build.plain.tokens import DIRECTIVE, SKIPPED, TOKEN, bare, blank, closing, tokens
from kernels.errors import ProblemError

_DEFINE = re.compile(r"[ \t]*#[ \t]*define[ \t]+(\w+)(\([^()]*\))?")
_CONDITION = re.compile(r"[ \t]*#[ \t]*(ifdef|ifndef|if|elif|else|endif)\b([^\n]*)")
_DEFINED = re.compile(r"[ \t]*+(!?)[ \t]*+defined[ \t]*+\(?[ \t]*+(\w++)[ \t]*+\)?[ \t]*+")
_GIVEN = ("__CUDACC__", "__CUDA_ARCH__", "__NVCC__", "__cplusplus", "__linux__", "NDEBUG")
"""Macros that a compiler may give. A condition on them is not decided here."""
MOST_BYTES = 512 * 1024  # of an expanded text
MOST_DEPTH = 12
WITH_LAUNCHES = re.compile(r"<<<|\b__global__\b|\bcudaLaunch\w*")


@dataclass(frozen=True)
class Macro:
    """A macro. parameters: None for a macro without brackets. body: on one line."""

    name: str
    parameters: tuple[str, ...] | None
    body: str

    @property
    def words(self) -> set[str]:
        return set(re.findall(r"[A-Za-z_]\w*", self.body))


def macros_of(text: str) -> dict[str, Macro]:
    """name -> its first definition."""
    code, found = bare(text), dict[str, Macro]()
    for directive in DIRECTIVE.finditer(code):
        if head := _DEFINE.match(directive[0]):
            body = _uncommented(text[directive.start() + head.end() : directive.end()])
            names = None if head[2] is None else tuple(re.findall(r"\w+|\.\.\.", head[2]))
            found.setdefault(head[1], Macro(head[1], names, body))
    return found


def active(text: str, outside: Collection[str] = ()) -> str:
    """The text with blanks for the parts behind a condition that does not hold: #if 0, or a macro without definition.

    A condition on a macro with a definition below, or outside, is open, and so is one of another kind: all parts stay.
    outside: names of macros of other files."""
    code, known, later = bare(text), set[str](), {*macros_of(text), *outside, *_GIVEN}
    spans, open_at = list[tuple[int, int]](), list[list[int | bool | None]]()  # [place after the directive, holds]
    for directive in DIRECTIVE.finditer(code):
        found = _CONDITION.match(directive[0].replace("\\\n", "  "))
        if made := _DEFINE.match(directive[0]):
            known.add(made[1])
        if not found:
            continue
        if found[1] in ("if", "ifdef", "ifndef"):
            open_at.append([directive.end(), _holds(found[1], found[2], known, later)])
        elif open_at:
            start, holds = open_at[-1]
            if holds is False:
                spans.append((int(start or 0), directive.start()))
            if found[1] == "endif":
                open_at.pop()
            elif found[1] == "else":
                open_at[-1] = [directive.end(), None if holds is None else not holds]
            else:
                open_at[-1] = [directive.end(), False if holds else None]
    for start, end in reversed(spans):
        text = text[:start] + blank(text[start:end]) + text[end:]
    return text


def expanded(text: str, known: Mapping[str, Macro], wanted: Collection[str]) -> str:
    """The text with the expansion in place of each use of a wanted macro. No line moves.

    Raises ProblemError for an expansion without an end."""
    return _expanded(text, {name: known[name] for name in wanted}, 0)


def with_launches(known: Mapping[str, Macro]) -> set[str]:
    """The macros with a launch or a kernel in their body, or in the body of a macro that they use."""
    found = {name for name, macro in known.items() if WITH_LAUNCHES.search(macro.body)}
    while more := {name for name, macro in known.items() if name not in found and macro.words & found}:
        found |= more
    return found


def _holds(kind: str, said: str, known: Collection[str], later: Collection[str]) -> bool | None:
    """Whether a condition holds, or None if this is open. known, later: the macros defined above, and anywhere."""
    if kind == "if" and re.fullmatch(r"[ \t]*+[01][ \t]*+", said):
        return said.strip() == "1"
    one = _DEFINED.fullmatch(said) if kind == "if" else re.fullmatch(r"()[ \t]*+(\w++)[ \t]*+", said)
    if not one or one[2] in later and one[2] not in known:
        return None
    return (one[2] in known) != (bool(one[1]) or kind == "ifndef")


def _uncommented(text: str) -> str:
    """The body of a #define on one line, with blanks for its comments."""
    said = SKIPPED.sub(lambda found: " " if found[0].startswith(("//", "/*")) else found[0], text)
    return re.sub(r"\\\n", " ", said).strip()


def _expanded(text: str, wanted: Mapping[str, Macro], depth: int) -> str:
    if len(text) > MOST_BYTES or depth > MOST_DEPTH:
        raise ProblemError("The macros of the file expand without an end. Write the launch without them.")
    found, edits, at = tokens(text), list[tuple[int, int, str]](), 0
    while at < len(found):
        macro, last = wanted.get(found[at].text), at
        if macro is not None and macro.parameters is not None:
            is_call = at + 1 < len(found) and found[at + 1].text == "("
            macro, last = (macro, closing(found, at + 1)) if is_call else (None, at)
        if macro is not None:
            start, end = found[at].start, found[last].end
            given = split(text[found[at + 1].end : found[last].start]) if last > at else []
            inner = {name: one for name, one in wanted.items() if name != macro.name}
            made = _expanded(_substituted(macro, given), inner, depth + 1)
            edits.append((start, end, made + "\n" * text.count("\n", start, end)))
        at = last + 1
    for start, end, made in reversed(edits):
        text = text[:start] + made + text[end:]
    if len(text) > MOST_BYTES:
        raise ProblemError("The macros of the file expand without an end. Write the launch without them.")
    return text


def _substituted(macro: Macro, given: list[str]) -> str:
    names = macro.parameters or ()
    values = dict(zip(names, (" ".join(one.split()) for one in given)))
    values |= dict.fromkeys(names[len(given) :], "")
    if "..." in names:
        values["__VA_ARGS__"] = ", ".join(given[len(names) - 1 :])
    body = re.sub(r"(?<!#)#[ \t]*(\w+)", lambda one: f'"{values[one[1]]}"' if one[1] in values else one[0], macro.body)
    body = TOKEN.sub(lambda one: values.get(one[0], one[0]), body)
    first, *others = body.split("##")
    for other in others:  # a ## b pastes ab
        first = first.rstrip() + other.lstrip()
    return first


_OPEN_TEMPLATE = re.compile(r"(?<!\w)[A-Za-z_]\w*+\s*+<[^<>()]*+\Z")


def arguments(text: str) -> list[str]:
    """The arguments of a call in C++. Commas of a template's arguments, as in f<float, 8>, divide no argument."""
    listed = list[str]()
    for part in split(text):
        if listed and ">" in part and _OPEN_TEMPLATE.search(listed[-1]):
            listed[-1] += f", {part}"
        else:
            listed.append(part)
    return listed


def split(text: str) -> list[str]:
    """The parts of a text between its commas outside of brackets, as a macro divides its arguments."""
    found, listed, first, at = tokens(text), list[str](), 0, 0
    while at < len(found):
        if found[at].text in ("(", "[", "{"):
            at = closing(found, at)
        elif found[at].text == ",":
            listed.append(text[first : found[at].start].strip())
            first = found[at].end
        at += 1
    rest = text[first:].strip()
    return [*listed, rest] if rest else listed
