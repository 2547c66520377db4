"""Launches: all kernels and copies of a run on one time line, alone or above another way of launching."""

import math
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import pandas as pd

from explainers.stories.launches.host_code import host_code, purpose
from explainers.stories.launches.runs import Gap, Run, after_calls, as_they_go, awaited, needs, order
from explainers.story import scene, stage
from explainers.story.base import Part, Runner, Story
from explainers.story.glossary import us
from explainers.story.stage import Block, Code, Stage, State, Tab, View
from explainers.story.words import Words
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
        for frame in frames[len(data["before"]) :] if data["before"] else ():
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


def data_of(pair: list[LaunchTimes]) -> dict[str, Any]:
    """Every table and number of the page. pair: the times of the shown ways, the plain one first.

    runs: after all calls. free: as they go, or none. panels: both, in the order of the steps.
    before: the steps of free. The steps after it have the summary of the runs after all calls.
    """
    runs, free = [after_calls(one) for one in pair], as_they_go(pair)
    plain, own, made = runs[0], runs[-1], pair[-1]
    kernel = made.request.kernel
    slower = own["timed_ns"] > (1 + NEAR) * plain["timed_ns"]
    data: dict[str, Any] = {
        "runs": runs,
        "free": free,
        "cpp": free[2:],
        "panels": [*free, *runs],
        "first": len(free),
        "plain": plain,
        "own": own,
        "two": len(runs) > 1,
        "slower": slower,
        "why": (kernel.costs if slower else kernel.idea).rstrip("."),
        "costs": kernel.costs,
        "provenance": made.provenance,
        "device": re.sub(r" \d+GB.*", "", made.device),  # without the size of its memory
        "place": f"{made.device}, {made.date}",
        "repeats": len(made.runs),
        "timer": made.timer_step_ns,
        "apart": max(one.clocks_apart_ns for one in pair),
        "late": [run["title"] for run in runs if not run["own_gaps"]],
        "size": made.request.problem.size,
        "clocks": pair[0].clocks_apart_ns,
        "making": sum(made.graph[name] for name in ("capture_ns", "instantiate_ns")) if made.graph else 0,
    }
    before = _free_steps(free)
    held = [_held_step(runs, len(free) + n, run, bar) for n, run in enumerate(runs) for bar in order(run)]
    if free:  # the host's calls are known by now, so the first starts are one step
        held = held[:1] + [step for step in held[1:] if step["start"]]
    lines = host_code(made.request).last if own["graph"] else {}  # another run's calls have steps of their own
    end = {"about": "end", "tile": -1, "panel": len(data["panels"]) - 1, "place": -1, "lines": lines}
    data |= {"steps": [*before, *held, end], "before": before}
    for step in data["steps"]:
        step |= _strip(data["panels"][step["panel"]], step["place"])
    return data | _asked(data)


def _strip(run: Run, place: int) -> dict[str, str]:
    """The wait and the length of a launch, copy or call, and its run."""
    bar, gap = run["bars"][place] if place >= 0 else None, run["of_bar"].get(place)
    first = f"first {'kernel' if bar['kind'] == 'launch' else 'copy'}" if bar and bar["kind"] != "call" else "–"
    return {
        "gap before": (us(gap["ns"]) if gap["ns"] > 0 else "none") if gap else first,
        "lasts": us(bar["ns"]) if bar else "–",
        "run": us(run["total"]),
    }


# ---- steps ----


def _free_steps(free: list[Run]) -> list[dict[str, Any]]:
    """A row for each kernel of the first run as it goes, and one for each other run.

    Columns: about, panel and place (of a bar), name, lines. Of a kernel: call, bar, before (the bar before), late.
    """
    rows = list[dict[str, Any]]()
    for panel, run in enumerate(free):
        calls, several = host_code(run["made"].request), range(len(run["bars"]) - len(run["calls"]))
        for place in several if not panel else [len(several)]:
            shown = [place] if not panel else several
            lines = calls.last if run["graph"] else {at: 1 for step in shown for at in calls.lit(step)}
            row = {"about": ("call", "graph", "cpp", "saved")[panel], "tile": -1, "panel": panel, "place": place}
            if not panel:
                bar, gap = run["bars"][place], run["of_bar"].get(place)
                row |= {"about": "waits" if gap and gap["late"] else "hidden" if gap else "call", "bar": bar}
                row |= {"call": run["calls"][place], "preceding": run["bars"][place - 1]}
            rows.append(row | {"shown": run, "lines": lines})
    return rows


