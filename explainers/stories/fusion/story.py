"""Fusion: the bytes of each launch, separate and fused, and their recorded times."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from explainers.stories.fusion import moves as traffic
from explainers.stories.fusion import times
from explainers.stories.fusion.times import WORDS
from explainers.story import scene, stage
from explainers.story.base import Part, Runner, Story
from explainers.story.glossary import count
from explainers.story.stage import Block, Stage, Tab, View
from explainers.story.words import Names, Row
from kernels import catalog
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.run.results import Run

VERBS = {"load": "reads", "store": "writes"}
SIDES = traffic.SIDES
SMALL = 2**22  # bytes that stay in the L2 cache of every GPU in use


@dataclass(frozen=True)
class Pair:
    """A fused kernel's request, and its separate kernels on the same problem. Both trace all blocks."""

    request: Request
    separate: Request


class Fusion(Story[Pair]):
    """A fused kernel next to the launches that it replaces."""

    def refusal(self, spec: KernelSpec) -> str:
        separate = catalog.current().separate_of(spec)
        if separate is not None and len(spec.launch_texts) == 1 and not (spec.plain or separate.plain):
            return ""
        return (
            f"{spec.name} does not put several launches into one. Name the separate kernels in changed_from. "
            "They must solve the same problem."
        )

    def first(self, kernels: Mapping[str, KernelSpec]) -> str:
        """The name of the default kernel: a timed one whose separate launches have a tensor of their own."""
        found = {name: catalog.current().separate_of(spec) for name, spec in kernels.items() if self.accepts(spec)}
        timed = [n for n, s in found.items() if s and s.scratch and [*s.problem_type.chain_problems()]]
        return next(iter([*timed, *found]))

    def stage(self, subject: Pair, runner: Runner) -> Stage:
        runs = [runner.run(request) for request in (subject.separate, subject.request)]
        data = data_of(runs)
        steps = steps_of(data)
        frames = WORDS.frames(steps, data)
        views, recorded = [picture(data, steps)], data["times"]
        if recorded:
            views.append(times.clock(recorded))
        where = runner.provenance(runs[1])
        return Stage(
            headline=stage.headline(subject.request.kernel),
            frames=frames,
            views=views,
            codes=[
                stage.code(run.request, frames, f"{side}_lines", n) for n, (side, run) in enumerate(zip(SIDES, runs))
            ],
            tabs=[Tab("times", "Times"), Tab("one", "One launch for all", one_launch()), stage.BUILDS, stage.DATA],
            provenance=replace(
                where,
                said=f"{where.said} {WORDS.say('counted', data)}",
                place=recorded["where"] if recorded else where.place,
            ),
            summary=WORDS.say("summary", data),
            questions=WORDS.questions(data, len(frames) - 1),
        )

    def parts(self) -> dict[str, Part[Pair]]:
        return {"times": times_tab}


def data_of(runs: list[Run]) -> Row:
    """Every table and number of the page. runs: of the separate kernels and of the fused one."""
    request = runs[1].request
    problem = request.problem
    moves = traffic.moves(runs)
    tensors = traffic.tensors(moves, runs, problem.meanings())
    before, after = (int(moves.bytes[moves.side == side].sum()) for side in SIDES)
    saved = tensors[tensors.saved > 0].sort_values("saved", ascending=False, kind="stable")
    others = tensors[tensors.saved <= 0].sort_values("fused", ascending=False, kind="stable")
    read_again = moves[(moves.side == "fused") & (moves.kind == "load") & moves.tensor.isin(saved.index)]
    largest = saved.index[0] if len(saved) else ""
    one_way = moves[(moves.side == "separate") & (moves.kind == "load") & (moves.tensor == largest)]
    near, alike = times.nearest(request) or ({}, [])
    costs = request.kernel.costs
    data: Row = {
        "moves": moves,
        "tensors": tensors,
        "runs": runs,
        "ends": traffic.ends(moves, runs[0]),
        "before": before,
        "after": after,
        "saved": [*saved.index],
        "never": [*tensors.index[tensors.kept == "never"]],
        "others": {name: int(size) for name, size in others.fused[:3].items()},  # tensor -> bytes of the fused kernel
        "most": saved.iloc[0].to_dict() if len(saved) else {},
        "one_way": int(one_way.bytes.sum()),
        "apart": not any(launch.cluster for launch in request.plan.launches) and read_again.empty,
        "place": "on the chip" if any(site.space == "shared" for site in runs[1].sites) else "in registers",
        "entries": [launch.entry for launch in runs[0].request.plan.launches],
        "launches": {side: len(run.request.plan.launches) for side, run in zip(SIDES, runs)},
        "size": stage.problem_said(problem),
        "cost": f" The cost: {costs}" if costs else "",
        "times": near,
        "alike": alike,
        "largest": alike[-1] if alike and alike[-1]["problem"] != near["problem"] else {},
    }
    data["reason"] = WORDS.say("reason", data)
    return data | {"gain": WORDS.say("gain", data)}


