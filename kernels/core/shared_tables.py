"""Tables that kernels share: the opening comment of a header has constants, scratch tensors and launches."""

import re

from kernels.core.sources import includes
from kernels.core.toml_tables import Table, parse, tables

KINDS = ("constants", "scratch", "launches")
OWN = {"constants": "meaning", "scratch": "shape"}  # a table with this key takes nothing from a header
_OPENING = re.compile(rf"\A\s*/\*(\s*\[(?:{'|'.join(KINDS)})\b.*?)\*/", re.S)


def completed(name: str, table: Table, files: tuple[tuple[str, str], ...]) -> Table:
    """The table of a .cu whose constants, scratch tensors and launches have their missing keys from headers.

    name: of the .cu. files: (name, text) of the .cu and its headers.
    """
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