def _held_step(runs: list[Run], panel: int, run: Run, place: int) -> dict[str, Any]:
    """The row of the start of a launch or a copy after all calls.

    Columns: about: first (of the run), stream (the first of its stream), parent, overlap, event (of another row) or
        gap. who: its name at the start of a sentence. before: the name of what it waits for, and wait: ns from the end
        of it. from_parent: ns. on: the row of `before`. same: ns of the plain run's gap in this place.
    """
    bar, gap, made = run["bars"][place], run["of_bar"].get(place), run["made"]
    plan, listed, name = made.request.plan, list(steps(made.request.plan)), bar["name"]
    launch, late = plan.launches[listed[place].number], awaited(run, place)
    first = order(run)
    who = f"{run['title']}: {name}" if len(runs) > 1 else name[0].upper() + name[1:]
    row: dict[str, Any] = {
        "about": "first" if place == first[0] else "stream",
        "tile": -1,
        "panel": panel,
        "place": place,
        "name": name,
        "who": who + (", a child," if bar["child"] else ""),
        "start": bar["start"],
        "megabytes": bar["bytes"] / 1e6,
        "row": run["rows"][bar["row"]],
        "others": " and ".join(name for name in run["rows"] if name != run["rows"][bar["row"]]),
        "new": run is runs[0],
        "shown": run,
        "lines": host_code(made.request).lit(place),
        "same": None,
    }
    if launch.parent:  # the line of its parent's call
        source, call = made.request.kernel.source.splitlines(), rf"(?<!\w){re.escape(launch.entry)}<<<"
        file = made.request.kernel.path.name
        row["lines"] = {f"{file}:{n}": 1 for n, line in enumerate(source, 1) if re.search(call, line)}
    if gap is None or late is None:
        return row
    before = run["bars"][late]
    row |= {"before": before["name"], "wait": bar["start"] - before["end"], "on": run["rows"][before["row"]]}
    row |= {"from_parent": gap["ns"], "dependent": launch.dependent, "child": bool(launch.parent)}
    row |= {"second": place == first[1], "needed": needs(run, place, late)}
    plain = runs[0]
    other = next((n for n, one in enumerate(plain["bars"]) if one["name"] == name), None)
    if run is not plain and other in plain["of_bar"]:
        one = plain["of_bar"][other]
        row["same"] = one["ns"] if one["since"] == "end" and one["ns"] > 0 else None
    if gap["since"] == "start":
        about = "parent"
    elif row["wait"] < 0:
        about = "overlap"
    else:
        about = "event" if late != gap["before"] else "gap"
    return row | {"about": about}


# ---- what the questions ask ----


def _asked(data: dict[str, Any]) -> dict[str, Any]:
    """late_call: the first gap as it goes that the host makes. gap: the first one between two kernels after all calls.
    near: other times of these runs. waits: each launch and copy with its wait, the longest wait first."""
    plain, own, runs, first = data["plain"], data["own"], data["runs"], data["first"]
    place_of = {(step["panel"], step["place"]): n for n, step in enumerate(data["steps"])}
    asked: dict[str, Any] = {"late_call": {}, "gap": {}, "near": [], "waits": [], "alone": False}

    def named(run: Run, panel: int, number: int) -> dict[str, Any]:
        gap = run["gaps"][number]
        before, name = (run["bars"][gap[place]]["name"] for place in ("before", "after"))
        return gap | {"before": before, "name": name, "number": number, "step": place_of.get((panel, gap["after"]))}

    for run in data["free"][:1]:
        late = [n for n, gap in enumerate(run["gaps"]) if gap["late"]]
        if late:
            gap = named(run, 0, late[0])
            asked["late_call"] = gap | {"alone": plain["of_bar"].get(gap["after"], {"ns": 0.0})["ns"]}
    between = [
        n
        for n, gap in enumerate(plain["gaps"])
        if gap["ns"] > 0
        and gap["since"] == "end"
        and not {plain["bars"][gap[place]]["kind"] for place in ("before", "after")} - {"launch"}
    ]
    if between:
        asked["gap"] = named(plain, first, between[0])
        asked["near"] = _near(asked["gap"]["ns"], runs, between[0])
        copies = any(bar["kind"] == "copy" for bar in plain["bars"])
        asked["alone"] = plain["own_gaps"] and len(plain["rows"]) == 1 and not copies
    panel = first + len(runs) - 1
    waits = [named(own, panel, n) for n, gap in enumerate(own["gaps"]) if gap["since"] == "end"]
    longest = max(waits, key=lambda gap: gap["ns"], default=None)
    if longest and longest["ns"] > 0 and len(waits) > 1:
        asked["waits"] = [longest, *(gap for gap in waits if gap is not longest)]
    return asked | {"last_panel": panel}


