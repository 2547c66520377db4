"""The marked lines of a plain kernel: the table [watch] of its front matter.

A key is a part of the text of one line. The value names a loop, or the values to log after the statement there:

    [watch]
    "for (int start" = "tile"
    "l = l * alpha + p;" = "score[row, col = j] = s; m[row] = m_new; p[row, col = j] = p; l[row] = l"
"""

import re
from dataclasses import dataclass

from kernels.errors import FrontMatterError

_NAME = r"[A-Za-z_]\w*"
_PART = re.compile(rf"({_NAME})\s*+(?:\[([^\[\]]*)\]\s*+)?(?:=\s*+(.+))?", re.S)
MOST_KEYS = 4
TAKEN = (
    *("launch", "block", "thread", "warp", "lane", "seq", "file", "line", "event", "role", "value", "space", "tensor"),
    *("offset", "bytes", "phase", "loop", "loop_end", "start", "barrier", "at_thread"),
)
"""The names of a trace's columns and marks."""


@dataclass(frozen=True)
class Watched:
    """A loop, or a value.

    name: of the event. For a loop, the key with the number of its pass.
    expression: in C++. "" for a loop that counts by its header.
    keys: name and expression of each, or None for the default."""

    name: str
    expression: str = ""
    keys: tuple[tuple[str, str], ...] | None = None


@dataclass(frozen=True)
class WatchText:
    """A marked line. line: a part of its text, at one place of the files. parts: a loop, or one or more values."""

    line: str
    parts: tuple[Watched, ...]


def watch_text(file: str, line: str, said: object) -> WatchText:
    """An entry of the table. Raises FrontMatterError."""
    where = f'{file}: watch."{line}"'
    if not isinstance(said, str) or not said.strip() or not line.strip():
        raise FrontMatterError(f'{where} is {said!r}. It must be a text, such as "m[row] = m_new".')
    parts = []
    for text in said.split(";"):
        found = _PART.fullmatch(text.strip())
        if not found:
            raise FrontMatterError(f'{where}: {text.strip()!r} is no mark. Write "m", "m = m_new" or "m[row] = m_new".')
        keys = None
        if found[2] is not None:  # row, or col = j
            said_keys = ([part.strip() for part in key.partition("=")] for key in found[2].split(","))
            keys = tuple((name, expression or name) for name, _, expression in said_keys)
        names = [found[1], *(name for name, _ in keys or ())]
        odd = [name for name in names if name in TAKEN or not re.fullmatch(_NAME, name)]
        if odd or len(names) > MOST_KEYS + 1:
            raise FrontMatterError(
                f"{where}: {text.strip()!r} has the names {', '.join(names)}. A value has at most {MOST_KEYS} keys, "
                f"and no name of a trace's column: {', '.join(TAKEN)}."
            )
        parts.append(Watched(found[1], found[3] or "", keys))
    return WatchText(line, tuple(parts))
