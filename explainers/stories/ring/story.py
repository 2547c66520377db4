"""Ring: attention over several GPUs. The data on each, the data on its way, the merge, and the idle time."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from explainers.charts.palette import AXIS, SEQUENCES, TENSORS
from explainers.stories.ring import data as ring
from explainers.stories.ring import times
from explainers.stories.ring.times import WORDS
from explainers.story import probed, scene, stage
from explainers.story.base import Part, Runner, Story
from explainers.story.glossary import count, logged, short
from explainers.story.stage import Block, Stage, Tab, View
from explainers.story.words import Names, Row
from kernels.core.request import Request
from kernels.core.spec import KernelSpec

NEEDED = {"m_after": ("row",), "l_after": ("row",), "o_after": ("row", "dim"), "score": ("row", "col")}
LIT = {"products": ("score",), "merge": ("m_after", "l_after", "o_after")}  # the events of the lit lines
COLOURS = (*SEQUENCES, AXIS)  # of the keys of each GPU
PRODUCTS, COPIES = TENSORS["S"], TENSORS["K"]
TOKENS, MEMORY = 10**6, 80.0  # of a long text, and GB of an H100
MODEL: Row = {"name": "Llama 3 8B", "layers": 32, "kv_heads": 8, "head_dim": 128}  # K and V in 16 bits
MEANINGS = {"m": "the largest score", "factor": "e^(m - m after)", "l": "the sum of e^(score - m)"}


class Ring(Story[Request]):
    """All GPUs, step by step, and one row's merges."""

    WANTS = tuple(NEEDED)

    def refusal(self, spec: KernelSpec) -> str:
        return probed.without_events(spec, NEEDED)

    def stage(self, subject: Request, runner: Runner) -> Stage:
        run = runner.run(subject)
        data = data_of(subject, runner)
        summary, tone = runner.broken(run)
        where, hiding = runner.provenance(run), data["hiding"]
        return stage.of_request(
            subject,
            WORDS.frames(data["steps"], data),
            [picture(data), *([orders_picture(data)] if data["gpus"] > 1 else [])],
            tabs=[Tab("steps", "Bytes and products"), Tab("times", "Times on several GPUs"), stage.BUILDS, stage.DATA],
            provenance=replace(where, place=stage.place(hiding["place"], hiding["date"]) if hiding else where.place),
            questions=WORDS.questions(data, 0),
            summary=summary or WORDS.say("summary", data),
            tone=tone or "info",
        )

    def parts(self) -> dict[str, Part[Request]]:
        return {"steps": steps_tab, "times": lambda subject, runner: times.blocks()}


# ---- data ----


def data_of(subject: Request, runner: Runner) -> Row:
    """Every table and number of the page."""
    run, plan, causal = runner.run(subject), subject.plan, subject.problem.causal
    orders = ring.orders(subject, run, runner)
    own = next(order for order in orders if order["own"])
    followed, merges = ring.merges(run)
    q, k = (plan.tensor(subject.kernel.tensor_in(plan.launches[0], part)).shape for part in "QK")
    passes = len(own["ends"]) > 1
    gathers, order = not passes and not own["copies"].empty, str(subject.problem.values().get("order", ""))
    whole = 4 * TOKENS * MODEL["layers"] * MODEL["kv_heads"] * MODEL["head_dim"] / 1e9
    data: Row = {
        "run": run,
        "orders": orders,
        "own": own,
        "worst": orders[0],
        "best": orders[-1],
        "gpus": plan.devices,
        "rounds": len(own["ends"]),
        "passes": passes,  # K and V move
        "gathers": gathers,  # outputs move
        "rows": len(own["rows"][0]),
        "size": min(ring.piece_of(order["run"]) for order in orders),
        "masked": causal,
        "followed": followed,
        "merges": {merge["round"]: merge for merge in merges},
        "q": str([*(n for n in q[1:-2] if n > 1), *q[-2:]]),
        "k": str([*(n for n in k[1:-2] if n > 1), *k[-2:]]),
        "dims": q[-1],
        "shown": ring.SHOWN,
        "broken": subject.broken,
        "error": run.max_abs_error,
        "parts": WORDS.table("parts"),
        "model": MODEL
        | {"whole": whole, "part": whole / plan.devices, "layer": 2 * whole / plan.devices / MODEL["layers"]},
        "hiding": None if gathers else times.hiding(causal, order if causal else ""),
        "hidden": times.hidden_question(),
        "gains": times.gains(),
    }
    data["steps"] = steps_of(data)
    return data | asked(data, data["steps"])


