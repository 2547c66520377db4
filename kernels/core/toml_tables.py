"""Tables of the opening comment of a .cu, which is TOML. An error is one line: file, key, fault, remedy.

The opening comment of a header may hold constants, scratch tensors and launches that kernels share.
"""

import re
import tomllib
from collections.abc import Mapping
from typing import Any, TypeVar

from kernels.core.fields import nearest, shortened
from kernels.core.sources import includes
from kernels.errors import FrontMatterError

MOST_VALUES, DEEPEST = 1000, 8  # of an opening comment: values, and tables within tables. Our largest: 340, 6
MOST_NAMES = 100  # tables under a key, such as constants
Table = dict[str, Any]
Kind = tuple[Any, str]  # the type of a key's value, or several, and their words
Keys = Mapping[str, Kind | None]  # None: another check
TEXT: Kind = (str, "a text in quotes")
FLAG: Kind = (bool, "true or false")
T = TypeVar("T")


def parse(name: str, text: str) -> Table:
    """The table of an opening comment. name: the file. Raises FrontMatterError, also for too many values."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FrontMatterError(f"{name}: the opening comment is not TOML: {error}. Put texts in quotes.") from None
    except (ValueError, RecursionError) as error:
        raise FrontMatterError(
            f"{name}: the opening comment cannot be read ({shortened(str(error))}). Nest fewer tables, and write "
            "shorter numbers."
        ) from None
    level = [table]
    depth = count = 0
    while level and depth <= DEEPEST and count <= MOST_VALUES:
        level = [value for one in level for value in (one.values() if isinstance(one, dict) else one)]
        depth, count = depth + 1, count + len(level)
        level = [value for value in level if type(value) in (dict, list)]
    if level and depth > DEEPEST or count > MOST_VALUES:
        raise FrontMatterError(
            f"{name}: the opening comment has more than {MOST_VALUES:,} values, or tables more than {DEEPEST} deep. "
            "Write fewer values, and nest fewer tables."
        )
    return table


def check_keys(file: str, where: str, table: Table, known: Keys, needed: tuple[str, ...]) -> None:
    """FrontMatterError unless a table has only known keys of their kinds, and all that it needs.

    where: its name in the comment."""
    prefix = f"{where}." if where else ""
    for key, value in table.items():
        if key not in known:
            names = f"There are {', '.join(known)}.{nearest(key, known)}"
            raise FrontMatterError(f"{file}: there is no key {prefix}{key}. {names}")
        if kind := known[key]:
            typed(file, f"{prefix}{key}", value, *kind)
    for key in needed:
        if key not in table:
            raise FrontMatterError(
                f"{file}: the key {prefix}{key} is missing. Add it (kernels/front-matter.md has its meaning)."
            )


def typed(file: str, key: str, value: object, kind: type[T] | tuple[type[T], ...], said: str) -> T:
    """The value of a key. FrontMatterError unless it is of this kind. said: the kind in words."""
    if not isinstance(value, kind) or isinstance(value, bool) and kind is int:
        raise FrontMatterError(f"{file}: {key} is {value!r}. It must be {said}.")
    return value


def tables(file: str, key: str, table: Table) -> dict[str, Table]:
    """name -> table. A key in quotes may name several: each of "A, B" has the same table."""
    found: dict[str, Table] = {}
    for names, entry in typed(file, key, table.get(key, {}), dict, f"tables such as [{key}.NAME]").items():
        for name in (part.strip() for part in names.split(",")):
            if name in found:
                raise FrontMatterError(f"{file}: {key}.{name} is there twice. Keep one of them.")
            found[name] = typed(file, f"{key}.{name}", entry, dict, f"a table [{key}.{name}]")
    if len(found) > MOST_NAMES:
        raise FrontMatterError(f"{file}: {key} has {len(found):,} tables. Write at most {MOST_NAMES}.")
    return found


KINDS = ("constants", "scratch", "launches")
OWN = {"constants": "meaning", "scratch": "shape"}  # a table with this key takes nothing from a header
_OPENING = re.compile(rf"\A\s*/\*(\s*\[(?:{'|'.join(KINDS)})\b.*?)\*/", re.S)


def completed(name: str, table: Table, files: tuple[tuple[str, str], ...]) -> Table:
    """The table of a .cu whose constants, scratch tensors and launches have their missing keys from headers.

    name: of the .cu. files: (name, text) of the .cu and its headers."""
    shared = _shared(files)
    made = dict(table)
    for kind, own in OWN.items():
        if kind in table:
            made[kind] = {
                key: entry if own in entry else {**shared[kind].get(key, {}), **entry}
                for key, entry in tables(name, kind, table).items()
            }
    launches = [entry for entry in table["launches"] if isinstance(entry, dict)]
    children = {child for entry in launches for child in entry.get("children", ())}
    if len(launches) == len(table["launches"]):
        made["launches"] = [
            one if one.get("entry") in children else {**shared["launches"].get(str(one.get("entry")), {}), **one}
            for one in launches
        ]
    return made


def _shared(files: tuple[tuple[str, str], ...]) -> dict[str, dict[str, Table]]:
    """kind -> name -> keys, from the opening comments of headers. A header overrides its own includes."""
    texts, seen = dict(files), set[str]()
    shared: dict[str, dict[str, Table]] = {kind: {} for kind in KINDS}

    def read(name: str) -> None:
        seen.add(name)
        for _, header in includes(name, texts[name]):
            if header in texts and header not in seen:
                read(header)
        if found := _OPENING.match(texts[name]):
            table = parse(name, found[1])
            for kind in KINDS:
                shared[kind].update(tables(name, kind, table))

    read(files[0][0])
    return shared
