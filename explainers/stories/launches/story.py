"""Launches: all kernels and copies of a run on one time line, alone or above another way of launching."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import pandas as pd

from explainers.stories.launches.host_code import host_code, purpose
from explainers.stories.launches.runs import Gap, Run, after_calls, as_they_go, awaited, needs, order
from explainers.story import scene, stage
from explainers.story.base import Part, Runner, Story
from explainers.story.glossary import us
from explainers.story.stage import Block, Code, Stage, State, Tab, View
from explainers.story.words import Row, Words
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.core.streams import copied_bytes, steps
from kernels.measure import launch_times
from kernels.measure.launch_times import LaunchTimes
from kernels.run.backends.gpu_launches import AHEAD_NS

WORDS = Words.of(str(__package__))
ROOM = 1.18  # the axis, of the longest run: the name of its last bar stands behind it
NEAR = 0.01  # a total that is higher by less is no slower
APART, FAR = math.log(1.25), math.log(8)  # of two options, and of an option and the answer
TINTS, COPY, CALL, WAIT = "KOPS", "Q", "other", "#e69f00"


@dataclass(frozen=True)
class Look:
    """The shown runs, the plain way first.

    request: of the run on the CPU for the tab of bytes.
    """

    requests: tuple[Request, ...]
    request: Request


class Launches(Story[Look]):
    """The launches and copies of one run, or of two on one scale."""

    def refusal(self, spec: KernelSpec) -> str:
        if any(spec.problem_type.launch_cases(spec)):
            return ""
        return f"{spec.name} has no problem with times of its launches. Choose a kernel whose problem has launch_cases."

    def stage(self, subject: Look, runner: Runner) -> Stage:
        data = data_of([load(request) for request in subject.requests])
        steps, made = data["steps"], data["own"]["made"]
        frames = WORDS.frames(steps, data)
        for frame in frames[data["before"] :] if data["free"] else ():
            frame["summary"] = WORDS.say("held", data)
        return Stage(
            headline=stage.headline(made.request.kernel),
            frames=frames,
            views=[picture(data)],
            codes=[code(data["runs"], frames)],
            state=[State(name, [step[name] for step in steps]) for name in ("gap before", "lasts", "run")],
            tabs=[Tab("gaps", "Every gap"), Tab("executed", "Order and bytes"), Tab("clock", "Clock and events")],
            provenance=stage.Provenance(
                made.provenance, WORDS.say("source", data), place=stage.place(made.device, made.date)
            ),
            summary=WORDS.say("summary", data),
            questions=WORDS.questions(data, len(frames) - 1),
        )

    def parts(self) -> dict[str, Part[Look]]:
        return {"gaps": gaps_tab, "executed": executed_tab, "clock": clock_tab}


@lru_cache(maxsize=16)
def load(request: Request) -> LaunchTimes:
    """The launch times of a request: made on this machine's GPU, or recorded."""
    return launch_times.launch_times(request)