def _near(wait: float, runs: list[Run], number: int) -> list[dict[str, Any]]:
    """Other times of the runs, the nearest to `wait` by ratio. Any two differ by a quarter. number: of the gap."""
    run, made = runs[0], runs[0]["made"]
    found: list[dict[str, Any]] = [
        {"kind": "idle", "ns": run["idle"]},
        {"kind": "host", "ns": run["host_ns"]},
        {"kind": "events", "ns": made.overhead_ns},
        {"kind": "timer", "ns": made.timer_step_ns},
        *({"kind": "bar", "ns": bar["ns"], "name": bar["name"]} for bar in run["bars"]),
        *(
            {"kind": "gap", "ns": gap["ns"], "name": one["bars"][gap["after"]]["name"], "title": one["title"]}
            for p, one in enumerate(runs)
            for n, gap in enumerate(one["gaps"])
            if (p, n) != (0, number)
        ),
    ]
    found = [*{row["ns"]: row for row in found if row["ns"] > 0}.values()]
    chosen = list[dict[str, Any]]()
    for row in sorted(found, key=lambda row: abs(math.log(row["ns"] / wait))):
        near = abs(math.log(row["ns"] / wait)) < FAR
        if near and all(abs(math.log(row["ns"] / other)) > APART for other in (wait, *(one["ns"] for one in chosen))):
            chosen.append(row)
    return chosen


# ---- the picture and the code ----


def picture(data: dict[str, Any]) -> View:
    """The runs as they go on one axis, then the runs after all calls on another one."""
    panels, count, before = data["panels"], len(data["steps"]), len(data["before"])
    kernels = {bar["entry"]: run["made"].request.kernel for run in panels for bar in run["bars"] if bar["entry"]}
    colours = {entry: TINTS[n % len(TINTS)] for n, entry in enumerate(kernels)}
    lines = []
    if data["free"]:
        lines.append([_lanes(data, range(data["first"]), range(before), colours)])
    lines.append([_lanes(data, range(data["first"], len(panels)), range(before, count), colours)])
    bars, gaps = ([one for run in panels for one in run[key]] for key in ("bars", "gaps"))
    legend = [
        (colours[entry], f"{entry}: {said}" if (said := purpose(kernel, entry)) else entry)
        for entry, kernel in kernels.items()
    ]
    legend += [(COPY, "copy from host memory")] if any(bar["kind"] == "copy" for bar in bars) else []
    legend += [(CALL, "a call of the host")] if data["free"] else []
    legend += [(WAIT, "the GPU waits for a late call")] if any(gap["late"] for gap in gaps) else []
    legend.append(("", "└┘ a gap: the row is idle"))
    if any(gap["since"] == "start" for gap in gaps):
        legend.append(("", "└┘ before the first of children: from the start of their parent"))
    return scene.view("launches", "Time line", lines, legend)


def _lanes(data: dict[str, Any], shown: range, at: range, colours: dict[str, str]) -> scene.Lanes:
    """The time lines of some panels. at: their steps."""
    source, free = f"{data['provenance']} on {data['device']}", shown.start == 0 and bool(data["free"])
    groups, rows, spans, gaps = [], list[scene.Lane](), list[scene.Span](), list[scene.Gap]()
    for panel in shown:
        run, top = data["panels"][panel], len(rows)
        title = f"{run['title']}, from {run['host']}" if free else run["title"]
        title += ", after all calls" if data["free"] and not free else ""
        groups.append(scene.Group(title=title, value=run["value"], datum={"panel": panel}, tip=title))
        rows += [
            scene.Lane(name=name, group=len(groups) - 1, datum={"of": panel, "row": n}, tip=f"{title}: {name}")
            for n, name in enumerate(run["rows"])
        ]
        own = {step["place"]: n for n, step in enumerate(data["steps"]) if step["panel"] == panel}
        for n, bar in enumerate(run["bars"]):
            call = bar["kind"] == "call"
            step = own.get(n, own.get(n - len(run["bars"]) + len(run["calls"])) if call else None)
            moved = f", {bar['bytes']:,} bytes" if bar["bytes"] else ""
            short = bar["name"].removeprefix("copy of ")
            spans.append(
                scene.Span(
                    row=top + bar["row"],
                    part=bar["part"],
                    start=bar["start"],
                    end=bar["end"],
                    texts=[bar["name"], short, re.sub(r"^\D* ", "", short), short[:3]],
                    value=us(bar["ns"]),
                    colour=CALL if call else COPY if bar["kind"] == "copy" else colours[bar["entry"]],
                    since=min(own.values()) if step is None else step,
                    now=[own[n]] if n in own else [],
                    go=own.get(n),
                    datum={"panel": panel, "span": n},
                    tip=f"{bar['name']}{moved}\n{bar['ns']:,.0f} ns from {bar['start']:,.0f} ns on ({source})",
                )
            )
        gaps += [
            _gap(run, n, top, source, {"panel": panel, "gap": n}, own)
            for n, gap in enumerate(run["gaps"])
            if gap["ns"] > 0
        ]
    return scene.Lanes(
        groups=groups,
        rows=rows,
        spans=spans,
        gaps=gaps,
        length=ROOM * max(data["panels"][panel]["total"] for panel in shown),
        units=[(1, "ns"), (1e3, "µs")],
        note=WORDS.say("note", data | {"goes": free}),
        shown=[*at] if data["free"] else [],
    )


