"""A stage on its way to the browser.

A worker encodes a stage once. The server stores and sends the same bytes. The form: b"WGST", the JSON's length as 4
bytes (little endian), the JSON, spaces up to a multiple of 4, then every column as float32. {"$column": [first, count]}
in the JSON is a column. JSON has no NaN and no infinity, so they are the texts nan, inf and -inf. Columns have them as
numbers.
"""

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from explainers.story.stage import View, plain

MAGIC = b"WGST"


def encode(stage: object) -> bytes:
    """A Stage, or the blocks of a tab, as bytes."""
    columns: dict[bytes, int] = {}
    text = json.dumps(plain(_as_dict(stage), columns), separators=(",", ":")).encode()
    padding = b" " * (-(len(text) + 8) % 4)
    text += padding
    return MAGIC + len(text).to_bytes(4, "little") + text + b"".join(columns)


def decode(data: bytes) -> Any:
    """The encoded value in JSON's types, with columns as float32 arrays."""
    if data[:4] != MAGIC:
        raise ValueError("these bytes are no stage")
    end = 8 + int.from_bytes(data[4:8], "little")
    numbers = np.frombuffer(data, "<f4", offset=end)

    def restore(value: object) -> object:
        if isinstance(value, dict):
            if "$column" in value:
                first, count = value["$column"]
                return numbers[first : first + count]
            return {k: restore(v) for k, v in value.items()}
        return [restore(v) for v in value] if isinstance(value, list) else value

    return restore(json.loads(data[8:end]))


def _as_dict(value: object) -> object:
    """Dataclasses as dictionaries, at all depths. The frames' lines are in the frames only, and in no view. Of a
    provenance, an empty place or problem is left out."""
    if isinstance(value, View):
        return {
            f.name: _without_lines(getattr(value, f.name)) if f.name == "meta" else getattr(value, f.name)
            for f in fields(value)
        }
    if is_dataclass(value) and not isinstance(value, type):
        found = {f.name: _as_dict(getattr(value, f.name)) for f in fields(value)}
        return {name: inner for name, inner in found.items() if inner or name not in ("place", "problem")}
    if isinstance(value, (list, tuple)):
        return [_as_dict(v) for v in value]
    return value


def _without_lines(meta: object) -> object:
    """A view's meta, without the frames' lines that the stage has. A picture with its own clock keeps everything."""
    if not isinstance(meta, Mapping) or "frames" not in meta or meta.get("clock"):
        return meta
    line_keys = ("lines", "lines_v1", "lines_v2")
    return {**meta, "frames": [{k: v for k, v in frame.items() if k not in line_keys} for frame in meta["frames"]]}