def data_of(pair: list[LaunchTimes]) -> Row:
    """Every table and number of the page. pair: the times of the shown ways, the plain one first.

    runs: after all calls. free: as they go, or none. panels: both, in the order of the steps.
    before: the number of steps about free. The others have the summary of the runs after all calls.
    """
    runs, free, made = [after_calls(one) for one in pair], as_they_go(pair), pair[-1]
    plain, own, kernel = runs[0], runs[-1], made.request.kernel
    slower = own["timed_ns"] > (1 + NEAR) * plain["timed_ns"]
    before = [step for panel, run in enumerate(free) for step in _free_steps(panel, run)]
    held = [_held_step(runs, len(free) + n, run, bar) for n, run in enumerate(runs) for bar in order(run)]
    if free:  # the host's calls are known by now, so the first starts are one step
        held = held[:1] + [step for step in held[1:] if step["start"]]
    last: Row = {"about": "end", "tile": -1, "panel": len(free) + len(runs) - 1, "place": -1}
    last["lines"] = host_code(made.request).last if own["graph"] else {}  # another run's calls have steps of their own
    rows, panels = [*before, *held, last], [*free, *runs]
    for n, step in enumerate(rows):
        run = panels[step["panel"]]
        bar, gap = run["bars"][step["place"]] if step["place"] >= 0 else {}, run["of_bar"].get(step["place"])
        first = {"launch": "first kernel", "copy": "first copy"}.get(bar.get("kind", ""), "–")
        step["gap before"] = first if gap is None else us(gap["ns"]) if gap["ns"] > 0 else "none"
        step |= {"lasts": us(bar["ns"]) if bar else "–", "run": us(run["total"])}
        bar["step"] = n
    between = [
        gap
        for gap in plain["gaps"]
        if gap["ns"] > 0
        and gap["since"] == "end"
        and all(plain["bars"][gap[end]]["kind"] == "launch" for end in ("before", "after"))
    ]
    waits = [gap for gap in own["gaps"] if gap["since"] == "end"]
    longest = max(waits, key=lambda gap: gap["ns"], default={"ns": 0})
    return {
        "runs": runs,
        "free": free,
        "cpp": free[2:],
        "panels": panels,
        "first": len(free),
        "last": len(panels) - 1,
        "steps": rows,
        "before": len(before),
        "plain": plain,
        "own": own,
        "two": len(runs) > 1,
        "slower": slower,
        "why": (kernel.costs if slower else kernel.idea).rstrip("."),
        "costs": kernel.costs,
        "made": vars(made),
        "place": re.sub(r" \d+GB.*", "", made.device),  # without the size of its memory
        "repeats": len(made.runs),
        "apart": max(one.clocks_apart_ns for one in pair),
        "late": [run["title"] for run in runs if not run["own_gaps"]],
        "size": stage.problem_said(made.request.problem),
        "clocks": pair[0].clocks_apart_ns,
        "making": sum(made.graph[name] for name in ("capture_ns", "instantiate_ns")) if made.graph else 0,
        # what the questions ask: a gap that the host makes, the first one after all calls, other times, the waits
        "late_call": next((gap for run in free[:1] for gap in run["gaps"] if gap["late"]), {}),
        "gap": between[0] if between else {},
        "near": _near(between[0], runs) if between else [],
        "alone": between and plain["own_gaps"] and {bar["row"] for bar in plain["bars"]} == {0} and not _copies(plain),
        "waits": sorted(waits, key=lambda gap: gap is not longest) if longest["ns"] > 0 and len(waits) > 1 else [],
    }


def _copies(run: Run) -> bool:
    return any(bar["kind"] == "copy" for bar in run["bars"])


def _free_steps(panel: int, run: Run) -> Iterator[Row]:
    """A row for each kernel of the first run as it goes, and one for each other run.

    Columns: about, panel, place (of a bar), shown (the run), lines. Of a kernel: bar, call, gap (before it, or {}).
    """
    calls, count = host_code(run["made"].request), len(run["bars"]) - len(run["calls"])
    for place in range(count) if not panel else [count]:
        shown = [place] if not panel else range(count)
        lines = calls.last if run["graph"] else {at: 1 for step in shown for at in calls.lit(step)}
        row = {"about": "run", "tile": -1, "panel": panel, "place": place, "shown": run, "lines": lines}
        if not panel:
            row |= {"about": "kernel", "bar": run["bars"][place], "call": run["calls"][place]}
            row |= {"gap": run["of_bar"].get(place, {})}
        yield row


def _held_step(runs: list[Run], panel: int, run: Run, place: int) -> Row:
    """The row of the start of a launch or a copy after all calls.

    Columns: about: first (of the run), stream (the first of its stream), parent, overlap, event (of another row) or
        gap. who: its name at the start of a sentence. awaited: the bar that it waits for, on a row `on`, and wait: ns
        from its end. same: ns of the plain run's gap in this place.
    """
    bar, gap, request = run["bars"][place], run["of_bar"].get(place, {}), run["made"].request
    number = list(steps(request.plan))[place].number
    launch, late, first, name = request.plan.launches[number], awaited(run, place), order(run), bar["name"]
    row: Row = {
        "about": "first" if place == first[0] else "stream",
        "tile": -1,
        "panel": panel,
        "place": place,
        "name": name,
        "who": f"{run['title']}: {name}" if len(runs) > 1 else name[0].upper() + name[1:],
        "start": bar["start"],
        "megabytes": bar["bytes"] / 1e6,
        "row": run["rows"][bar["row"]],
        "others": " and ".join(name for name in run["rows"] if name != run["rows"][bar["row"]]),
        "new": run is runs[0],
        "shown": run,
        "child": bool(launch.parent),
        "dependent": launch.dependent,
        "lines": host_code(request).lit(place),
    }
    if launch.parent:  # the line of its parent's call
        call, file = rf"(?<!\w){re.escape(launch.entry)}<<<", request.kernel.path.name
        source = enumerate(request.kernel.source.splitlines(), 1)
        row["lines"] = {f"{file}:{n}": 1 for n, line in source if re.search(call, line)}
    if not gap or late is None:
        return row
    other = run["bars"][late]
    wait = bar["start"] - other["end"]
    plain = next((gap for gap in runs[0]["gaps"] if gap["to"] == name and gap["since"] == "end"), {"ns": 0.0})
    about = "overlap" if wait < 0 else "event" if late != gap["before"] else "gap"
    return row | {
        "about": "parent" if gap["since"] == "start" else about,
        "gap": gap,
        "awaited": other["name"],
        "on": run["rows"][other["row"]],
        "wait": wait,
        "second": place == first[1],
        "needed": needs(run, place, late),
        "same": plain["ns"] if run is not runs[0] and plain["ns"] > 0 else 0.0,
    }