def _gap(run: Run, number: int, top: int, source: str, datum: scene.Datum, own: dict[int, int]) -> scene.Gap:
    """own: the step of each bar of the run."""
    gap: Gap = run["gaps"][number]
    before, after = (run["bars"][gap[place]]["name"] for place in ("before", "after"))
    why = ", the GPU waits for a call" if gap["late"] else ""
    return scene.Gap(
        row=top + gap["row"],
        start=gap["start"],
        end=gap["end"],
        texts=[us(gap["ns"]), us(gap["ns"]).removesuffix(" µs")],
        late=gap["late"],
        colour=WAIT,
        now=[own[gap["after"]]] if gap["after"] in own else [],
        datum=datum,
        tip=f"gap: {gap['ns']:,.0f} ns{why}\nfrom the {gap['since']} of {before} to the start of {after} ({source})",
    )


def code(runs: list[Run], frames: list[Any]) -> Code:
    """The host's calls of each run in the order of the picture, then the kernels, with the last run first."""
    made = stage.code(runs[-1]["made"].request, frames)
    kernels = [run["made"].request.kernel for run in runs[:-1]]
    files = [*made.files, *(stage.source_file(k.path.name, k.source) for k in kernels)]
    return replace(made, files=[*(host_code(run["made"].request).file for run in runs), *files])


# ---- tabs ----


def gaps_tab(look: Look, runner: Runner) -> list[Block]:
    """The gaps of each run as a table."""
    data = data_of([load(request) for request in look.requests])
    rows = []
    for run in data["panels"]:
        host = f", from {run['host']}" if run["host"] else ", after all calls" if data["free"] else ""
        for gap in run["gaps"]:
            before, after = (run["bars"][gap[place]]["name"] for place in ("before", "after"))
            since = f"the {gap['since']} of {before}"
            rows.append([run["title"] + host, run["rows"][gap["row"]], since, after, round(gap["ns"])])
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
    return [stage.text(WORDS.say("executed", {"size": request.problem.size}), run.provenance), stage.table(table)]


def clock_tab(look: Look, runner: Runner) -> list[Block]:
    """The making of a graph, and the precision of the times: the step of the timer, and the distance from events."""
    made, said = [load(request) for request in look.requests], list[str]()
    for one in made:
        names = {
            "kernel": one.request.kernel.name,
            "title": one.request.kernel.title,
            "graph": one.graph,
            "cpp": bool(one.clocks_ns),
            "free": not one.free.empty,
            "apart_ns": one.clocks_apart_ns,
            "processor": one.processor or "unknown",
            "ahead": AHEAD_NS // 1000,
            "timer": one.timer_step_ns,
            "apart": abs(one.apart),
            "overhead": one.overhead_ns,
            "after": one.after_ns,
            "timed": one.runs.timed_ns.median(),
            "events": one.runs.events_ns.median(),
            "load": one.sustained,
            "clock": one.sustained.clock and one.sustained.power and one.sustained.clock,
            "power": one.sustained.power,
            "sustained": 1000 * one.sustained.median_us,
        }
        said += [text for key in ("making", "hosts", "ahead", "timer", "events") if (text := WORDS.say(key, names))]
    return [stage.text(text) for text in said]


STORY = Launches()