def steps_of(data: Names) -> list[Row]:
    """A row for each step: why a ring, the products of each round, the followed row's merge after them, and the gain.

    Columns: kind (figures, products, merge, gain), round. idle: the waiting GPUs. moves: how many GPUs send, and bytes
    of each. merge: of the followed row. last: whether it is its last one.
    """
    run, work = data["run"], data["own"]["work"]
    logged = run.trace.frame("launch", "event", "file", "line")
    steps = []
    for number in range(data["rounds"]):
        now = work[work["round"] == number]
        own = logged[logged.launch.isin(now.launch)]
        lines = {}  # without counts: one line computes many values
        for kind, events in LIT.items():
            places = own[own.event.isin(events)][["file", "line"]].drop_duplicates()
            lines[kind] = {run.sites.find(*place).place: 1 for place in places.itertuples(index=False)}
        step = {"kind": "products", "tile": number, "round": number, "lines": lines["products"], "merge": None}
        step |= {"moves": int((now.sent > 0).sum()), "bytes": int(now.sent.max()), "last": False}
        step |= {"idle": [f"GPU {gpu}" for gpu in now.gpu[now.launch < 0]]}
        steps.append(step)
        if merge := data["merges"].get(number):
            lit = lines["merge" if merge["factors"] else "products"]
            steps.append({**step, "kind": "merge", "merge": merge, "last": bool(merge["output"]), "lines": lit})
    if not data["passes"]:
        return steps
    first = {**steps[0], "kind": "figures", "tile": -1, "lines": {}}
    last = {**steps[-1], "kind": "gain", "tile": data["rounds"], "lines": {}}
    return [first, *steps, *([last] if data["gains"] else [])]


def asked(data: Names, steps: Sequence[Names]) -> Row:
    """The numbers of the questions.

    sent: bytes of the last GPU, and its rounds. balance: the pairs of the GPUs. scaled: the merge with the smallest
    factor, or None.
    """
    work, equal = data["own"]["work"], "All have equal work"
    sent = work.sent[work.gpu == data["gpus"] - 1]
    pairs = [int(n) for n in work.groupby("gpu").pairs.sum()]
    least, most = min(pairs), max(pairs)
    options = {f"GPU {gpu}": [pairs[gpu]] for gpu in sorted({0, pairs.index(most), data["gpus"] - 1})}
    options[equal] = [least, most]
    right = equal if least == most else f"GPU {pairs.index(most)}"
    scaled = None
    merges = [(n, s["merge"]) for n, s in enumerate(steps) if s["kind"] == "merge" and s["merge"]["factors"]]
    if merges:
        step, merge = min(merges, key=lambda pair: min(pair[1]["factors"]))
        factor = min(merge["factors"])
        scaled = {"step": step, "merge": merge, "part": merge["factors"].index(factor), "factor": factor}
        scaled["covers"] = [{"merge": merge["round"], "figure": "factor"}]
    return {
        "sent": {"total": int(sent.sum()), "rounds": int((sent > 0).sum()), "most": int(sent.max())},
        "balance": {
            "right": right,
            "order": [*options],
            "wrong": {name: reason for name, reason in options.items() if name != right},
            "least": least,
            "most": most,
            "gpu": pairs.index(least),
            "step": len(steps) - 1,
            "covers": [{"order": order["name"]} for order in data["orders"]],
        },
        "scaled": scaled,
    }


# ---- the ring ----


