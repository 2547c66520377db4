"""A stage on its way to the browser.

A worker encodes a stage once. The server stores and sends the same bytes. The form: b"WGST", the JSON's length as 4
bytes (little endian), the JSON, spaces up to a multiple of 4, then every column as float32. {"$column": [first, count]}
in the JSON is a column. The stage's frames have each different value of a field once: {"$rows": count, field: [values,
the place of each frame's value, or -1]}. A view without frames has the stage's. JSON has no NaN and no
infinity, so they are the texts nan, inf and -inf. Columns have them as numbers.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from explainers.story.stage import Stage, plain

MAGIC = b"WGST"


def encode(stage: object) -> bytes:
    """A Stage, or the blocks of a tab, as bytes."""
    columns: dict[bytes, int] = {}
    return _joined(plain(_as_dict(stage), columns), b"".join(columns))


def _joined(value: object, columns: bytes) -> bytes:
    text = json.dumps(value, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % 4)
    return MAGIC + len(text).to_bytes(4, "little") + text + columns


def without_server(data: bytes) -> bytes:
    """An encoded Stage without what a server makes later: the tabs without blocks, and the blocks under the summary."""
    end = 8 + int.from_bytes(data[4:8], "little")
    content = json.loads(data[8:end])
    return _joined({**content, "tabs": [tab for tab in content["tabs"] if tab.get("blocks")], "lead": ""}, data[end:])


def with_tab(data: bytes, tab: Mapping[str, object]) -> bytes:
    """An encoded Stage with one more tab."""
    end = 8 + int.from_bytes(data[4:8], "little")
    content = json.loads(data[8:end])
    return _joined({**content, "tabs": [*content["tabs"], tab]}, data[end:])


def decode(data: bytes) -> Any:
    """The encoded value in JSON's types, with columns as float32 arrays."""
    if data[:4] != MAGIC:
        raise ValueError("these bytes are no stage")
    end = 8 + int.from_bytes(data[4:8], "little")
    numbers = np.frombuffer(data, "<f4", offset=end)
    content = json.loads(data[8:end])
    if isinstance(content, dict) and isinstance(packed := content.get("frames"), dict):
        count = packed.pop("$rows")
        content["frames"] = [
            {name: values[at[n]] for name, (values, at) in packed.items() if at[n] >= 0} for n in range(count)
        ]

    def restore(value: object) -> object:
        if isinstance(value, dict):
            if "$column" in value:
                first, count = value["$column"]
                return numbers[first : first + count]
            return {k: restore(v) for k, v in value.items()}
        return [restore(v) for v in value] if isinstance(value, list) else value

    for view in content.get("views", ()) if isinstance(content, dict) else ():
        view["meta"].setdefault("frames", content["frames"])
    return restore(content)


def _as_dict(value: object, frames: object = None) -> object:
    """Dataclasses as dictionaries, at all depths. A provenance has no empty place or problem."""
    if is_dataclass(value) and not isinstance(value, type):
        if isinstance(value, Stage):
            frames = value.frames
        found = {f.name: _as_dict(getattr(value, f.name), frames) for f in fields(value)}
        if isinstance(value, Stage):
            found["frames"] = _packed(value.frames)
        return {name: inner for name, inner in found.items() if inner or name not in ("place", "problem")}
    if isinstance(value, Mapping):
        return {k: _as_dict(v, frames) for k, v in value.items() if k != "frames" or v is not frames}
    if isinstance(value, (list, tuple)):
        return [_as_dict(v, frames) for v in value]
    return value


def _packed(rows: Sequence[Mapping[str, object]]) -> dict[str, object]:
    names = list(dict.fromkeys(name for row in rows for name in row))
    places: dict[str, dict[str, int]] = {name: {} for name in names}  # the value as JSON -> its place
    packed: dict[str, tuple[list[object], list[int]]] = {name: ([], []) for name in names}
    for row in rows:
        for name, (values, at) in packed.items():
            if name not in row:
                at.append(-1)
                continue
            key = json.dumps(plain(row[name]))
            if key not in places[name]:
                places[name][key] = len(values)
                values.append(row[name])
            at.append(places[name][key])
    return {"$rows": len(rows), **packed}
