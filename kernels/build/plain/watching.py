"""The places of a plain kernel's marks ([watch]), and the calls that log them in the probed build.

A mark of a `for` logs each pass of the loop, and its end. A mark of another statement logs its values after it, or
at the start of the block that it opens. A value within a marked loop has the loop's key.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from kernels.build.plain.tokens import closing, line_of, tokens
from kernels.core.spec import KernelSpec
from kernels.core.watch import Watched, WatchText
from kernels.errors import BuildError

LOOP, LOOP_END = LOOPS = ("loop", "loop_end")
MARKS = ("simt_quiet", "simt_watch")
"""The names in the calls of marks. Each build adds a random end, so that no kernel can use them."""
THREAD = "at_thread"  # the default key of a value: the thread's number in its block


@dataclass(frozen=True)
class Mark:
    """A mark in the text.

    expressions: of the value (or "" for a loop), and of each key.
    at: the place of its call in the text.
    wraps: the places of the braces around a single statement without braces, or None."""

    file: str
    line: int
    event: str
    keys: tuple[str, ...]
    expressions: tuple[str, ...]
    at: int
    wraps: tuple[int, int] | None = None


@dataclass(frozen=True)
class _Loop:
    """A `for` statement: the places of its start, of its body's start and end, its key, and the key's expression."""

    first: int
    start: int
    end: int
    variable: str
    key: str = ""
    expression: str = ""


@lru_cache(maxsize=64)
def marks(spec: KernelSpec) -> tuple[Mark, ...]:
    """The marks of a kernel. A mark's number is its place here. Raises BuildError."""
    if not spec.watch:
        return ()
    found: list[Mark] = []
    for file, text in spec.files:
        own = [(entry, at) for entry in spec.watch if (at := _place(spec, entry, file)) is not None]
        found += _Text(file, text).marks(own)
    return tuple(found)


def edits(spec: KernelSpec, file: str, names: tuple[str, str] = MARKS) -> list[tuple[int, int, str]]:
    """The calls of a file's marks, as edits of its text. names: in them, in place of MARKS."""
    quiet, watch = names
    pieces = set[tuple[int, int, int, str]]()  # place, rank there, number, text
    for number, mark in enumerate(marks(spec)):
        if mark.file != file:
            continue
        value, *keys = mark.expressions
        given = ", ".join([str(number), f"(float)({value or 0})", *(f"(long long)({key})" for key in keys)])
        of_loop = mark.event in LOOPS
        pieces.add((mark.at, 4 if of_loop else 1, number, f" {quiet}(1); {watch}({given}); {quiet}(0); "))
        if mark.wraps:
            pieces |= {(mark.wraps[0], 0, 0, "{"), (mark.wraps[1], 3 if of_loop else 2, 0, "}")}
    found: dict[int, str] = {}
    for at, _, _, said in sorted(pieces):
        found[at] = found.get(at, "") + said
    return [(at, at, said) for at, said in found.items()]


def _place(spec: KernelSpec, entry: WatchText, file: str) -> int | None:
    """The place of an entry's text in a file, or None if it is in another file. Raises BuildError."""
    places = [
        (name, found.start())
        for name, text in spec.files  # below the opening comment
        for found in re.compile(re.escape(entry.line)).finditer(
            text, text.find("*/") + 2 if text.lstrip().startswith("/*") else 0
        )
    ]
    if len(places) != 1:
        lines = ", ".join(f"{name}:{line_of(dict(spec.files)[name], at)}" for name, at in places)
        said = f"is on several lines ({lines}). Give a longer part of its line" if places else "is on no line"
        raise BuildError(f'{spec.path.name}: watch."{entry.line}" {said}.')
    return places[0][1] if places[0][0] == file else None