def picture(data: Names) -> View:
    """The ring, and under it the bars of its first and last step, the met keys, or a merge."""
    steps = data["steps"]
    at = {
        kind: [n for n, s in enumerate(steps) if s["kind"] == kind] for kind in ("figures", "products", "merge", "gain")
    }
    orders = [] if data["gathers"] else sorted(data["orders"], key=lambda order: not order["own"])
    lines: list[Sequence[scene.Panel]] = [[flow(data)]]
    if at["figures"]:
        lines += figures(data, at["figures"])
    lines.append([replace(met(data, order, at["products"]), roomy=not order["own"]) for order in orders])
    if data["gathers"]:
        lines.append([replace(waiting(data), shown=at["products"])])
    for n in at["merge"]:
        lines.append(
            [*(replace(met(data, order, [n]), roomy=True) for order in orders[:1]), merged(data, steps[n]["merge"], n)]
        )
    lines.append([scene.texts([WORDS.say("meaning", data)], shown=at["merge"], roomy=True)])
    if at["gain"]:
        lines += zip(*(gained(one, at["gain"]) for one in data["gains"]))
        lines.append([replace(waiting(data), shown=at["gain"])])
    legend = [
        (COLOURS[0], "K and V, in the colour of their first GPU"),
        ("", "dashed: the second buffer, for the next round. Pale: an earlier round, or hidden by the mask"),
        ("ring", "the keys that the followed query meets now"),
    ]
    return scene.view("ring", "The ring", lines, legend=legend)


def flow(data: Names) -> scene.Flow:
    """The GPUs with their queries, K and V, and the copies to other GPUs."""
    steps, work, gathers = data["steps"], data["own"]["work"], data["gathers"]
    grid = {(row.round, row.gpu): row for row in work.itertuples()}
    shown = [n for n, step in enumerate(steps) if step["kind"] != "gain"]
    places, items = [], []
    for gpu, rows in enumerate(data["own"]["rows"]):
        value, foot, parts = [], [], 0
        for step in steps:
            own = grid[step["round"], gpu]
            parts += bool(step["kind"] == "merge" and own.pairs)
            foot.append(f"m, l, O of {count(parts, 'part')}" if parts else "m, l, O: none so far")
            pairs = [f"{own.pairs:,} pairs", f"{own.pairs:,}"] if own.pairs else ["waits"]
            value.append([] if step["kind"] == "figures" else pairs)
        pieces = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)
        ranges = ", ".join(f"{piece[0]}–{piece[-1]}" for piece in pieces)
        note = [f"queries {ranges}", f"Q {ranges}", ranges]
        tips = [
            f"round {n + 1}: {f'{own.pairs:,} pairs with K and V of GPU {own.part}' if own.pairs else 'waits'}, "
            f"{own.sent:,} bytes sent"
            for n, own in ((n, grid[n, gpu]) for n in range(data["rounds"]))
        ]
        places.append(
            scene.Place(
                name=f"GPU {gpu}",
                value=value,
                note=[f"head group {gpu}", f"heads {gpu}"] if gathers else note,
                foot=foot,
                now=[n for n, step in enumerate(steps) if grid[step["round"], gpu].pairs],
                datum={"gpu": gpu},
                tip="\n".join([f"GPU {gpu}: {'its own heads' if gathers else note[0]}", *tips]),
            )
        )
    for own in work.itertuples():  # K and V of each round. A copy arrives in the round before
        used = [n for n in shown if steps[n]["round"] == own.round]
        coming = [n for n in shown if steps[n]["round"] == own.round - 1]
        arrives = [n for n in coming if steps[n]["kind"] != "figures"]
        names = [f"K, V of GPU {own.part}", f"K, V {own.part}", f"{own.part}"]
        came = f": {grid[own.round - 1, own.source].sent:,} bytes from GPU {own.source}" if own.source >= 0 else ""
        items.append(
            scene.Item(
                spots=[(own.gpu, 0) if n in used else (own.gpu, 1) if n in arrives else () for n in range(len(steps))],
                pale=[*arrives, *(() if own.pairs else used)],
                way=((own.source, 0), (own.gpu, 1)) if came else (),
                moves=[n for n in coming if steps[n]["kind"] != "merge"],
                texts=["K, V of its heads", "K, V"] if gathers else names,
                colour=COLOURS[own.part % len(COLOURS)],
                datum={"gpu": own.gpu, "round": own.round},
                tip=f"K and V that GPU {own.part} had first, on GPU {own.gpu} for round {own.round + 1}{came}",
            )
        )
    sent = [(gpu, 0, f": {work.sent[gpu]:,} bytes") for gpu in range(1, data["gpus"])]
    for gpu, target, size in [*((gpu, gpu, "") for gpu in range(data["gpus"])), *sent] if gathers else []:
        items.append(
            scene.Item(
                spots=[(target, 1)] * len(steps),
                way=((gpu, 1), (target, 1)) if size else (),
                moves=shown if size else [],
                texts=[f"O of GPU {gpu}", f"O {gpu}", f"{gpu}"],
                colour=COLOURS[gpu % len(COLOURS)],
                datum={"output": gpu, "gpu": target},
                tip=f"O of GPU {gpu}, on GPU {target}{size}",
            )
        )
    slots = ["", "second buffer"] if data["passes"] else ["", ""] if gathers else [""]
    title = WORDS.say("held", data)
    return scene.Flow(title=[title, title.partition(". ")[0]], places=places, items=items, slots=slots, shown=shown)