def steps_of(data: Names) -> list[Row]:
    """A row for each step: the difference, each move of the separate launches with the same move of the fused kernel,
    the times and the reason.

    Columns: about, separate and fused (rows of moves, or None), so_far: bytes of each side up to this step.
    """
    moves, tensors = data["moves"], data["tensors"]
    records = moves.to_dict("records")
    fused = {(row["kind"], row["tensor"]): row for row in records if row["side"] == "fused"}
    pairs = [(row, fused.pop((row["kind"], row["tensor"]), None)) for row in records if row["side"] == "separate"]
    last, so_far, moved = data["launches"]["separate"], dict.fromkeys(SIDES, 0), []
    for separate, own in [*pairs, *((None, row) for row in fused.values())]:
        row = separate or own
        tensor, kind = row["tensor"], row["kind"]
        kept, ahead = tensors.kept[tensor], own and separate and kind == "load" and own["bytes"] > separate["bytes"]
        later = moves.query("side == 'separate' and kind == 'load' and tensor == @tensor and launch > @row['launch']")
        for side, move in zip(SIDES, (separate, own)):
            so_far[side] += move["bytes"] if move else 0
        moved.append(
            {
                "about": "move",
                "tile": separate["launch"] if separate else last,
                "tensor": tensor,
                "kind": kind,
                "verb": VERBS[kind],
                "kept": kept,
                "separate": separate,
                "fused": own,
                "small": tensors["size"][tensor] <= SMALL,
                "later": [*later.entry] if ahead else [],
                "requested": ", ".join(f"{s} {m['requested']:,}" for s, m in zip(SIDES, (separate, own)) if m),
                "so_far": dict(so_far),
                "separate_lines": separate["lines"] if separate else {},
                "fused_lines": own["lines"] if own else _goes_on(data, [tensor]) if kept else {},
            }
        )
    saved = moves[(moves.side == "separate") & moves.tensor.isin(data["saved"])]
    start = {
        "about": "start",
        "tile": -1,
        "so_far": dict.fromkeys(SIDES, 0),
        "separate_lines": dict.fromkeys((line for lines in saved.lines for line in lines), 1),  # lit, without a count
        "fused_lines": _goes_on(data, data["saved"]),
    }
    end = {**start, "tile": last + 1, "so_far": dict(so_far)}
    gap, largest = (times and times["gaps"] > 0 for times in (data["times"], data["largest"]))
    about = ["gap"] if gap else []
    about += ["largest"] if largest and data["largest"]["saved"] > 0 and data["after"] < data["before"] else []
    return [start, *moved, *({**end, "about": one} for one in [*about, "end"])]


def _goes_on(data: Names, tensors: list[str]) -> dict[str, int]:
    """The lines of the fused kernel that store what it makes of these tensors, later. So none has a count."""
    ends = set[str]().union(*(data["ends"].get(tensor, ()) for tensor in tensors))
    moves = data["moves"]
    rows = moves[(moves.side == "fused") & (moves.kind == "store") & moves.tensor.isin(ends)]
    return dict.fromkeys((line for lines in rows.lines for line in lines), 1)


