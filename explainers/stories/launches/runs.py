"""The shown runs as tables: the calls, launches and copies on rows, and the gaps between them.

A run as it goes has the host's calls, and the kernels on the same axis. In a run after all calls, the GPU is held until
the host has made its calls.
"""

from typing import Literal

from explainers.story.glossary import us
from explainers.story.words import Row
from kernels.core.streams import Step, copied_bytes, steps
from kernels.measure.launch_times import LaunchTimes, names

# A launch, copy or call: name, kind (launch, copy or call), entry, row, part (of its row), start, end and length `ns`,
# bytes (of a copy) and child. A run lists them in the order of the host's calls.
Bar = Row
# number, row, before and after (places of bars), of and to (their names), since (the end of the earlier bar, or the
# start of a parent), start, end and length `ns`, which is negative for an overlap, and late: the end of the call of
# `after`, if it comes after the end of `before`.
Gap = Row
# made, host (of a run as it goes, else ""), title and way (the same inside a sentence), rows, bars, gaps, of_bar (the
# gap before each bar), and in ns: total to the last end, idle without any kernel or copy, busy.
Run = Row


def after_calls(made: LaunchTimes) -> Run:
    """The median run after all calls. Its rows are the streams, and after each the children of its kernels."""
    table, plan = made.median, made.request.plan
    listed = list(steps(plan))
    parents = [plan.launches[step.number].parent for step in listed]
    places = sorted({(step.stream, bool(parent)) for step, parent in zip(listed, parents)})
    bars = [
        _bar(
            name,
            table.start_ns[n],
            table.end_ns[n],
            kind="copy" if step.tensor else "launch",
            entry="" if step.tensor else plan.launches[step.number].entry,
            row=places.index((step.stream, bool(parents[n]))),
            bytes=len(copied_bytes(plan, step)),
            child=bool(parents[n]),
        )
        for n, (step, (name, _)) in enumerate(zip(listed, names(made.request)))
    ]
    for bar in sorted(bars, key=lambda bar: bar["start"]):
        running = {b["part"] for b in bars if b["row"] == bar["row"] and b["start"] < bar["start"] < b["end"]}
        bar["part"] = next(part for part in range(len(bars)) if part not in running)
    gaps = list[Gap]()
    for row in range(len(places)):
        own = sorted((n for n, bar in enumerate(bars) if bar["row"] == row), key=lambda n: bars[n]["start"])
        if parents[own[0]]:
            parent = next(n for n, step in enumerate(listed) if bars[n]["entry"] == parents[own[0]])
            gaps.append(_gap(bars, parent, own[0], "start"))
        for place, after in enumerate(own[1:], 1):
            gaps.append(_gap(bars, max(own[:place], key=lambda n: bars[n]["end"]), after, "end"))
    return _run(made, "", ["children" if child else f"stream {stream}" for stream, child in places], bars, gaps)


def as_they_go(pair: list[LaunchTimes]) -> list[Run]:
    """Both ways from Python, then from C++ if a compiler was there. Else none: a graph changes the host's calls, and
    another way of launching changes the GPU's work."""
    if len(pair) < 2 or not pair[-1].request.plan.graph or any(made.free.empty for made in pair):
        return []
    hosts = [cpp for cpp in (False, True) if all((made.free.cpp == cpp).any() for made in pair)]
    return [_as_it_goes(made, cpp) for cpp in hosts for made in pair]


def _as_it_goes(made: LaunchTimes, cpp: bool) -> Run:
    table, entries = made.as_it_goes(cpp), [name for name, _ in names(made.request)]
    called = ["graph"] if made.request.plan.graph else entries
    kernels, calls = (
        [
            _bar(name, one.start_ns, one.end_ns, **more)
            for name, one in zip(named, table[table.call == call].itertuples())
        ]
        for call, named, more in ((False, entries, {"row": 1}), (True, called, {"kind": "call"}))
    )
    for bar in kernels:
        bar["entry"] = bar["name"]
    gaps = [_gap(kernels, n, n + 1, "end") for n in range(len(kernels) - 1)]
    for gap in gaps if len(calls) > 1 else ():
        late = calls[gap["after"]]["end"]
        gap["late"] = late if late > gap["start"] else None
    run = _run(made, "C++" if cpp else "Python", ["host", "GPU"], kernels, gaps)
    stalls = any(gap["late"] is not None for gap in gaps)
    return run | {"bars": [*kernels, *calls], "calls": calls, "called": calls[-1]["end"], "stalls": stalls}


def _bar(name: str, start: float, end: float, **more: object) -> Bar:
    start, end = float(start), float(end)
    bar = {"name": name, "kind": "launch", "entry": "", "row": 0, "part": 0, "start": start, "end": end, "bytes": 0}
    return bar | {"ns": end - start, "child": False} | more


def _gap(bars: list[Bar], before: int, after: int, since: Literal["end", "start"]) -> Gap:
    start, end = bars[before][since], bars[after]["start"]
    gap = {"row": bars[after]["row"], "before": before, "after": after, "since": since, "start": start, "end": end}
    return gap | {"ns": end - start, "late": None}


def _run(made: LaunchTimes, host: str, rows: list[str], bars: list[Bar], gaps: list[Gap]) -> Run:
    idle, until = 0.0, 0.0
    for bar in sorted(bars, key=lambda bar: bar["start"]):
        idle += max(0.0, bar["start"] - until)
        until = max(until, bar["end"])
    for number, gap in enumerate(gaps):
        gap |= {"number": number, "of": bars[gap["before"]]["name"], "to": bars[gap["after"]]["name"]}
    title = made.request.kernel.title
    return {
        "made": made,
        "host": host,
        "title": title,
        "way": title[0].lower() + title[1:] if title[1:2].islower() or title[1:2] == " " else title,
        "rows": rows,
        "bars": bars,
        "gaps": gaps,
        "of_bar": {gap["after"]: gap for gap in gaps},
        "total": until,
        "idle": idle,
        "busy": until - idle,
        "value": f"{us(until)}, the GPU works {us(until - idle)}" if host else f"{us(until)}, idle {us(idle)}",
        "graph": made.request.plan.graph,
        "own_gaps": not made.late,
        "host_ns": made.host_ns,
        "timed_ns": float(made.runs.timed_ns.median()),
    }


def order(run: Run) -> list[int]:
    """The places of the bars by their starts."""
    return sorted(range(len(run["bars"])), key=lambda n: run["bars"][n]["start"])


def awaited(run: Run, bar: int) -> int | None:
    """The place of the bar whose end comes last of all that a bar waits for, or None without any."""
    listed = list(steps(run["made"].request.plan))
    own = listed[bar]

    def waits_for(other: Step) -> bool:
        """By an event of another stream's launch or copy."""
        return other.number == own.number if other.tensor else other.number in own.waits

    waits = {n for n, step in enumerate(listed) if not own.tensor and waits_for(step)}
    waits |= {run["of_bar"][bar]["before"]} if bar in run["of_bar"] else set()
    return max(waits, key=lambda n: run["bars"][n]["end"], default=None)


def needs(run: Run, bar: int, before: int) -> bool:
    """Whether a launch uses a tensor that an earlier launch or copy writes."""
    plan = run["made"].request.plan
    listed = list(steps(plan))
    own, other = (plan.launches[listed[n].number] for n in (bar, before))
    written = {listed[before].tensor} | {t.name for t in plan.written if t.name in other.tensors}
    return bool(written & {*own.tensors}) or bool(own.parent or other.parent)