def _near(gap: Gap, runs: list[Run]) -> list[Row]:
    """Other times of the runs, the nearest to a gap of the first run by ratio. Any two differ by a quarter."""
    run, made, wait = runs[0], runs[0]["made"], gap["ns"]
    found: list[Row] = [
        {"kind": "idle", "ns": run["idle"]},
        {"kind": "host", "ns": run["host_ns"]},
        {"kind": "events", "ns": made.overhead_ns},
        {"kind": "timer", "ns": made.timer_step_ns},
        *({"kind": "bar", "ns": bar["ns"], "name": bar["name"]} for bar in run["bars"]),
        *(
            {"kind": "gap", "ns": other["ns"], "name": other["to"], "title": one["title"]}
            for one in runs
            for other in one["gaps"]
            if other is not gap
        ),
    ]
    found = [*{row["ns"]: row for row in found if row["ns"] > 0}.values()]
    chosen = list[Row]()
    for row in sorted(found, key=lambda row: abs(math.log(row["ns"] / wait))):
        near = abs(math.log(row["ns"] / wait)) < FAR
        if near and all(abs(math.log(row["ns"] / other["ns"])) > APART for other in (gap, *chosen)):
            chosen.append(row)
    return chosen


# ---- the picture and the code ----


def picture(data: Row) -> View:
    """The runs as they go on one axis, then the runs after all calls on another one."""
    panels, first = data["panels"], data["first"]
    kernels = {bar["entry"]: run["made"].request.kernel for run in panels for bar in run["bars"] if bar["entry"]}
    colours = {entry: TINTS[n % len(TINTS)] for n, entry in enumerate(kernels)}
    scenes = [range(first), range(first, len(panels))]
    purposes = {entry: purpose(kernel, entry) for entry, kernel in kernels.items()}
    legend = [(colours[entry], f"{entry}: {said}" if said else entry) for entry, said in purposes.items()]
    gaps = [gap for run in panels for gap in run["gaps"]]
    legend += [(COPY, "copy from host memory")] if any(_copies(run) for run in panels) else []
    legend += [(CALL, "a call of the host")] if data["free"] else []
    legend += [(f"pale {WAIT}", "the GPU waits for a late call")] if any(gap["late"] for gap in gaps) else []
    legend.append(("", "└┘ a gap: the row is idle"))
    if any(gap["since"] == "start" for gap in gaps):
        legend.append(("", "└┘ before the first of children: from the start of their parent"))
    return scene.view("launches", "Time line", [[_lanes(data, one, colours)] for one in scenes if one], legend=legend)


def title_of(data: Row, run: Run) -> str:
    """The title of a time line."""
    after = f", from {run['host']}" if run["host"] else ", after all calls" if data["free"] else ""
    return f"{run['title']}{after}"


