"""The TypeScript types of the data that Python sends to the browser: `python -m app.web.declarations`.

The command writes app/stage/types.d.ts, which git ignores. The test of the stage's types writes it anew. Each folder of
Python is a namespace, so a view reads its meta as `models.MatricesMeta` without an import.
"""

import dataclasses
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from app.course import Stop
from app.web.asking import Asking
from app.web.bundles import Waiting
from explainers.story import scene, stage

ROOT = Path(__file__).parents[2]
FILE = ROOT / "app" / "stage" / "types.d.ts"
ENCODED = (stage.__name__, scene.__name__)  # the modules with dataclasses in a bundle
SIMPLE: dict[object, str] = {str: "string", bool: "boolean", int: "number", float: "number", type(None): "null"}
SIMPLE |= {np.ndarray: "Float32Array", dict: "Record<string, any>", Any: "any", object: "any"}


def text() -> str:
    """An interface for each TypedDict of explainers, for each dataclass of a bundle, and for each class in their
    fields. Raises ValueError if two of them have one name."""
    found = {cls: None for cls in [*_roots(), Asking, Waiting, Stop]}
    for cls in (queue := list(found)):
        new = [one for hint in _fields(cls).values() for one in _classes(hint) if one not in found]
        found |= dict.fromkeys(new)
        queue += new
    names = [_name(cls) for cls in found]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"two classes have the name {doubled[0]} in the browser. Rename one class.")
    spaces = groupby(sorted(found, key=_name), key=lambda cls: _name(cls).split(".")[0])
    return "".join(f"declare namespace {space} {{\n{''.join(map(interface, own))}}}\n" for space, own in spaces)


def _roots() -> Iterator[type]:
    for path in sorted((ROOT / "explainers").rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if name in ENCODED or "(TypedDict" in path.read_text():
            own = [cls for cls in vars(import_module(name)).values() if getattr(cls, "__module__", "") == name]
            classes = [cls for cls in own if isinstance(cls, type)]
            yield from (cls for cls in classes if typing.is_typeddict(cls) or name in ENCODED and any(_classes(cls)))


def _name(cls: type) -> str:
    """The namespace and the name: models.MatricesMeta of explainers/models/frames.py."""
    folder = Path(str(import_module(cls.__module__).__file__)).parent.name
    return f"{folder}.{cls.__name__}"


def _fields(cls: type) -> dict[str, object]:
    return {name: hint for name, hint in typing.get_type_hints(cls).items() if typing.get_origin(hint) != ClassVar}


def _classes(hint: object) -> Iterator[type]:
    """The classes with fields in a type."""
    if isinstance(hint, type) and (typing.is_typeddict(hint) or dataclasses.is_dataclass(hint)):
        yield hint
    for part in typing.get_args(hint):
        yield from _classes(part)


def interface(cls: type) -> str:
    """A TypedDict or a dataclass in TypeScript. Raises TypeError for a field of a type that no bundle can have."""
    optional = getattr(cls, "__optional_keys__", ())
    lines = (f"    {name}{'?' * (name in optional)}: {_written(hint)};\n" for name, hint in _fields(cls).items())
    return f"  interface {cls.__name__} {{\n{''.join(lines)}  }}\n"


def _written(hint: object) -> str:
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if hint in SIMPLE:
        return SIMPLE[hint]
    if isinstance(hint, type) and any(_classes(hint)) and not parts:
        return _name(hint)
    if origin is typing.Literal:
        return " | ".join(map(repr, parts))
    if origin in (typing.Union, types.UnionType):
        return " | ".join(dict.fromkeys(map(_written, parts)))
    if origin is tuple and parts[-1] is not Ellipsis:
        return f"[{', '.join(map(_written, parts))}]"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"Record<{_written(parts[0])}, {_written(parts[1])}>"
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return f"({_written(parts[0])})[]"
    raise TypeError(f"{hint} has no type in a browser. Add it to app/web/declarations.py.")


if __name__ == "__main__":
    FILE.write_text(text())