class _Text:
    """The statements of a file."""

    def __init__(self, file: str, text: str) -> None:
        self.file, self.text, self.tokens = file, text, tokens(text)
        openers = [n for n, token in enumerate(self.tokens) if token.text in ("(", "[", "{")]
        self.opener = {closing(self.tokens, n): n for n in openers}

    def marks(self, entries: list[tuple[WatchText, int]]) -> list[Mark]:
        marked = [(entry, at, self._loop(entry, at)) for entry, at in entries]
        loops = [loop for _, _, loop in marked if loop]
        found = []
        for entry, at, loop in marked:
            found += self._of_loop(loop, loops) if loop else self._of_values(entry, at, loops)
        return found

    def _first(self, at: int) -> int:
        return next((n for n, token in enumerate(self.tokens) if token.end > at), len(self.tokens) - 1)

    def _loop(self, entry: WatchText, at: int) -> _Loop | None:
        """The loop of an entry with a part of its header, or None for values."""
        line = line_of(self.text, at)
        for first, token in enumerate(self.tokens):
            if token.text == "for" and self.tokens[closing(self.tokens, first + 1)].end > at:
                break
        else:
            return None
        if token.start > at and line_of(self.text, token.start) != line:
            return None
        (watched,) = entry.parts if len(entry.parts) == 1 else (None,)
        if watched is None or watched.keys is not None:
            raise self._fault(at, f'a loop has one name, such as "tile", not {len(entry.parts)} values')
        loop = self._for(first)
        expression = watched.expression or self._counted(first)
        if not expression:
            raise self._fault(at, f'its passes have no plain count. Write "{watched.name} = EXPRESSION"')
        return _Loop(loop.first, loop.start, loop.end, loop.variable, watched.name, expression)

    def _for(self, first: int) -> _Loop:
        head = closing(self.tokens, first + 1)
        last = self._end(head + 1)
        words = [token.text for token in self.tokens[first + 2 : head]]
        variable = words[words.index("=") - 1] if "=" in words else ""
        start = self.tokens[head + 1].end if self.tokens[head + 1].text == "{" else self.tokens[head].end
        return _Loop(self.tokens[first].start, start, self.tokens[last].end, variable)

    def _counted(self, first: int) -> str:
        """The number of the pass, by a header such as (int j = a; j < n; j += b), or ""."""
        head = self.tokens[first + 2 : closing(self.tokens, first + 1)]
        cuts = [n for n, token in enumerate(head) if token.text == ";"]
        if len(cuts) != 2 or any(token.text == "," for token in head):
            return ""
        setup, step = head[: cuts[0]], head[cuts[1] + 1 :]
        names = [token.text for token in setup]
        if "=" not in names:
            return ""
        at, said = names.index("="), [token.text for token in step]
        variable = names[at - 1]
        begin = self.text[setup[at + 1].start : setup[-1].end] if at + 1 < len(setup) else "0"
        if sorted(said) == sorted([variable, "+", "+"]):
            return f"{variable} - ({begin})"
        if said[:3] == [variable, "+", "="]:
            return f"({variable} - ({begin})) / ({self.text[step[3].start : step[-1].end]})"
        return ""

    def _of_loop(self, loop: _Loop, loops: list[_Loop]) -> list[Mark]:
        around = self._around(loop.first, loops)
        keys = {**{other.key: other.expression for other in around}, loop.key: loop.expression}
        line = line_of(self.text, loop.first)
        braced = self.text[loop.start - 1] == "{"
        wraps = None if braced else (loop.start, loop.end)
        found = [Mark(self.file, line, LOOP, tuple(keys), ("", *keys.values()), loop.start, wraps)]
        after = next((n for n, token in enumerate(self.tokens) if token.start >= loop.end), -1)
        if self._text(after) != "else":
            outer = {other.key: other.expression for other in around}
            found.append(Mark(self.file, line, LOOP_END, tuple(outer), ("", *outer.values()), loop.end))
        return found

    def _of_values(self, entry: WatchText, at: int, loops: list[_Loop]) -> list[Mark]:
        begin, after = self._begin(self._first(at)), self._after(at)
        single = begin > 0 and self.tokens[begin - 1].text not in (";", "{", "}", ":")
        wraps = (self.tokens[begin].start, after) if single else None
        tiles = {loop.key: loop.expression for loop in self._around(after - 1, loops)}
        found = []
        for part in entry.parts:
            keys = self._keys(part, after - 1) | tiles
            expressions = (part.expression or part.name, *keys.values())
            found.append(Mark(self.file, line_of(self.text, at), part.name, tuple(keys), expressions, after, wraps))
        return found

    def _begin(self, number: int) -> int:
        while number > 0 and self._text(number - 1) not in (";", "{", "}", ":", "else", "do"):
            opener = self.opener.get(number - 1, number - 1)
            if self._text(number - 1) == ")" and self._text(opener - 1) in ("for", "if", "while", "constexpr"):
                return number
            number = opener
        return number

    def _keys(self, part: Watched, at: int) -> dict[str, str]:
        """The keys of a value: its own, or the thread and the innermost loop's variable."""
        if part.keys is not None:
            return dict(part.keys)
        every = [self._for(n) for n, token in enumerate(self.tokens) if token.text == "for"]
        inner = [loop.variable for loop in self._around(at, every) if loop.variable]
        return {THREAD: "simt_rank()"} | {name: name for name in inner[-1:]}

    def _around(self, at: int, loops: list[_Loop]) -> list[_Loop]:
        return sorted((loop for loop in loops if loop.start <= at < loop.end), key=lambda loop: loop.first)

    def _after(self, at: int) -> int:
        """The place after the statement at a place, or at the start of the block that it opens."""
        number = self._first(at)
        while number < len(self.tokens):
            token = self.tokens[number].text
            if token == ";":
                return self.tokens[number].end
            if token == "{" and self.tokens[number - 1].text in (")", "else", "do"):
                return self.tokens[number].end
            number = closing(self.tokens, number) + 1 if token in ("(", "[", "{") else number + 1
        raise self._fault(at, "no statement ends after it")

    def _end(self, number: int) -> int:
        token = self.tokens[number].text
        if token == "{":
            return closing(self.tokens, number)
        if token in ("for", "while", "if"):
            last = self._end(closing(self.tokens, number + 1) + 1)
            return self._end(last + 2) if token == "if" and self._text(last + 1) == "else" else last
        while number < len(self.tokens) - 1 and self.tokens[number].text != ";":
            number = closing(self.tokens, number) + 1 if self.tokens[number].text in ("(", "[", "{") else number + 1
        return number

    def _text(self, number: int) -> str:
        return self.tokens[number].text if 0 <= number < len(self.tokens) else ""

    def _fault(self, at: int, said: str) -> BuildError:
        return BuildError(f"{self.file} line {line_of(self.text, at)} is in [watch]: {said}.")