def _lanes(data: Row, panels: range, colours: dict[str, str]) -> scene.Lanes:
    """The time lines of some panels, at the steps about them."""
    source = f"{data['made']['provenance']} on {data['place']}"
    groups, rows, spans, gaps = [], list[scene.Lane](), list[scene.Span](), list[scene.Gap]()
    for panel in panels:
        run, title, top = data["panels"][panel], title_of(data, data["panels"][panel]), len(rows)
        groups.append(scene.Group(title=title, value=run["value"], datum={"panel": panel}, tip=title))
        for n, name in enumerate(run["rows"]):
            datum: scene.Datum = {"of": panel, "row": n}
            rows.append(scene.Lane(name=name, group=len(groups) - 1, datum=datum, tip=f"{title}: {name}"))
        begin = min(n for n, step in enumerate(data["steps"]) if step["panel"] == panel)
        for n, bar in enumerate(run["bars"]):
            step, short = bar.get("step"), bar["name"].removeprefix("copy of ")
            moved = f", {bar['bytes']:,} bytes" if bar["bytes"] else ""
            spans.append(
                scene.Span(
                    row=top + bar["row"],
                    part=bar["part"],
                    start=bar["start"],
                    end=bar["end"],
                    texts=[bar["name"], short, re.sub(r"^\D* ", "", short), short[:3]],
                    value=us(bar["ns"]),
                    colour={"call": CALL, "copy": COPY}.get(bar["kind"]) or colours[bar["entry"]],
                    since=begin if step is None else step,
                    now=[] if step is None else [step],
                    go=step,
                    datum={"panel": panel, "span": n},
                    tip=f"{bar['name']}{moved}\n{bar['ns']:,.0f} ns from {bar['start']:,.0f} ns on ({source})",
                )
            )
        for gap in run["gaps"]:
            why = ", the GPU waits for a call" if gap["late"] else ""
            ends = f"from the {gap['since']} of {gap['of']} to the start of {gap['to']}"
            step = run["bars"][gap["after"]].get("step")
            if gap["ns"] > 0:
                gaps.append(
                    scene.Gap(
                        row=top + gap["row"],
                        start=gap["start"],
                        end=gap["end"],
                        texts=[us(gap["ns"]), us(gap["ns"]).removesuffix(" µs")],
                        late=gap["late"],
                        colour=WAIT,
                        now=[] if step is None else [step],
                        datum={"panel": panel, "gap": gap["number"]},
                        tip=f"gap: {gap['ns']:,.0f} ns{why}\n{ends} ({source})",
                    )
                )
    free = panels.stop == data["first"]
    return scene.Lanes(
        groups=groups,
        rows=rows,
        spans=spans,
        gaps=gaps,
        length=ROOM * max(data["panels"][panel]["total"] for panel in panels),
        units=[(1, "ns"), (1e3, "µs")],
        note=WORDS.say("note", data | {"goes": free}),
        shown=[n for n, step in enumerate(data["steps"]) if step["panel"] in panels],
    )


def code(runs: list[Run], frames: list[Row]) -> Code:
    """The host's calls of each run in the order of the picture, then the kernels, with the last run first."""
    made = stage.code(runs[-1]["made"].request, frames)
    kernels = [run["made"].request.kernel for run in runs[:-1]]
    files = [*made.files, *(stage.source_file(k.path.name, k.source) for k in kernels)]
    return replace(made, files=[*(host_code(run["made"].request).file for run in runs), *files])


# ---- tabs ----


def gaps_tab(look: Look, runner: Runner) -> list[Block]:
    """The gaps of each run as a table."""
    data = data_of([load(request) for request in look.requests])
    rows = [
        [
            title_of(data, run),
            run["rows"][gap["row"]],
            f"the {gap['since']} of {gap['of']}",
            gap["to"],
            round(gap["ns"]),
        ]
        for run in data["panels"]
        for gap in run["gaps"]
    ]
    table = pd.DataFrame(rows, columns=["run", "row", "from", "to the start of", "ns"])
    return [stage.table(table, "A negative gap is an overlap: the next one started before the end.")]


def executed_tab(look: Look, runner: Runner) -> list[Block]:
    """The order and the bytes of a run on the CPU as a table, without any time."""
    request, run = look.request, runner.run(look.request)
    accesses = run.trace.frame("launch", "event", "space", "bytes")
    accesses = accesses[accesses.space == "global"].assign(stored=accesses.event == "store")
    moved, rows = accesses.groupby(["launch", "stored"]).bytes.sum(), []
    for step, (name, stream) in zip(steps(request.plan), launch_times.names(request)):
        parent = request.plan.launches[step.number].parent
        waits = [f"launched by {parent}"] if parent else [request.plan.launches[n].entry for n in step.waits]
        if step.tensor:
            rows.append([name, stream, "", None, len(copied_bytes(request.plan, step))])
        else:
            both = [int(moved.get((step.number, stored), 0)) for stored in (False, True)]
            rows.append([name, stream, ", ".join(waits), *both])
    table = pd.DataFrame(rows, columns=["launch or copy", "stream", "waits for", "bytes read", "bytes written"])
    return [
        stage.text(WORDS.say("executed", {"size": stage.problem_said(request.problem)}), run.provenance),
        stage.table(table),
    ]


def clock_tab(look: Look, runner: Runner) -> list[Block]:
    """The making of a graph, and the precision of the times: the step of the timer, and the distance from events."""
    blocks = []
    for made in map(load, look.requests):
        medians = {"timed": made.runs.timed_ns.median(), "events": made.runs.events_ns.median()}
        names = vars(made) | vars(made.sustained) | medians | {"kernel": made.request.kernel.name}
        names |= {"title": made.request.kernel.title, "any_free": not made.free.empty, "ahead": AHEAD_NS // 1000}
        names |= {"apart": abs(made.apart), "after": made.after_ns, "clocks_apart": made.clocks_apart_ns}
        texts = [WORDS.say(name, names) for name in ("making", "hosts", "ahead", "timer", "ends")]
        blocks += [stage.text(text) for text in texts if text]
    return blocks


STORY = Launches()