def picture(data: Names, steps: list[Row]) -> View:
    """The launches of both sides by tensors, and the sums under them."""
    tensors, moves = data["tensors"], data["moves"]
    launches = [
        (side, n, launch.entry)
        for side, run in zip(SIDES, data["runs"])
        for n, launch in enumerate(run.request.plan.launches)
    ]
    about = {name: [n for n, step in enumerate(steps) if step.get("tensor") == name] for name in tensors.index}
    cells = []
    for row, (name, tensor) in enumerate(tensors.iterrows()):
        for column, (side, launch, entry) in enumerate(launches):
            place: Any = {"row": row, "column": column, "datum": {"tensor": name, "launch": column, "side": side}}
            own = moves[(moves.side == side) & (moves.launch == launch) & (moves.tensor == name)]
            for move in own.to_dict("records"):
                reads = move["kind"] == "load"
                key = launch, move["kind"]
                step = next(n for n in about[name] if (s := steps[n][side]) and (s["launch"], s["kind"]) == key)
                tip = (
                    f"{entry}: {VERBS[move['kind']]} {move['bytes']:,} bytes of {name}\nin {move['sectors']:,} sectors "
                )
                cells.append(
                    scene.Cell(
                        **place,
                        value=move["bytes"],
                        colour="read" if reads else "written",
                        comes="row" if reads else "column",
                        texts=[f"{'↓' if reads else '↑'} {move['bytes']:,}"],
                        note="not read again" if tensor["kept"] == "once" and side == "fused" else "",
                        since=step,
                        now=about[name] if tensor["kept"] and side == "fused" else [step],
                        tip=f"{tip}of 32 B. All accesses together: {move['requested']:,} B",
                    )
                )
            if own.empty and tensor["kept"] and side == "fused":
                texts = [f"stays {data['place']}: 0 bytes", f"{data['place']}: 0", data["place"]]
                tip = f"{entry}: {name} is not moved"
                cells.append(scene.Cell(**place, texts=texts, framed=True, now=about[name], tip=tip))
    table = scene.Table(
        groups=[
            (f"{title}: {count(data['launches'][side], 'launch', 'launches')}", idea_of(run.request.kernel))
            for title, side, run in zip(("Separate", "Fused"), SIDES, data["runs"])
        ],
        columns=[scene.Column(name=entry, group=SIDES.index(side)) for side, _, entry in launches],
        rows=[
            scene.Row(
                name=name,
                note=tensor["part"],
                lit=bool(tensor["kept"]),
                datum={"tensor": name},
                tip=f"{name} {tensor['shape']}, {tensor['part']}: {tensor['size']:,} bytes in memory",
            )
            for name, tensor in tensors.iterrows()
        ],
        cells=cells,
        arrows=[
            scene.Arrow(row=row, start=writer, end=reader)
            for row, (writer, reader) in enumerate(zip(tensors.writer, tensors.reader))
            if writer >= 0
        ],
    )
    totals = dict(zip(SIDES, (data["before"], data["after"])))
    fewer = data["before"] - data["after"]
    sums = scene.Bars(
        title=["Bytes read and written so far"],
        bars=[
            scene.Bar(
                name=side,
                value=totals[side],
                steps=[step["so_far"][side] for step in steps],
                text=[f"{step['so_far'][side]:,} of {totals[side]:,}" for step in steps],
                strong=side == "fused",
                datum={"total": side},
                tip=f"{run.request.kernel.name}: {totals[side]:,} bytes read and written",
            )
            for side, run in zip(SIDES, data["runs"])
        ],
        note=f"In all, fused {fewer:,} fewer ({fewer / data['before']:.0%})." if fewer > 0 else "",
        datum={"note": "bytes"},
    )
    legend = [
        ("read", "↓ bytes read, from the L2 cache or device memory"),
        ("written", "↑ bytes written"),
        ("", "a byte read twice by one launch counts once. Pale: a later step"),
    ]
    panels: list[scene.Panel] = [sums]
    if data["times"] and data["times"]["saved"] == data["times"]["saved"]:
        timed = [n for n, step in enumerate(steps) if step["about"] in ("gap", "largest")]
        panels.append(times.bars(data["times"], data["alike"], timed))
        legend.append(("", f"time: {WORDS.say('parts', {})}"))
    return scene.view("ledger", "Bytes", [[table], panels], legend=legend)


def idea_of(kernel: KernelSpec) -> str:
    """Its idea as a sentence. A tensor of one letter keeps its case."""
    first = kernel.idea.split()[0]
    return kernel.idea if len(first) == 1 and first != "a" else kernel.idea[0].upper() + kernel.idea[1:]


def layer(
    tokens: int = 8192, hidden: int = 4096, heads: int = 32, kv_heads: int = 8, head_dim: int = 128, tile: int = 128
) -> Row:
    """The attention of a layer of Llama 3 8B in 16 bits with a causal mask, if norm and attention were one launch.

    tile: queries of a block. kv_bytes: K and V, written once and read once. turns: the blocks that see a key: its query
    tiles, on average, times the query heads of its KV head. repeated: flops of the products that make K and V, in each
    of these blocks but one. attention: flops of its two products.
    """
    turns = (tokens // tile + 1) / 2 * heads / kv_heads
    return {
        **{"tokens": tokens, "hidden": hidden, "head_dim": head_dim, "tile": tile, "turns": turns},
        "kv_bytes": 2 * 2 * 2 * tokens * kv_heads * head_dim,
        "repeated": round(2 * tokens * hidden * 2 * kv_heads * head_dim * (turns - 1)),
        "attention": 2 * heads * tokens * (tokens + 1) * head_dim,
    }


def one_launch() -> list[Block]:
    """Why norm, attention and residual stay separate launches."""
    labels = {
        "norm_row": "modelled",
        "weights": "",
        "repeats": "modelled",
        "turns": "modelled",
        "heads": "",
        "fuses": "",
    }
    said = [stage.text(WORDS.say(name, layer()), label) for name, label in labels.items()]
    return [stage.heading("Why not norm, attention and residual in one launch?"), *said]


def times_tab(subject: Pair, runner: Runner) -> list[Block]:
    """The recorded times of all problems."""
    found = times.nearest(subject.request)
    if found is None:
        return [stage.note(WORDS.say("no_times", {}))]
    return [stage.table(times.table(subject.request.kernel), WORDS.say("times", found[0]))]


STORY = Fusion()