def met(data: Names, order: Names, shown: Sequence[int]) -> scene.Cells:
    """The queries (down) that have met keys (right) so far, in pieces. A letter is the GPU that first had the keys."""
    size, pairs = data["size"], order["pairs"]
    cells = pairs.assign(query=pairs["query"] // size, key=pairs["key"] // size)
    cells = cells.drop_duplicates(["round", "gpu", "query", "key"])
    owner = {int(row) // size: gpu for gpu, rows in enumerate(order["rows"]) for row in rows[::size]}
    states, ringed = [], []
    for step in data["steps"]:
        grid = np.full((len(owner), len(owner)), "-")
        if data["masked"]:
            grid[np.triu_indices(len(owner), 1)] = " "
        for cell in cells[cells["round"] <= step["round"]].itertuples():
            grid[cell.query, cell.key] = chr(ord("A" if cell.round == step["round"] else "a") + cell.part)
        states.append("".join(grid.ravel()))
        now = cells[(cells["round"] == step["round"]) & (cells["query"] == data["followed"]["query"] // size)]
        followed = step["kind"] == "merge" and not now.empty
        ringed.append(int(now["query"].iloc[0]) * len(owner) + int(now["key"].max()) if followed else -1)
    colours, words = {"-": "panel", " ": "background"}, {"-": "not met so far", " ": "masked: later keys"}
    for gpu in range(data["gpus"]):
        for letter, pale, said in (("A", "", "this"), ("a", "pale ", "an earlier")):
            letter = chr(ord(letter) + gpu)
            colours[letter] = f"{pale}{COLOURS[gpu % len(COLOURS)]}"
            words[letter] = f"keys first on GPU {gpu}, met in {said} round"
    name = "" if order["name"] == ring.THIS else f", {order['name']} order"
    title = f"Queries (down), keys (right){name}"
    gpus = [f"{'GPU ' if len(owner) <= 8 else ''}{owner[n]}" for n in range(len(owner))]
    return scene.Cells(
        part=order["name"],
        title=[[f"{title}. A cell: {size} x {size}", title, f"Q down, K right{name}"]],
        columns=len(owner),
        states=states,
        colours=colours,
        words=words,
        axes=("query piece", "key piece"),
        names=gpus,
        tops=gpus,
        ringed=ringed,
        shown=shown,
    )


def merged(data: Names, merge: Names, step: int) -> scene.Table:
    """A merge: m, l and the first numbers of O before it, of this part, and after it, with the factors."""
    of = {"m": merge["m"], **({"factor": merge["factors"]} if merge["factors"] else {}), "l": merge["l"]}
    output = [merge["output"]] if merge["output"] else []
    for dim in range(ring.SHOWN):
        of[f"O {dim}"] = [part[dim] if part else None for part in [*merge["o"], *output]]
    columns = ["before", "this part", "after", *(["O / l"] if output else [])]
    cells = [
        scene.Cell(
            row=row,
            column=column,
            texts=[f"× {short(value, 3)}" if name == "factor" else short(value)],
            datum={"merge": merge["round"], "figure": name, "column": columns[column]},
            tip=f"{name}, {columns[column]}: {logged(value)}"
            + (" (derived from O before and after)" if name[0] == "O" and column == 1 else ""),
        )
        for row, (name, values) in enumerate(of.items())
        for column, value in enumerate(values)
        if value is not None
    ]
    rows = [
        scene.Row(name=n, datum={"merge": merge["round"], "row": n}, tip=MEANINGS.get(n, "of this query")) for n in of
    ]
    title = f"Query {data['followed']['query']} on GPU {data['followed']['gpu']}, round {merge['round'] + 1}"
    heads = [scene.Column(name=name) for name in columns]
    return scene.Table(rows=rows, columns=heads, cells=cells, groups=[(title, "")], shown=[step])


def figures(data: Names, shown: Sequence[int]) -> list[Sequence[scene.Panel]]:
    """Why K and V are divided, and when a copy is hidden."""
    model, hiding = data["model"], data["hiding"]
    memory = [
        bar("on one GPU", model["whole"], "V", {"figure": "memory"}),
        bar(f"on each of {data['gpus']}", model["part"], "V", {"figure": "memory"}),
        bar("memory of an H100", MEMORY, "grey", {"figure": "memory"}),
    ]
    panels = [scene.Bars(title=[f"Why a ring: K and V of {TOKENS:,} tokens", "K and V"], bars=memory, shown=shown)]
    notes = [scene.texts([WORDS.say("memory", data), WORDS.say("heads", data)], shown=shown, roomy=True)]
    if hiding:
        title = [f"Is the copy hidden? {hiding['tokens']:,} tokens on each GPU", "Is the copy hidden?"]
        panels.append(scene.Bars(title=title, bars=against(hiding["products"], hiding["copy"], 0), shown=shown))
        said = [WORDS.say(name, data) for name in ("round", "equal", "small")]
        notes.append(scene.texts(said, shown=shown, roomy=True))
    return [panels, notes]


def gained(one: Names, shown: Sequence[int]) -> tuple[scene.Panel, scene.Panel]:
    """The recorded times of a long causal text on one GPU and on several."""
    place, alone = f"Recorded on {one['place']}", one["alone"]
    datum: scene.Datum = {"figure": "gain", "gpus": one["gpus"]}
    bars = [bar("one GPU", alone, PRODUCTS, datum)]
    for name, us in one["orders"].items():
        bars.append(bar(f"{name} order", us, PRODUCTS, datum, f": {alone / us:.2f} times as fast"))
    title = [f"{place}, {one['date']}: {one['tokens']:,} tokens, causal", f"{place}: {one['tokens']:,} tokens", place]
    notes = scene.texts([WORDS.say("counted", one), f"{one['hides']}."], shown=shown, roomy=True)
    return scene.Bars(title=title, bars=bars, shown=shown), notes


def against(products: float, copies: float, tokens: int) -> list[scene.Bar]:
    """The bars of recorded products and copies, in us. tokens: of the text, or 0 for a round."""
    datum: scene.Datum = {"figure": "hiding", "tokens": tokens}
    share = f" ({copies / products:.0%})"
    return [bar("products", products, PRODUCTS, datum), bar("copies", copies, COPIES, datum, share)]


def bar(name: str, value: float, colour: str, datum: scene.Datum, more: str = "") -> scene.Bar:
    """A bar of GB, or of recorded us that shows ms. more: after its text."""
    text, exact = f"{short(value / 1000)} ms", f"{value:,.2f} µs (recorded)"
    if datum["figure"] == "memory":
        text, exact = f"{value:.0f} GB", f"{value:.1f} GB"
    datum, tip = {**datum, "name": name}, f"{name}: {exact}"
    return scene.Bar(name=name, value=value, text=text + more, colour=colour, strong=True, datum=datum, tip=tip)


# ---- the orders ----


def orders_picture(data: Names) -> View:
    """The work and the waiting of each GPU in each order, and the recorded products and copies."""
    lines: list[Sequence[scene.Panel]] = [[waiting(data)]]
    if hiding := data["hiding"]:
        bars = [
            scene.Bars(title=[f"{one['tokens']:,} tokens"], bars=against(one["products"], one["copies"], one["tokens"]))
            for one in hiding["lengths"]
        ]
        lines += [[scene.texts([WORDS.say("hiding", data)])], bars]
        lines += [[scene.texts([WORDS.say("rule", data), WORDS.say("whole", data)])]]
    legend = [
        (PRODUCTS, "works: one unit of time for each pair of a query and a key"),
        ("", "hatched: waits for the busiest GPU of the round"),
    ]
    return scene.view("orders", "Work and waiting", lines, legend=legend)


def waiting(data: Names) -> scene.Lanes:
    """The pairs of each GPU in each round, and its wait for the busiest one."""
    steps = data["steps"]
    groups, lanes, spans = list[scene.Group](), list[scene.Lane](), list[scene.Span]()
    since = {step["round"]: n for n, step in reversed([*enumerate(steps)])}
    for order in data["orders"]:
        name, ends, starts = order["name"], order["ends"], [0, *order["ends"]]
        title = f"{name.capitalize()} order" if name != ring.THIS else "This run"
        title += " (this run)" if order["own"] and name != ring.THIS else ""
        end = f"ends after {ends[-1]:,} pairs"
        rounds = [(step["round"], ends[step["round"]] - starts[step["round"]]) for step in steps]
        groups.append(
            scene.Group(
                title=title,
                value=end,
                datum={"order": name},
                tip=f"{title} {end} of its busiest GPUs",
                marked=[(starts[n], ends[n]) for n, _ in rounds],
                said=[f"round {n + 1}: {most:,} pairs" for n, most in rounds],
            )
        )
        for own in order["work"].itertuples():
            datum = {"order": name, "gpu": own.gpu, "round": own.round}
            tip = f"{title}, GPU {own.gpu}, round {own.round + 1}: {own.pairs:,} pairs"
            start, stop, done = starts[own.round], ends[own.round], starts[own.round] + own.pairs
            place: Any = {"row": len(lanes) + own.gpu, "since": since[own.round], "colour": PRODUCTS}
            if own.pairs:
                spans.append(scene.Span(**place, start=start, end=done, datum=datum, tip=tip))
            if done < stop:
                tip += f", waits for {stop - done:,}"
                spans.append(scene.Span(**place, start=done, end=stop, hatch=True, datum=datum, tip=tip))
        for gpu, share in enumerate(order["waits"]):
            waits, datum = f"waits {share:.0%}", {"order": name, "gpu": gpu}
            tip = f"{title}, GPU {gpu}: {waits} of the time"
            lanes.append(scene.Lane(name=f"GPU {gpu}", group=len(groups) - 1, end=waits, datum=datum, tip=tip))
    length = max(order["ends"][-1] for order in data["orders"])
    return scene.Lanes(groups=groups, rows=lanes, spans=spans, length=length, units=[(1, "pairs")])


def steps_tab(subject: Request, runner: Runner) -> list[Block]:
    """The pairs and the bytes of each GPU in each round."""
    work, _, _ = ring.tables(runner.run(subject))
    width = next(t.shape[-1] for t in subject.plan.tensors if t.axes[-1:] == ("dim",))
    flops = 4 * width * work.pairs
    table = pd.DataFrame(
        {
            "round": work["round"] + 1,
            "GPU": work.gpu,
            "holds part": work.part,
            "pairs": work.pairs,
            "floating-point operations": flops,
            "bytes sent": work.sent,
            "operations per byte": [round(n / sent) if sent else None for n, sent in zip(flops, work.sent)],
        }
    )
    said = [stage.text(WORDS.say("pairs", {}), "derived"), stage.text(WORDS.say("why", {}))]
    return [*said, stage.table(table.convert_dtypes())]


STORY = Ring()
