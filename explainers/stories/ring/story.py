"""Ring: attention over several GPUs. The data on each, the data on its way, the merge, and the idle time."""

from collections.abc import Mapping, Sequence
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
from explainers.story.glossary import short
from explainers.story.stage import Block, Stage, Tab, View
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Tensor

NEEDED = {"m_after": ("row",), "l_after": ("row",), "o_after": ("row", "dim"), "score": ("row", "col")}
LIT = {"products": ("score",), "merge": ("m_after", "l_after", "o_after")}  # the events of the lit lines
COLOURS = (*SEQUENCES, AXIS)  # of the keys of each GPU
GB, TOKENS, MEMORY = 1e9, 10**6, 80.0  # tokens of a long text, GB of an H100
MODEL = {"name": "Llama 3 8B", "layers": 32, "kv_heads": 8, "head_dim": 128}  # K and V in 16 bits
PRODUCTS, COPIES = TENSORS["S"], TENSORS["K"]


class Ring(Story[Request]):
    """All GPUs, step by step, and one row's merges."""

    WANTS = tuple(NEEDED)

    def refusal(self, spec: KernelSpec) -> str:
        return probed.without_events(spec, NEEDED)

    def stage(self, subject: Request, runner: Runner) -> Stage:
        run = runner.run(subject)
        data = data_of(subject, runner)
        steps = steps_of(data)
        data |= asked(data, steps)
        summary, tone = runner.broken(run)
        where, hiding = runner.provenance(run), data["hiding"]
        return stage.of_request(
            subject,
            WORDS.frames(steps, data),
            [picture(data, steps), *([orders_picture(data, steps)] if data["gpus"] > 1 else [])],
            tabs=[Tab("steps", "Bytes and products"), Tab("times", "Times on several GPUs"), stage.BUILDS, stage.DATA],
            provenance=replace(where, place=stage.place(hiding["place"], hiding["date"]) if hiding else where.place),
            questions=WORDS.questions(data, 0),
            summary=summary or WORDS.say("summary", data),
            tone=tone or "info",
        )

    def parts(self) -> dict[str, Part[Request]]:
        return {"steps": steps_tab, "times": lambda subject, runner: times.blocks()}


# ---- data ----


def data_of(subject: Request, runner: Runner) -> dict[str, Any]:
    """Every table and number of the page."""
    run, plan = runner.run(subject), subject.plan
    orders = ring.orders(subject, run, runner)
    own = next(order for order in orders if order["own"])
    followed, merges = ring.merges(run)
    q, k = (plan.tensor(subject.kernel.tensor_in(plan.launches[0], part)) for part in "QK")
    gpus, rounds, causal = plan.devices, len(own["ends"]), subject.problem.causal
    gathers = rounds == 1 and not own["copies"].empty
    hiding = None if gathers or (causal and own["name"] == ring.THIS) else times.hiding(causal, own["name"] * causal)
    whole = 4 * TOKENS * MODEL["layers"] * MODEL["kv_heads"] * MODEL["head_dim"] / GB
    gains = times.gains()
    data: dict[str, Any] = {
        "run": run,
        "orders": orders,
        "table": own,
        "own": own["name"],
        "worst": _extreme(orders[0]),
        "best": _extreme(orders[-1]),
        "gpus": gpus,
        "rounds": rounds,
        "gathers": gathers,
        "passes": rounds > 1,
        "rows": len(own["rows"][0]),
        "size": min(ring.piece_of(order["run"]) for order in orders),
        "masked": causal,
        "followed": followed,
        "merges": merges,
        "q": _shape(q),
        "k": _shape(k),
        "dims": q.shape[-1],
        "shown": ring.SHOWN,
        "broken": subject.broken,
        "error": run.max_abs_error,
        "part": WORDS.say("part", {"gpus": gpus}),
        "model": MODEL | {"whole": whole, "part": whole / gpus, "layer": 2 * whole / gpus / MODEL["layers"]},
        "hiding": hiding,
        "hidden": times.hidden_question(),
        "gains": gains,
        "most_part": WORDS.say("part", {"gpus": gains[-1]["gpus"]}) if gains else "",
    }
    for gain in gains:
        ideal = gain["gpus"] ** 2 / (2 * gain["gpus"] - 1)  # of plain order, by the count of its pairs
        slow, fast = (*gain["orders"].values(),)[0], (*gain["orders"].values(),)[-1]
        gain["counted"] = WORDS.say("counted", {"gain": gain | {"ideal": ideal, "plain": slow, "zigzag": fast}})
    return data


