"""Patterns: the ways of one pattern, one after another, such as eight ways to add 256 numbers."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from explainers.stories.patterns import moves
from explainers.stories.patterns.moves import COMING, FREE, FULL, HELD, READ, WRITTEN
from explainers.story import probed, scene, stage
from explainers.story.base import Part, Runner, Story
from explainers.story.glossary import figure
from explainers.story.stage import Block, Code, Stage, View
from explainers.story.words import Names, Row, Words
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import WarpglassError
from kernels.measure import pattern_cycles
from kernels.trace.memory.model import LANES

WORDS = Words.of(str(__package__))
STATES = {  # of a place: its colour and its words, for tiles and for additions
    FULL: ("dim", "a number", "a number"),
    READ: ("read", "read now", "second load"),
    WRITTEN: ("written", "written now", "first load, then written"),
    HELD: ("#7b52c7", "in a register", "in a register"),
    COMING: ("pale written", "on its way", "on its way"),
    FREE: ("panel", "free or done with", "done with"),
}
COUNTS = {"wavefront in turn": "longest", "shuffle": "shuffles", "barrier": "barriers", "add in L2": "adds"}
INPUT = {"request": "requests", "sector": "sectors", "wavefront": "wavefronts"}


@dataclass(frozen=True)
class Look:
    """The shown ways.

    request: the one with its code.
    ways: (name, request) of each way of the pattern, the chosen one among them.
    """

    request: Request
    ways: tuple[tuple[str, Request], ...]


class Patterns(Story[Look]):
    """The ways of a pattern, step by step."""

    WANTS = ("partial", "add", "fill")

    def refusal(self, spec: KernelSpec) -> str:
        if not pattern_cycles.is_pattern(spec):
            return f"{spec.name} is not a way of a pattern with others."
        walks = {"copy", "sum"} <= set(probed.marks(spec))
        if walks or not probed.without_events(spec, {"partial": ("step", "at", "other")}):
            return ""
        return f"{spec.name} has neither additions (partial) nor tiles (copy, sum) in its trace."

    def stage(self, subject: Look, runner: Runner) -> Stage:
        data, left = data_of(subject, runner)
        frames, chosen = WORDS.frames(data["steps"], data), data["chosen"]
        where = runner.provenance(runner.run(subject.request))
        made = Stage(
            headline=stage.headline(subject.request.kernel),
            frames=frames,
            views=[picture(data)],
            codes=[_code(data, subject.request, frames)],
            tabs=[stage.Tab("figures", "All figures"), stage.BUILDS, stage.DATA],
            provenance=replace(where, place=chosen["place"] or where.place),
            summary=WORDS.say("summary", data),
            step=chosen["start"],
        )
        return stage.warned(made, left)

    def parts(self) -> dict[str, Part[Look]]:
        return {"figures": figures_tab}


def data_of(look: Look, runner: Runner) -> tuple[Row, list[str]]:
    """Every table and number of the page, and a sentence for each way that did not run. WarpglassError for the chosen.

    ways: a row for each way, with a row for each of its steps. steps: the shown ones. Of additions, another way than
        the chosen one shows only its first step.
    """
    ways, left, walks = [], [], list[moves.Walk]()
    for name, request in look.ways:
        try:
            run = runner.run(request)
        except WarpglassError as error:
            if request == look.request:
                raise
            left.append(f"{name} is not shown. {error}")
            continue
        walk, cycles, kernel = moves.walk_of(run), pattern_cycles.cycles(request), request.kernel
        walks.append(walk)
        ways.append(
            {
                "name": name,
                "request": request,
                "chosen": request == look.request,
                "build": ", ".join(f"{constant} = {value}" for constant, value in request.settings),
                "why": pattern_cycles.why(kernel, request.settings),
                "waits": pattern_cycles.waits(kernel, request.settings).replace(", ", " and "),
                "cycles": cycles.cycles if cycles else None,
                "least": cycles.least if cycles else None,
                "most": cycles.most if cycles else None,
                "rate": cycles.per_us if cycles else None,
                "label": cycles.label if cycles else "",
                "gpu": stage.gpu_name(cycles.device) if cycles else "",
                "place": stage.place(cycles.device, cycles.date) if cycles else "",
                "traced": stage.gpu_name(run.device) if run.provenance == "recorded" else "",
                "total": walk.total,
                "alone": walk.alone,
                "tiles": sum(READ in move["places"] for move in walk.moves),
                "warps": sum(
                    "1" in row for move in walk.moves for row in re.findall(f".{{{LANES}}}|.+", move["threads"])
                ),
                **{name: getattr(walk, name) for name in (*COUNTS.values(), *INPUT.values(), "stages", "bytes")},
            }
        )
    stages = max(walk.stages for walk in walks)
    steps: list[Row] = []
    for number, (way, walk) in enumerate(zip(ways, walks)):
        shown = [move for move in walk.moves if stages != 1 or move["tile"] == 0]  # tiles repeat: one is enough
        way |= {"start": len(steps), "last": len(shown) - 1, "working": [move["working"] for move in shown], "rows": []}
        differing, cut = _differing(way["request"]), not (stages or way["chosen"] or len(shown) == 1)
        for n, move in enumerate(shown):
            row = {**move, "move_tile": move["tile"], "size": len(move["threads"]), "n": n, "last": len(shown) - 1}
            row |= {"reads": READ in move["places"], "coming": COMING in move["places"]}
            row |= {"shuffles": moves.shuffles(move), "did": WORDS.say("act", row), "way": way, "cut": cut}
            way["rows"].append({**row, "tile": number, "lines": dict.fromkeys([*move["lines"], *differing], 1)})
        steps += way["rows"][:1] if cut else way["rows"]
    known = sorted((way for way in ways if way["cycles"]), key=lambda way: way["cycles"])
    data = {
        "ways": ways,
        "steps": steps,
        "stages": stages,
        "size": len(steps[0]["threads"]),
        "chosen": next(way for way in ways if way["chosen"]),
        "known": known,
        "fast": known[0] if known else None,
        "slow": known[-1] if known else None,
        "rated": sorted((way for way in known if way["rate"]), key=lambda way: -way["rate"]),
        "gpus": [*dict.fromkeys(way["traced"] for way in ways if way["traced"])],
        "here": [way["name"] for way in ways if not way["traced"]],
    }
    data["note"] = WORDS.say("note", data)
    return data, left


def _code(data: Names, chosen: Request, frames: Sequence[Any]) -> Code:
    """The kernel of the chosen way, then the kernels of other ways."""
    made = stage.code(chosen, frames)
    kernels = {way["request"].kernel.name: way["request"].kernel for way in data["ways"]}
    others = [stage.source_file(k.path.name, k.source) for k in kernels.values() if k.name != chosen.kernel.name]
    return replace(made, files=[*made.files, *others])


def _differing(request: Request) -> list[str]:
    """FILE:LINE of the code with the constant whose values are the ways of a kernel."""
    kernel = request.kernel
    names = [constant.name for constant in kernel.constants if constant.names]
    head = kernel.source[: kernel.source.index("*/")].count("\n") + 1
    return [
        f"{kernel.path.name}:{number}"
        for number, line in enumerate(kernel.source.splitlines(), 1)
        if number > head and "PROBE" not in line and any(re.search(rf"\b{n}\b", line.partition("//")[0]) for n in names)
    ]


# ---- the picture ----


def counts_of(way: Names, data: Names) -> dict[str, str]:
    """The derived figures of a way: noun -> number."""
    if not way["stages"]:
        return {noun: f"{way[name]:,}" for noun, name in COUNTS.items()}
    if data["stages"] == 1:
        return {noun: f"{way[name]:,}" for noun, name in INPUT.items()}
    return {"tiles alone": f"{way['alone']} of {way['tiles']}", "wavefront": f"{way['wavefronts']:,}"}


def picture(data: Names) -> View:
    """The threads and places of the step, why the way costs what it costs, and the cycles of all ways."""
    ways, steps, rated = data["ways"], data["steps"], bool(data["rated"])
    rows = -(-data["size"] // LANES)
    held = {way["name"]: any(HELD in step["places"] for step in way["rows"]) for way in ways}
    heads = [
        [WORDS.say(name, {**data, "held": held[s["way"]["name"]]}) for name in ("places", "short_places")]
        for s in steps
    ]
    seen = {state for step in steps for state in step["places"]}
    states = {state: STATES[state] for state in STATES if state in seen}
    named = {state: tile if data["stages"] else number for state, (_, tile, number) in states.items()}
    of_way = {way["name"]: counts_of(way, data) for way in ways}
    meanings = WORDS.table("meanings")
    threads = scene.Cells(
        part="threads",
        title=[[WORDS.say("threads", {"rows": rows})]],
        columns=LANES,
        states=[step["threads"] for step in steps],
        colours={"1": "now", "0": "background"},
        words={"1": "works", "0": "rests"},
        axes=("warp", "lane"),
    )
    places = scene.Cells(
        part="places",
        title=heads,
        columns=LANES,
        states=[step["places"] for step in steps],
        colours={state: colour for state, (colour, _, _) in states.items()},
        words=named,
        axes=("row", "column"),
        ringed=[s["pairs"][1] if s["pairs"] and s["n"] == s["last"] else -1 for s in steps],
        pairs=[step["pairs"] for step in steps],
    )
    said = scene.Lines(
        lines=[
            scene.Line(texts=[step["way"]["why"] for step in steps], datum={"figure": "why"}),
            scene.Line(
                texts=[
                    " ".join(
                        f"{noun}: {meanings[noun]}."
                        for noun, n in of_way[s["way"]["name"]].items()
                        if n not in ("0", "1")
                    )
                    for s in steps
                ]
            ),
        ]
    )
    name = scene.Lines(
        lines=[
            scene.Line(
                texts=[f"{w['name']}: {w['build']}" if w["build"] else w["name"] for w in (s["way"] for s in steps)],
                end=[cycles_said(step["way"]) for step in steps],
                end_datum={"figure": "cycles"},
                bold=True,
            ),
            scene.Line(texts=[step["sum"] for step in steps]),
        ]
    )
    nouns = [*of_way[ways[0]["name"]]]
    table = scene.Bars(
        title=["All ways (click one)"],
        columns=[
            ("waits", "waits mainly for"),
            *((noun, count_said(noun, "").strip()) for noun in nouns),
            *([("rate", "full GPU: sums a µs (more is better)")] if rated else []),
        ],
        key="cycles",
        head="one block: cycles (fewer is better)",
        bars=[
            scene.Bar(
                name=way["name"],
                cells=[
                    way["waits"],
                    *("–" if figure == "0" else figure for figure in of_way[way["name"]].values()),
                    *([figure(way["rate"], 2) if way["rate"] else ""] if rated else []),
                ],
                value=way["cycles"] or 0.0,
                text=figure(way["cycles"]) if way["cycles"] else "not recorded",
                colour="now",
                now=[n for n, step in enumerate(steps) if step["way"] is way],
                go=way["start"],
                datum={"way": way["name"]},
                tip=f"{way['name']}\n"
                + ", ".join(count_said(noun, number) for noun, number in of_way[way["name"]].items())
                + f", {cycles_said(way)}\nClick: its first step",
            )
            for way in ways
        ],
    )
    flights = [
        [
            ("threads", n % len(s["threads"]), "places", n)
            if state != READ
            else ("places", n, "threads", n % len(s["threads"]))
            for n, state in enumerate(s["places"])
            if s["move_tile"] >= 0 and (state in (READ, WRITTEN) or (state == COMING and s["later"]))
        ]
        for s in steps
    ]
    ring = any(cell >= 0 for cell in places.ringed)
    legend = [
        ("now", "thread at work"),
        ("background", "idle thread"),
        *((colour, named[s]) for s, (colour, _, _) in states.items()),
    ]
    legend += [("ring", "the sum")] if ring else []
    return scene.view(
        "ways",
        "One way after another",
        [[name], [threads, places], [said], [table]],
        legend=legend,
        flights=flights,
        note=data["note"],
    )


def count_said(noun: str, number: str) -> str:
    """A figure with its noun: 24 wavefronts in turn."""
    head, _, rest = noun.partition(" ")
    plural = head if number == "1" or head.endswith("s") else f"{head}s"
    return f"{number} {plural} {rest}".strip()


def cycles_said(way: Names) -> str:
    return f"{figure(way['cycles'])} cycles" if way["cycles"] else "cycles not recorded"


def figures_tab(look: Look, runner: Runner) -> list[Block]:
    """Every way with its cycles and its counts."""
    data, left = data_of(look, runner)
    columns = {
        **{"name": "way", "kernel": "kernel", "cycles": "cycles", "least": "least", "most": "most", "steps": "steps"},
        **{"rate": "sums per µs, full GPU", "waits": "waits mainly for", "wavefronts": "wavefronts"},
        **{"longest": "wavefronts in turn", "shuffles": "shuffles", "barriers": "barriers", "adds": "adds in L2"},
        **{"requests": "requests of the input", "sectors": "sectors of the input", "bytes": "bytes"},
        **{"why": "why", "costs": "costs"},
    }
    table = pd.DataFrame(data["ways"])
    kernels = [request.kernel for request in table.request]
    table = table.assign(kernel=[k.name for k in kernels], costs=[k.costs for k in kernels], steps=table["last"] + 1)
    kept = [way["name"] for way in data["ways"] if way["request"].backend == "recorded"]
    said = WORDS.say(
        "figures", data | {"launches": pattern_cycles.LAUNCHES, "kept": kept if len(kept) < len(data["ways"]) else []}
    )
    shown = table[[*columns]].rename(columns=columns).convert_dtypes()
    return [stage.table(shown, said), *map(stage.note, left)]


STORY = Patterns()
