"""An opened file as bytes for a store, and its part for a picture.

The bytes are a line of JSON and tables as Parquet. `unpack` reads only bytes of `pack`: the name of other bytes in a
link raises TraceError."""

import io
import json
from dataclasses import dataclass

import pandas as pd

from kernels.errors import TraceError
from kernels.measure.elsewhere import opening
from kernels.measure.elsewhere.record import COLUMNS, Stalls, Trace

MAGIC = b"warpglass elsewhere 1\n"
MOST_SHOWN = 3000  # bars of a picture
MOST_REASONS = 3  # of a line


def opened(kind: str, data: bytes, name: str) -> bytes:
    """The packed content of a file. kind: trace or stalls. Raises TraceError, as the readers do."""
    return pack(opening.stalls(data, name) if kind == "stalls" else opening.trace(data, name))


def pack(made: Trace | Stalls) -> bytes:
    tables = [made.bars] if isinstance(made, Trace) else [made.lines, made.instructions]
    parts = [_parquet(table) for table in tables]
    named = ("file", "writer", "clock", "left_out") if isinstance(made, Trace) else ("file", "total")
    facts = {name: getattr(made, name) for name in named}
    head = json.dumps({"facts": facts, "sizes": [len(part) for part in parts]})
    return MAGIC + head.encode() + b"\n" + b"".join(parts)


def unpack(data: bytes) -> Trace | Stalls:
    """Raises TraceError for other bytes."""
    if not data.startswith(MAGIC):
        raise TraceError("The link names no opened file. Open the file again.")
    line, _, rest = data[len(MAGIC) :].partition(b"\n")
    head = json.loads(line)
    tables, at = list[pd.DataFrame](), 0
    for size in head["sizes"]:
        tables.append(pd.read_parquet(io.BytesIO(rest[at : at + size])))
        at += size
    facts = head["facts"]
    if len(tables) == 2:
        return Stalls(facts["file"], facts["total"], *tables)
    return Trace(facts["file"], facts["writer"], facts["clock"], tables[0], facts["left_out"])


def _parquet(table: pd.DataFrame) -> bytes:
    found = io.BytesIO()
    table.to_parquet(found, index=False)
    return found.getvalue()


@dataclass(frozen=True)
class Block:
    """A group of a trace.

    name: of the group. number: its place among `groups` groups.
    rows: JSON of its first MOST_SHOWN bars, [lane, kind, start_ns, end_ns] each. A text passes between processes fast.
    bars: the number of all its bars.
    """

    file: str
    writer: str
    clock: str
    left_out: str
    name: str
    number: int
    groups: int
    bars: int
    rows: str

    def frame(self) -> pd.DataFrame:
        return pd.DataFrame(json.loads(self.rows), columns=list(COLUMNS[1:]))


@dataclass(frozen=True)
class Report:
    """The samples of a report, with the most frequent stall reasons of each row.

    rows: JSON of {lines: [path, line, text, samples, reasons], instructions: [kernel, text, samples, reasons]}, where
        reasons are [name, samples] each.
    """

    file: str
    total: int
    rows: str


def block(trace: Trace, number: int) -> Block:
    """A group of a trace; the last one if there are fewer."""
    groups = trace.groups
    number = min(number, len(groups) - 1)
    own = trace.bars[trace.bars.group == groups[number]].sort_values("start_ns", kind="stable")
    rows = own[list(COLUMNS[1:])].head(MOST_SHOWN).values.tolist()
    facts = trace.file, trace.writer, trace.clock, trace.left_out
    return Block(*facts, groups[number], number, len(groups), len(own), json.dumps(rows))


def report(stalls: Stalls) -> Report:
    lines = [[*key, *_counts(own)] for key, own in _rows(stalls.lines, ["path", "line", "text"])]
    made = [[key[0], key[2], *_counts(own)] for key, own in _rows(stalls.instructions, ["kernel", "number", "text"])]
    return Report(stalls.file, stalls.total, json.dumps({"lines": lines, "instructions": made}))


Key = tuple[str, int, str]


def _rows(table: pd.DataFrame, by: list[str]) -> list[tuple[Key, list[tuple[str, int]]]]:
    """The rows of each line or instruction, as (reason, samples), in the order of the report."""
    found: dict[Key, list[tuple[str, int]]] = {}
    columns = (table[name].tolist() for name in (*by, "reason", "samples"))
    for one, number, text, reason, samples in zip(*columns):
        found.setdefault((str(one), int(number), str(text)), []).append((str(reason), int(samples)))
    return list(found.items())


def _counts(own: list[tuple[str, int]]) -> list[object]:
    """The samples, and the most frequent reasons with theirs."""
    return [dict(own)[""], [list(one) for one in own if one[0]][:MOST_REASONS]]
