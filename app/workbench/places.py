"""The line of a message about the opening comment: of the key that it names."""

import re

_TOML = re.compile(r"\(at line (\d+), column (\d+)\)")
_LINE = re.compile(r"\bline (\d+)\b|\.cuh?:(\d+)")
_KEY = re.compile(r"(?:there is no key |the key )?([A-Za-z_]\w*(?:\[\d+\])?(?:\.\w+(?:\[\d+\])?)*)")
_PART = re.compile(r"(\w+)(?:\[(\d+)\])?")


def place(text: str, message: str) -> tuple[int, int]:
    """Line and column of a message, from 1. Column 0 stands for the whole line. Without a place, it is the first line.

    message: without the name of the file in front.
    """
    first = _opening(text)
    if found := _TOML.search(message):
        line, column = int(found[1]), int(found[2])
        return (first + line - 1, column if line > 1 else 0)
    if found := _LINE.search(message):
        return int(found[1] or found[2]), 0
    if found := _KEY.match(message):
        return _line_of(text, first, found[1]), 0
    return first, 0


def _opening(text: str) -> int:
    """The line of the first comment."""
    found = re.match(r"\s*/\*", text)
    return 1 + text.count("\n", 0, found.end()) if found else 1


def _line_of(text: str, first: int, key: str) -> int:
    """The line of a key such as launches[0].args. If its last part is missing, the line of its table."""
    lines = text.partition("*/")[0].splitlines()
    at = first
    tables = ""
    for part in _PART.finditer(key):
        name, number = part[1], int(part[2] or 0)
        tables = f"{tables}.{name}" if tables else name
        headers = rf'\s*\[+\s*{re.escape(tables)}\s*\]+|\s*\[\s*{re.escape(tables)}\."?[^\]]*\]'
        table = [n for n, line in enumerate(lines, 1) if n >= at and re.match(headers, line)]
        own = [n for n, line in enumerate(lines, 1) if n >= at and re.match(rf"\s*{re.escape(name)}\s*=", line)]
        if table:
            at = table[min(number, len(table) - 1)]
        elif own:
            at = own[0]
    return at
