"""What a file of another profiler holds, in one form for all formats, and the limits of such a file."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pandas as pd

from kernels.errors import TraceError

MOST_BYTES = 32 * 2**20  # of a file, and of its unpacked content
MOST_EVENTS = 100_000
MOST_NAME = 120  # characters
MOST_NS = 10**13  # of a group: above it, its times are no times of a kernel
COLUMNS = ("group", "lane", "kind", "start_ns", "end_ns")


@dataclass(frozen=True)
class Trace:
    """The bars of a file.

    file: its name.
    writer: the profiler.
    clock: of the times, in words.
    bars: a row for each: group (such as a block), lane (such as a warp), kind (the profiler's name), start_ns and
        end_ns from the first bar of its group.
    left_out: what the file holds and `bars` lacks, such as "markers (3)".
    """

    file: str
    writer: str
    clock: str
    bars: pd.DataFrame
    left_out: str = ""

    @property
    def groups(self) -> list[str]:
        """In the order of the file."""
        return [str(name) for name in self.bars.group.unique()]


@dataclass(frozen=True)
class Stalls:
    """The samples of warps of a Source page of Nsight Compute.

    file: the name of the CSV.
    total: all samples.
    lines: rows of each line of source: path, line, text, reason, samples. The reason "" has all samples of a line.
    instructions: rows of each machine instruction, if the report has no lines: kernel, number in it, text, reason,
        samples.
    """

    file: str
    total: int
    lines: pd.DataFrame
    instructions: pd.DataFrame


@dataclass
class Bars:
    """Collects the bars of a file. Whole numbers of ticks, because a float loses the last ns of a clock's time.

    ns: of a tick.
    early: bars that end before they start.
    """

    file: str
    writer: str
    clock: str
    rows: list[tuple[str, str, str, int, int, float]] = field(default_factory=list)
    early: int = 0

    def add(self, group: str, lane: str, kind: str, start: int, end: int, ns: float = 1.0) -> None:
        if end < start:
            self.early += 1
            return
        if len(self.rows) == MOST_EVENTS:
            raise too_many(self.file)
        self.rows.append((short(group), short(lane), short(kind), start, end, ns))

    def trace(self, **left_out: int) -> Trace:
        """Raises TraceError without a bar, or for a group that lasts longer than a kernel can.

        left_out: what the file holds besides -> how often, such as markers=3."""
        if not self.rows:
            why = f" {self.early:,} bars end before they start." if self.early else ""
            raise TraceError(
                f"{self.file} holds no bar with a start and an end.{why} Record ranges, not only markers, and open the "
                "file again."
            )
        first: dict[str, int] = {}
        for group, _, _, start, _, _ in self.rows:
            first[group] = min(start, first.get(group, start))
        placed = [
            (group, lane, kind, (start - first[group]) * ns, (end - first[group]) * ns)
            for group, lane, kind, start, end, ns in self.rows
        ]
        group, _, _, _, last = max(placed, key=lambda bar: bar[4])
        if last > MOST_NS:
            raise TraceError(
                f"{self.file}: {group} lasts {last / 1e9:,.0f} seconds, which is no time of a kernel. "
                "Write the file again with the profiler."
            )
        bars = pd.DataFrame(placed, columns=list(COLUMNS)).astype({"start_ns": float, "end_ns": float})
        counts = {**left_out, "bars with an end before their start": self.early}
        said = ", ".join(f"{what.replace('_', ' ')} ({count:,})" for what, count in counts.items() if count)
        return Trace(self.file, self.writer, self.clock, bars, said)


def short(name: str | bytes) -> str:
    """A name of a file as one line of at most MOST_NAME printable characters. Bytes are a name that is no UTF-8."""
    name = name if isinstance(name, str) else name.decode(errors="replace")
    line = "".join(c if c.isprintable() else " " for c in name[: 2 * MOST_NAME]).strip()
    return line if len(line) <= MOST_NAME else f"{line[: MOST_NAME - 1]}…"


def too_many(file: str) -> TraceError:
    return TraceError(f"{file} holds more than {MOST_EVENTS:,} events. Trace fewer blocks, and open the file again.")


def whole(value: object, file: str, where: str) -> int:
    """A whole number of a JSON text. Raises TraceError."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**64:
        return value
    raise TraceError(f"{file}: {where} is {value!r:.40}. It must be a whole number. Write the file again.")


def entries(value: object, file: str, where: str) -> Sequence[object]:
    """A list of a JSON text. Raises TraceError."""
    if isinstance(value, list):
        return value
    raise TraceError(f"{file}: {where} is {value!r:.40}. It must be a list. Write the file again.")


def table(value: object, file: str, where: str) -> dict[str, object]:
    """An object of a JSON text. Raises TraceError."""
    if isinstance(value, dict):
        return value
    raise TraceError(f"{file}: {where} is {value!r:.40}. It must be an object. Write the file again.")