def _extreme(order: Mapping[str, Any]) -> dict[str, Any]:
    """name, end: of an order, in pairs. gpu, waits: of the GPU that waits most. pairs: its pairs, round by round.
    first: whether it has the first queries."""
    gpu = int(np.argmax(order["waits"]))
    work = order["work"]
    return {
        "name": order["name"],
        "end": order["ends"][-1],
        "gpu": gpu,
        "waits": order["waits"][gpu],
        "pairs": [*work.pairs[work.gpu == gpu]],
        "first": 0 in order["pairs"]["query"][order["pairs"].gpu == gpu].to_numpy(),
    }


def _shape(tensor: Tensor) -> str:
    """The shape without batch, and without a single head."""
    return str([n for n in tensor.shape[1:-2] if n > 1] + [*tensor.shape[-2:]])


def steps_of(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for each step: why a ring, the products of each round, the followed row's merge after them, and the gain.

    Columns: kind (figures, products, merge, gain), round. idle: the waiting GPUs. moves: how many pairs of GPUs copy.
    bytes: of one. merge: of the followed row. last: whether it is its last one.
    """
    run, work, copies = data["run"], data["table"]["work"], data["table"]["copies"]
    logged_at = run.trace.frame("launch", "event", "file", "line")
    merges = {merge["round"]: merge for merge in data["merges"]}
    steps = []
    for number in range(data["rounds"]):
        now, moved = work[work["round"] == number], copies[copies["round"] == number]
        own = logged_at[logged_at.launch.isin(now.launch)]
        lines = {}  # without counts: one line computes many values
        for kind, events in LIT.items():
            places = own[own.event.isin(events)][["file", "line"]].drop_duplicates()
            lines[kind] = {run.sites.find(*place).place: 1 for place in places.itertuples(index=False)}
        step = {"kind": "products", "tile": number, "round": number, "lines": lines["products"]}
        step |= {"moves": len(moved), "bytes": int(moved.bytes.max()) if len(moved) else 0}
        step |= {"idle": [f"GPU {gpu}" for gpu in now.gpu[now.launch < 0]], "merge": None, "last": False}
        steps.append(step)
        if merge := merges.get(number):
            lit = lines["merge" if merge["factors"] else "products"]
            steps.append({**step, "kind": "merge", "merge": merge, "last": bool(merge["output"]), "lines": lit})
    if not data["passes"]:
        return steps
    first = {**steps[0], "kind": "figures", "tile": -1, "lines": {}}
    last = {**steps[-1], "kind": "gain", "tile": data["rounds"], "lines": {}}
    return [first, *steps, *([last] if data["gains"] else [])]


def asked(data: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the questions compare.

    sent: bytes of the last GPU, and its rounds. balance: the pairs of the GPUs. scaled: the merge with the smallest
    factor.
    """
    work = data["table"]["work"]
    last = work.sent[work.gpu == data["gpus"] - 1]
    pairs = [int(n) for n in work.groupby("gpu").pairs.sum()]
    least, most = min(pairs), max(pairs)
    options = {f"GPU {gpu}": [pairs[gpu]] for gpu in sorted({0, pairs.index(most), data["gpus"] - 1})}
    options["All have equal work"] = [least, most]
    right = "All have equal work" if least == most else f"GPU {pairs.index(most)}"
    balance = {"right": right, "order": [*options], "least": least, "most": most, "gpu": pairs.index(least)}
    balance["wrong"] = {name: reason for name, reason in options.items() if name != right}
    balance["step"] = len(steps) - 1
    balance["covers"] = [{"order": order["name"]} for order in data["orders"]]
    found: dict[str, Any] = {
        "sent": {"total": int(last.sum()), "rounds": int((last > 0).sum()), "most": int(last.max())},
        "balance": balance,
        "scaled": None,
    }
    merges = [
        (n, step["merge"]) for n, step in enumerate(steps) if step["kind"] == "merge" and step["merge"]["factors"]
    ]
    if merges:
        step, merge = min(merges, key=lambda pair: min(pair[1]["factors"]))
        part = merge["factors"].index(min(merge["factors"]))
        scaled = {"step": step, "merge": merge, "part": part, "factor": merge["factors"][part]}
        found["scaled"] = scaled | {"covers": [{"merge": merge["round"], "figure": "factor"}]}
    if data["hidden"]:
        choices, share = WORDS.table("hidden"), data["hidden"]["share"]
        right = choices["yes" if share > 0.9 else "half" if share > 0.25 else "no"]
        wrong = {text: share for text in choices.values() if text != right}
        found["hidden"] = data["hidden"] | {"right": right, "wrong": wrong, "order": [*choices.values()]}
    return found


# ---- the pictures ----


def picture(data: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> View:
    """The ring, and under it the bars of its first and last step, the met keys, or a merge."""
    at = {kind: [n for n, step in enumerate(steps) if step["kind"] == kind] for kind in ("figures", "gain", "merge")}
    whole = data["table"]["rows"][0] is not None and data["gpus"] > 1 and not data["passes"]
    lines: list[Sequence[scene.Panel]] = [[flow(data, steps)]]
    if at["figures"]:
        lines += figures(data, at["figures"])
    maps = [] if whole else [met(data, order, steps) for order in data["orders"]]
    maps.sort(key=lambda panel: panel.part != data["own"])
    products = [n for n, step in enumerate(steps) if step["kind"] == "products"]
    if len(maps) > 1:
        lines.append([replace(panel, shown=products) for panel in maps])
        lines.append([replace(pairs_so_far(data, steps), shown=products)])
    elif maps:
        lines.append([replace(maps[0], shown=products)])
    for n in at["merge"]:
        panel = merged(data, steps[n]["merge"], n)
        lines.append([*(replace(one, shown=[n]) for one in maps[:1]), panel])
    if at["merge"]:
        lines.append([scene.Lines(lines=[scene.Line(texts=[WORDS.say("meaning", data)])], shown=at["merge"])])
    if at["gain"]:
        lines += gain(data, at["gain"])
    legend = [
        (COLOURS[0], "K and V, in the colour of their first GPU"),
        ("", "dashed: the second buffer, for the next round. Pale: an earlier round, or hidden by the mask"),
    ]
    return scene.view("ring", "The ring", lines, legend=legend)


def _pieces(data: Mapping[str, Any], order: Mapping[str, Any]) -> list[list[int]]:
    """The pieces of the sequence on each GPU."""
    return [[*dict.fromkeys(int(row) // data["size"] for row in rows)] for rows in order["rows"]]


def _ranges(rows: np.ndarray) -> str:
    parts = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)
    return ", ".join(f"{part[0]}–{part[-1]}" for part in parts)


def flow(data: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> scene.Flow:
    """The GPUs with their queries, K and V, and the copies to other GPUs."""
    work, copies, rows = data["table"]["work"], data["table"]["copies"], data["table"]["rows"]
    grid = {(row.round, row.gpu): row for row in work.itertuples()}
    places, items = [], []
    for gpu in range(data["gpus"]):
        met, value, foot, now = 0, [], [], []
        for n, step in enumerate(steps):
            own = grid[step["round"], gpu]
            met += bool(step["kind"] == "merge" and own.pairs)
            opening = step["kind"] == "figures"
            value.append([] if opening else [f"{own.pairs:,} pairs", f"{own.pairs:,}"] if own.pairs else ["waits"])
            foot.append(f"m, l, O of {met} part{'s' if met > 1 else ''}" if met else "m, l, O: none so far")
            now += [n] if own.pairs else []
        tips = [
            f"round {n + 1}: {f'{own.pairs:,} pairs with K and V of GPU {own.part}' if own.pairs else 'waits'}, "
            f"{own.sent:,} bytes sent"
            for n, own in enumerate(grid[n, gpu] for n in range(data["rounds"]))
        ]
        queries = "its own heads" if data["gathers"] else f"queries {_ranges(rows[gpu])}"
        note = (
            [f"head group {gpu}", f"heads {gpu}"]
            if data["gathers"]
            else [queries, f"Q {_ranges(rows[gpu])}", _ranges(rows[gpu])]
        )
        tip = "\n".join([f"GPU {gpu}: {queries}", *tips])
        places.append(
            scene.Place(name=f"GPU {gpu}", value=value, note=note, foot=foot, now=now, datum={"gpu": gpu}, tip=tip)
        )
    # K and V of a round on a GPU. They arrive in the round before, if they are copies.
    shown = [n for n, step in enumerate(steps) if step["kind"] != "gain"]
    for own in work.itertuples():
        came = copies[(copies["round"] == own.round - 1) & (copies.target == own.gpu)].to_dict("records")
        used = [n for n in shown if steps[n]["round"] == own.round]
        coming = [n for n in shown if steps[n]["round"] == own.round - 1 and came]
        arrives = [n for n in coming if steps[n]["kind"] != "figures"]
        spots = [(own.gpu, 0) if n in used else (own.gpu, 1) if n in arrives else () for n in range(len(steps))]
        texts = (
            ["K, V of its heads", "K, V"]
            if data["gathers"]
            else [f"K, V of GPU {own.part}", f"K, V {own.part}", f"{own.part}"]
        )
        tip = f"K and V that GPU {own.part} had first. GPU {own.gpu} uses them in round {own.round + 1}"
        items.append(
            scene.Item(
                spots=spots,
                pale=[*arrives, *(() if own.pairs else used)],
                way=((came[0]["source"], 0), (own.gpu, 1)) if came else (),
                moves=[n for n in coming if steps[n]["kind"] != "merge"],
                texts=texts,
                colour=COLOURS[own.part % len(COLOURS)],
                datum={"gpu": own.gpu, "round": own.round},
                tip=f"{tip}. {came[0]['bytes']:,} bytes came from GPU {came[0]['source']} in round {own.round}"
                if came
                else tip,
            )
        )
    if data["gathers"]:
        moved = copies.set_index("source").bytes
        for gpu, target in [(gpu, gpu) for gpu in range(data["gpus"])] + [(gpu, 0) for gpu in moved.index]:
            tip = (
                f"O of GPU {gpu}" if target == gpu else f"O of GPU {gpu}, copied to GPU {target}: {moved[gpu]:,} bytes"
            )
            items.append(
                scene.Item(
                    spots=[(target, 1)] * len(steps),
                    way=() if target == gpu else ((gpu, 1), (target, 1)),
                    moves=[] if target == gpu else shown,
                    texts=[f"O of GPU {gpu}", f"O {gpu}", f"{gpu}"],
                    colour=COLOURS[gpu % len(COLOURS)],
                    datum={"output": gpu, "gpu": target},
                    tip=tip,
                )
            )
    slots = ["", "second buffer"] if data["passes"] else ["", ""] if data["gathers"] else [""]
    title = WORDS.say("held", data)
    return scene.Flow(title=[title, title.partition(". ")[0]], places=places, items=items, slots=slots, shown=shown)


def met(data: Mapping[str, Any], order: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> scene.Cells:
    """The queries (down) that have met keys (right) so far, in pieces. A letter is the GPU that first had the keys."""
    size, cells = data["size"], ring.cells(order, data["size"])
    pieces = 1 + int(cells[["query", "key"]].to_numpy().max())
    names = [
        pairs[0] for pairs in ([gpu for gpu, own in enumerate(_pieces(data, order)) if n in own] for n in range(pieces))
    ]
    states = []
    for step in steps:
        grid = np.full((pieces, pieces), "-")
        if data["masked"]:
            grid[np.triu_indices(pieces, 1)] = " "
        for cell in cells[cells["round"] <= step["round"]].itertuples():
            grid[cell.query, cell.key] = chr(ord("A" if cell.round == step["round"] else "a") + cell.part)
        states.append("".join(grid.ravel()))
    colours, words = {"-": "panel", " ": "background"}, {"-": "not met so far", " ": "masked: later keys"}
    for gpu in range(data["gpus"]):
        for first, pale, said in (("A", "", "in this round"), ("a", "pale ", "in an earlier round")):
            letter = chr(ord(first) + gpu)
            colours[letter] = f"{pale}{COLOURS[gpu % len(COLOURS)]}"
            words[letter] = f"keys first on GPU {gpu}, met {said}"
    name = "" if order["name"] == ring.THIS else f", {order['name']} order"
    title = [f"Queries (down), keys (right){name}. A cell: {size} x {size}", f"Queries (down), keys (right){name}"]
    return scene.Cells(
        part=order["name"],
        title=[[*title, f"Q down, K right{name}"]],
        columns=pieces,
        states=states,
        colours=colours,
        words=words,
        axes=("query piece", "key piece"),
        heads=[f"GPU {gpu}" for gpu in names],
    )


def merged(data: Mapping[str, Any], merge: Mapping[str, Any], step: int) -> scene.Table:
    """A merge: m, l and the first numbers of O before it, of this part, and after it, with the factors."""
    of = {"m": merge["m"], "factor": [*merge["factors"]], "l": merge["l"]}
    of |= {f"O {dim}": [*(part[dim] if part else None for part in merge["o"])] for dim in range(ring.SHOWN)}
    notes = {"m": "largest score", "factor": "e^(m - m after)", "l": "sum of e^(score - m)", "O 0": "not divided by l"}
    columns = ["before", "this part", "after", *(["O / l"] if merge["output"] else [])]
    rows, cells = [], []
    for row, (name, values) in enumerate(of.items()):
        rows.append(scene.Row(name=name, note=notes.get(name, ""), datum={"merge": merge["round"], "row": name}))
        output = [merge["output"][int(name[2:])]] if name[0] == "O" and merge["output"] else []
        for column, value in enumerate([*values, *output]):
            if value is None:
                continue
            derived = " (derived from O before and after)" if name[0] == "O" and column == 1 else ""
            cells.append(
                scene.Cell(
                    row=row,
                    column=column,
                    texts=[f"× {short(value, 3)}" if name == "factor" else short(value, 4)],
                    datum={"merge": merge["round"], "figure": name, "column": columns[column]},
                    tip=f"{name}, {columns[column]}: {value:.9g}{derived}",
                )
            )
    title = f"Query {data['followed']['query']} on GPU {data['followed']['gpu']}, round {merge['round'] + 1}"
    heads = [scene.Column(name=name) for name in columns]
    return scene.Table(rows=rows, columns=heads, cells=cells, groups=[(title, "")], shown=[step])


def figures(data: Mapping[str, Any], shown: Sequence[int]) -> list[Sequence[scene.Panel]]:
    """Why K and V are divided, and when a copy is hidden."""
    model, hiding = data["model"], data["hiding"]
    sizes = {"on one GPU": model["whole"], f"on each of {data['gpus']}": model["part"], "memory of an H100": MEMORY}
    bars = [
        scene.Bar(
            name=name,
            value=size,
            text=f"{size:.0f} GB",
            colour="V",
            strong=size != MEMORY,
            datum={"memory": name},
            tip=f"K and V of {TOKENS:,} tokens of {MODEL['name']} {name}: {size:.1f} GB",
        )
        for name, size in sizes.items()
    ]
    panels = [scene.Bars(title=[f"Why a ring: K and V of {TOKENS:,} tokens", "K and V"], bars=bars, shown=shown)]
    notes = [[WORDS.say("memory", data), WORDS.say("heads", data)]]
    if hiding:
        title = [f"Is the copy hidden? {hiding['tokens']:,} tokens on each GPU", "Is the copy hidden?"]
        panels.append(
            scene.Bars(title=title, bars=_against(hiding["products"], hiding["copy"], hiding["tokens"]), shown=shown)
        )
        notes.append([WORDS.say("round", data), WORDS.say("equal", data), WORDS.say("small", data)])
    return [panels, [_lines(texts, shown) for texts in notes]]


def _lines(texts: Sequence[str], shown: Sequence[int] = ()) -> scene.Lines:
    return scene.Lines(lines=[scene.Line(texts=[text]) for text in texts if text], shown=shown)


def _against(products: float, copies: float, tokens: int) -> list[scene.Bar]:
    """The bars of recorded products and copies, in us."""
    return [
        scene.Bar(
            name=name,
            value=us,
            text=f"{short(us / 1000, 3)} ms{share}",
            colour=colour,
            strong=True,
            datum={"figure": "hiding", "tokens": tokens, "kind": name},
            tip=f"{name}: {us:,.2f} µs (recorded)",
        )
        for name, us, colour, share in (
            ("products", products, PRODUCTS, ""),
            ("copies", copies, COPIES, f" ({copies / products:.0%})"),
        )
    ]


def gain(data: Mapping[str, Any], shown: Sequence[int]) -> list[Sequence[scene.Panel]]:
    """The recorded times of a long causal text on one GPU and on several."""
    panels = []
    for one in data["gains"]:
        ways = {"one GPU": one["alone"], **{f"{name} order": us for name, us in one["orders"].items()}}
        bars = [
            scene.Bar(
                name=name,
                value=us,
                text=f"{us / 1000:.2f} ms" + (f": {one['alone'] / us:.2f} times as fast" if n else ""),
                colour=PRODUCTS,
                strong=True,
                datum={"gain": name, "gpus": one["gpus"]},
                tip=f"{name}: {us:,.2f} µs, recorded on {one['place']}, {one['date']}",
            )
            for n, (name, us) in enumerate(ways.items())
        ]
        title = f"Recorded on {one['place']}, {one['date']}: {one['tokens']:,} tokens, causal"
        panels.append(scene.Bars(title=[title, f"Recorded on {one['place']}"], bars=bars, shown=shown))
    return [
        line
        for panel, one in zip(panels, data["gains"])
        for line in ([panel], [_lines([one["counted"], f"{one['hides']}."], shown)])
    ]


def pairs_so_far(data: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> scene.Bars:
    """The pairs of the busiest GPU of each round, added up, in each order."""
    bars = []
    for order in data["orders"]:
        ends = order["ends"]
        each = [f"{end - before:,}" for before, end in zip([0, *ends], ends)]
        text = [" + ".join(each[: s["round"] + 1]) + (f" = {ends[s['round']]:,}" if s["round"] else "") for s in steps]
        bars.append(
            scene.Bar(
                name=f"{order['name']} order",
                value=ends[-1],
                steps=[ends[step["round"]] for step in steps],
                text=text,
                colour=PRODUCTS,
                strong=order["own"],
                datum={"so far": order["name"]},
                tip=f"{order['name']} order ends after {ends[-1]:,} pairs of its busiest GPUs",
            )
        )
    slow, fast = data["worst"]["end"], data["best"]["end"]
    note = f"At the end: {slow:,} / {fast:,} = {slow / fast:.2f} (computed, not measured)"
    title = ["Pairs of the busiest GPU of each round, added up: each is one unit of time", "Pairs of the busiest GPUs"]
    return scene.Bars(title=title, bars=bars, note=note, datum={"note": "pairs"})


def orders_picture(data: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> View:
    """The work and the waiting of each GPU in each order, and the recorded products and copies."""
    groups, lanes, spans = [], [], []
    first = {
        number: next(n for n, step in enumerate(steps) if step["round"] == number) for number in range(data["rounds"])
    }
    for n, order in enumerate(data["orders"]):
        name, ends = order["name"], order["ends"]
        title = "This run" if name == ring.THIS else f"{name.capitalize()} order{' (this run)' if order['own'] else ''}"
        end = f"ends after {ends[-1]:,} pairs of its busiest GPUs"
        around = [
            (ends[s["round"]] - most, ends[s["round"]]) for s in steps for most in [np.diff([0, *ends])[s["round"]]]
        ]
        groups.append(
            scene.Group(
                title=title,
                value=end,
                datum={"order": name},
                tip=f"{title}: {end}",
                marked=around,
                said=[f"round {s['round'] + 1}" for s in steps],
            )
        )
        for gpu, waits in enumerate(order["waits"]):
            idle = f"waits {waits:.0%}"
            lanes.append(
                scene.Lane(
                    name=f"GPU {gpu}",
                    group=n,
                    end=idle,
                    datum={"order": name, "gpu": gpu},
                    tip=f"{title}, GPU {gpu}: {idle} of the time",
                )
            )
        for own in order["work"].itertuples():
            start, stop = [0, *ends][own.round], ends[own.round]
            place: Any = {"row": n * data["gpus"] + own.gpu, "since": first[own.round]}
            datum = {"order": name, "gpu": own.gpu, "round": own.round}
            said = f"{title}, GPU {own.gpu}, round {own.round + 1}: {own.pairs:,} pairs"
            if own.pairs:
                spans.append(
                    scene.Span(**place, start=start, end=start + own.pairs, colour=PRODUCTS, datum=datum, tip=said)
                )
            if rest := stop - start - own.pairs:
                spans.append(
                    scene.Span(
                        **place,
                        start=start + own.pairs,
                        end=stop,
                        hatch=True,
                        datum={**datum, "waits": 1},
                        tip=f"{said}, waits for {rest:,}",
                    )
                )
    length = max(order["ends"][-1] for order in data["orders"])
    lines: list[Sequence[scene.Panel]] = [
        [scene.Lanes(groups=groups, rows=lanes, spans=spans, length=length, units=[(1, "pairs")])]
    ]
    if hiding := data["hiding"]:
        lines.append([_lines([WORDS.say("hiding", data)])])
        lines.append(
            [
                scene.Bars(
                    title=[f"{one['tokens']:,} tokens"], bars=_against(one["products"], one["copies"], one["tokens"])
                )
                for one in hiding["lengths"]
            ]
        )
        lines.append([_lines([WORDS.say("rule", data), WORDS.say("whole", data)])])
    legend = [
        (PRODUCTS, "works: one unit of time for each pair of a query and a key"),
        ("", "hatched: waits for the busiest GPU of the round"),
    ]
    return scene.view("orders", "Work and waiting", lines, legend=legend)


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
