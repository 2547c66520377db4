"""Reads JSON of the Trace Event Format, which Perfetto and chrome://tracing open. nanotrace's port cutedsl-trace writes
it (`TraceWriter.write_perfetto` in cutedsl_trace/host.py), as other profilers do.

The format: "Trace Event Format", of Chrome's tracing: a list of events, or an object with `traceEvents`. `ph` is X for
a bar with `ts` and `dur` in microseconds, B and E for the two ends of one, and M for the name of a process or thread.
Other events have no length. A group is a process, or the block that a thread's name starts with ("Block 3 / ...")."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from kernels.errors import TraceError
from kernels.measure.elsewhere.record import Bars, Trace, entries, table, whole

WRITER = "JSON trace events"
CLOCK = "its profiler's"
Thread = tuple[str, str]  # the process and the thread of an event


def is_mine(root: object) -> bool:
    listed = root.get("traceEvents") if isinstance(root, dict) else root
    return isinstance(listed, list)


def read(root: Mapping[str, object] | Sequence[object], file: str) -> Trace:
    """Raises TraceError for other content."""
    listed = root.get("traceEvents") if isinstance(root, Mapping) else root
    bars, names, other = Bars(file, WRITER, CLOCK), dict[tuple[str, ...], str](), 0
    open_ones = defaultdict[Thread, list[tuple[str, int]]](list)
    made: list[tuple[Thread, str, int, int]] = []
    for n, one in enumerate(entries(listed, file, "traceEvents")):
        event = table(one, file, f"event {n}")
        kind, thread = event.get("ph"), (str(event.get("pid", ""))[:40], str(event.get("tid", ""))[:40])
        name = _filled(str(event.get("name", ""))[:200], event.get("args"))
        if kind == "X":
            start = _ns(event.get("ts"), file, f"ts of event {n}")
            made.append((thread, name, start, start + _ns(event.get("dur", 0), file, f"dur of event {n}")))
        elif kind == "B":
            open_ones[thread].append((name, _ns(event.get("ts"), file, f"ts of event {n}")))
        elif kind == "E" and open_ones[thread]:
            begun, start = open_ones[thread].pop()
            made.append((thread, begun, start, _ns(event.get("ts"), file, f"ts of event {n}")))
        elif kind == "M" and name in ("process_name", "thread_name"):
            said = table(event.get("args", {}), file, f"args of event {n}").get("name", "")
            names[thread if name == "thread_name" else thread[:1]] = str(said)[:200]
        else:
            other += 1
    for thread, name, start, end in made:
        process, lane = names.get(thread[:1], f"process {thread[0]}"), names.get(thread, f"thread {thread[1]}")
        block, cut, rest = lane.partition(" / ")
        bars.add(*((f"{process}, {block}", rest) if cut else (process, lane)), name, start, end)
    unended = sum(map(len, open_ones.values()))
    return bars.trace(bars_without_an_end=unended, events_without_a_length=other)


def _filled(name: str, args: object) -> str:
    """A name with its places {0}, {1} ... filled by the arguments param0, param1 ... of cutedsl-trace."""
    if "{" in name and isinstance(args, dict):
        for n in range(8):
            name = name.replace(f"{{{n}}}", str(args.get(f"param{n}", f"{{{n}}}"))[:20])
    return name


def _ns(value: object, file: str, where: str) -> int:
    """Microseconds as whole ns. Raises TraceError."""
    if isinstance(value, float) and abs(value) < 2**53:  # NaN is not
        return round(value * 1000)
    found = whole(value, file, where)
    if abs(found) >= 2**53:
        raise TraceError(f"{file}: {where} is {found}. Times above {2**53} lose their last digits. Write it again.")
    return found * 1000
