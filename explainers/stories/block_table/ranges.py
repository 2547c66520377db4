"""Decoding over a work list, as one query head of one sequence sees it.

The pages of all sequences form one list. It is cut into equal ranges of pages, and partial results are merged. A *unit*
is a piece of a sequence. A range has one unit or more.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from explainers.models import grid
from explainers.stories.block_table import paging
from explainers.stories.block_table.paging import WORDS, Paged, counted, exact, marked, span
from explainers.story import axes, probed, scene, stage
from explainers.story.glossary import count, listed, phase_title, short
from explainers.story.scene import Columns, Group, Lane, Lanes, Span
from explainers.story.words import Names, Row
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.kv_cache.work_list import FIELDS
from kernels.run.results import Run

NEEDS = {
    "score": ("sequence", "head", "token"),
    "warp_m": ("sequence", "head", "tile"),
    "warp_l": ("sequence", "head", "tile"),
    "m": ("sequence", "head", "partition"),
    "l": ("sequence", "head", "partition"),
    "weight": ("sequence", "head", "partition"),
    "m_all": ("sequence", "head"),
    "l_all": ("sequence", "head"),
}
LIST_AXES = ("unit", "field")
SEQ, FIRST, PAGES, NEXT, TOKENS, SLOT, PARTITION, PARTITIONS = range(len(FIELDS))
TILE_STEPS = 3  # steps of a tile: scores, softmax and output


def accepts(spec: KernelSpec) -> bool:
    """Whether the kernel computes attention over pages from a work list, and logs m and l of each part."""
    request = probed.sample(spec)
    has_list = bool(axes.with_axes(request, *LIST_AXES))
    return has_list and paging.attends(request) and probed.logs(spec, NEEDS)


def shares(spec: KernelSpec) -> bool:
    """Whether the kernel also has a list of shared prefixes."""
    return len(_list_names(probed.sample(spec))) > 1


# ---- data ----


@dataclass(frozen=True)
class WorkList:
    """The list of a launch.

    table: int [units, 8], a row of FIELDS for each unit.
    ranges: the number of ranges.
    shared: whether the units belong to prefixes. The field seq is then the first of `partitions` sharers.
    """

    launch: int
    table: np.ndarray
    ranges: int
    shared: bool

    @cached_property
    def range_of(self) -> list[int]:
        """The range of each unit."""
        found = [-1] * len(self.table)
        for number in range(self.ranges):
            unit = number
            while unit >= 0:
                found[unit] = number
                unit = int(self.table[unit, NEXT])
        return found

    @cached_property
    def pages(self) -> list[int]:
        """The pages of each range."""
        lengths = [0] * self.ranges
        for unit, number in enumerate(self.range_of):
            lengths[number] += int(self.table[unit, PAGES])
        return lengths

    def sequences(self, unit: int) -> list[int]:
        first = int(self.table[unit, SEQ])
        return list(range(first, first + int(self.table[unit, PARTITIONS]))) if self.shared else [first]

    @cached_property
    def in_order(self) -> list[int]:
        """The units in the order of their pages."""
        return sorted(range(len(self.table)), key=lambda n: (self.table[n, SEQ], self.table[n, FIRST]))


def _list_names(request: Request) -> list[str]:
    """The name of each launch's work list among the arrays."""
    known = {tensor.name for tensor in axes.with_axes(request, *LIST_AXES).values()}
    return [
        next(name for name in launch.args if isinstance(name, str) and name in known)
        for launch in request.plan.launches
    ]


def data_of(run: Run, names: Sequence[str], sequence: int, head: int) -> Row:
    """Every table and number of the page, from a whole Run. sequence, head: the followed ones.

    lists: the WorkList of each launch. All but the last are of prefixes.
    units: a row for each unit of the sequence, in the order of its partitions (`_Walk.add_unit`).
    steps: a row for each step. scores: [tokens], NaN without one. o: the output, [head_dim].
    merged: m and l of the sequence.
    """
    walk = _Walk(run, names, sequence, head)
    walk.add("plan", walk.records.iloc[:0], "plan", unit=-1, **_plan(walk))
    for work_list in walk.lists:
        for number in walk.own_units(work_list):
            walk.add_unit(work_list, number)
    walk.merge()
    scores = np.full(walk.data["length"], np.nan, np.float32)
    logged = walk.own[walk.own.event == "score"]
    scores[logged.token.astype(int)] = logged.value
    o = np.asarray(run.arrays[walk.paged.o[1].name][sequence, head], np.float32)
    return {**walk.data, "lists": walk.lists, "units": walk.units, "steps": walk.rows, "scores": scores, "o": o}


class _Walk:
    """The walk over the units of the followed sequence.

    steps: the marked steps. records: every record, with its step, and its source line as `place`.
    own: the values of the followed head.
    rows: so far, a row for each step. units: so far.
    """

    def __init__(self, run: Run, names: Sequence[str], sequence: int, head: int) -> None:
        self.run, self.names, self.sequence = run, names, sequence
        paged = self.paged = Paged(run.request)
        launches = run.request.plan.launches
        self.lists = [
            WorkList(n, np.asarray(run.arrays[name]), launch.blocks // launch.blocks_per_item, n < len(launches) - 1)
            for n, (name, launch) in enumerate(zip(_list_names(run.request), launches))
        ]
        cut, self.records = marked(run)
        self.steps = cut.table
        values = self.records[self.records.value.notna()]
        self.own = values[(values.sequence == sequence) & (values["head"] == head)]
        weights = self.own[self.own.event == "weight"]
        self.rows: list[Row] = []
        self.units: list[Row] = []
        self.group = -1  # of the current unit or merge
        self.data: Row = {
            **{"view": "ranges", "names": names, "name": names[sequence], "sequence": sequence, "head": head},
            **{"kv_head": paged.kv_head_of(head), "group": paged.num_heads // paged.num_kv_heads},
            **{"size": paged.block_size, "dims": paged.head_dim, "length": int(paging.lengths(run)[sequence])},
            "table": paging.pages_of(run, sequence),
            "partitions": max(1, int(weights.partition.nunique())),
            "merged": {key: value_of(self.own, f"{key}_all") for key in ("m", "l")},
            "stages": run.request.required_value_of("stages"),
        }

    def own_units(self, work_list: WorkList) -> list[int]:
        return [unit for unit in work_list.in_order if self.sequence in work_list.sequences(unit)]

    def add(self, about: str, records: pd.DataFrame, phase: str, **more: object) -> None:
        """Adds a step. records: its own. more: its other columns."""
        row = {"about": about, "tile": self.group, "phase": phase, "unit": len(self.units) - 1}
        self.rows.append({**row, **counted(records), **more})

    def add_unit(self, work_list: WorkList, number: int) -> None:
        """Adds the steps of a unit. number: its row in the list.

        Keys of a unit: list: its launch. number, range, block, partition. entries, tokens: [first, end).
            pages: rows entry, page, stage, since (its step). tiles: rows first, end, warp, m, l, since.
            m, l, and since: the step with them. weight e^(m_i - m), if there is a merge.
        """
        row, data = work_list.table[number], self.data
        launch, of_range = self.run.request.plan.launches[work_list.launch], work_list.range_of[number]
        first, end = int(row[FIRST]), int(row[FIRST] + row[PAGES])
        unit: Row = {
            **{"list": work_list.launch, "number": number, "range": of_range, "partition": int(row[PARTITION])},
            "block": of_range * launch.blocks_per_item + data["kv_head"],
            "entries": [first, end],
            "tokens": [first * data["size"], min(data["length"], end * data["size"])],
            **{"pages": [], "tiles": []},
        }
        self.group += 1
        self.units.append(unit)
        sharers = [self.names[sequence] for sequence in work_list.sequences(number)]
        in_words: Row = {"where": f"{'Prefix range' if work_list.shared else 'Range'} {of_range}", "sharers": sharers}
        in_words |= {"shared": work_list.shared, "thread_block": unit["block"]}
        in_words |= {key: unit[key] for key in ("partition", "number")}
        block = {"launch": work_list.launch, "block": unit["block"]}
        steps, records = (of_block(table, **block) for table in (self.steps, self.records))
        lists = axes.with_axes(self.run.request, *LIST_AXES)
        part = records[(records.event == "load") & (records.unit == number) & records.tensor.isin(lists)]
        fields = {"bytes": row.nbytes, "first": first, "last": end - 1, "following": int(row[NEXT])}
        self.add("read_list", part, "read_list", **in_words, **fields)
        for position, step in steps.iterrows():
            part = records[records.step == position]
            if step.phase == "prefetch_tile":
                requests = steps.index[steps.phase == "prefetch_tile"]
                stage_of = int((requests < position).sum()) % data["stages"]
                tma = part[(part.event == "tma") & (part.sequence == row[SEQ]) & part.entry.between(first, end - 1)]
                for entry, copies in tma.groupby("entry"):
                    self._page(part, int(entry), copies, stage_of, in_words)
            elif step.phase == "load_q" and (part.sequence == row[SEQ]).any():
                q = part[(part.tensor == self.paged.q[0]) & (part.space == "global")]
                heads = len(q[["sequence", "head"]].drop_duplicates())
                amount = int(q.drop_duplicates(["offset", "bytes"]).bytes.sum())
                self.add("load_q", part[~part.tensor.isin(lists)], "load_q", **in_words, queries=heads, bytes=amount)
            elif step.phase == "scores":
                scored = self.own[(self.own.step == position) & (self.own.event == "score")]
                scored = scored[scored.token.between(unit["tokens"][0], unit["tokens"][1] - 1)]
                role = _of_role(steps, position)
                tile_steps = role[role.get_loc(position) :][:TILE_STEPS]
                for warp, scores in scored.groupby("warp"):
                    self._tile(records, int(warp), scores, tile_steps, in_words)
        self._result(steps, records, in_words)

    def _page(self, part: pd.DataFrame, entry: int, copies: pd.DataFrame, stage_of: int, in_words: Row) -> None:
        """Adds the step of a page that the producer requests."""
        page = {"entry": entry, "page": self.data["table"][entry], "stage": stage_of}
        self.units[-1]["pages"].append({**page, "since": len(self.rows)})
        read = part[(part.event == "load") & (part.logical == entry)] if "logical" in part else part.iloc[:0]
        low = int(copies[copies.tensor == self.paged.k[0]].offset.min())
        amounts = {"bytes": int(copies.bytes.sum()), "copies": len(copies), "low": low}
        records = pd.concat([read, part[part.entry == entry]])
        self.add("page", records, "prefetch_tile", **in_words, **page, **amounts)

    def _tile(
        self, records: pd.DataFrame, warp: int, scores: pd.DataFrame, tile_steps: pd.Index, in_words: Row
    ) -> None:
        """Adds the step of a warp that multiplies tokens of the unit, with softmax and output."""
        logged, tiles = self.own[self.own.step.isin(tile_steps) & (self.own.warp == warp)], self.units[-1]["tiles"]
        m, l, best = value_of(logged, "warp_m"), value_of(logged, "warp_l"), scores.loc[scores.value.idxmax()]
        before = next((tile for tile in reversed(tiles) if tile["warp"] == warp), None)
        tile = {"first": int(scores.token.min()), "end": int(scores.token.max()) + 1, "warp": warp, "m": m, "l": l}
        tiles.append({**tile, "since": len(self.rows)})
        scale = float(np.exp(before["m"] - m)) if before else 1
        best_of = {"best": float(best.value), "best_token": int(best.token), "former": before, "scale": scale}
        own = records[records.step.isin(tile_steps) & (records.warp == warp)]
        self.add("tile", own, "scores", **in_words, **tile, **best_of)

    def _result(self, steps: pd.DataFrame, records: pd.DataFrame, in_words: Row) -> None:
        """Adds the step with m and l of the unit, and of the combination of its warps before it."""
        unit, whole = self.units[-1], self.data["partitions"] == 1
        own = of_block(self.own, launch=unit["list"], block=unit["block"])
        own = own[own.event.isin(["m", "l"]) & (own.partition == unit["partition"])]
        unit |= {"m": value_of(own, "m"), "l": value_of(own, "l"), "since": len(self.rows)}
        position = int(own.step.iloc[0])
        role = _of_role(steps, position)
        before = role[role.get_loc(position) - 1]
        combines = steps.phase[before] == "combine_warps"
        part = records[records.step.isin([before, position] if combines else [position])]
        last = {tile["warp"]: tile for tile in unit["tiles"]}
        result = {"m": unit["m"], "l": unit["l"], "written": whole, "warps": [last[warp] for warp in sorted(last)]}
        self.add("result", part, "write" if whole else "write_part", **in_words, **result)

    def merge(self) -> None:
        """Adds the step of the merge, if the sequence has several partial results."""
        weights = self.own[self.own.event == "weight"].sort_values("partition")
        if weights.empty:
            return
        for unit in self.units:
            unit["weight"] = float(weights[weights.partition == unit["partition"]].value.iloc[0])
        self.group += 1
        last = weights.iloc[0]
        merger = int(last.block) // self.run.request.plan.launches[int(last.launch)].blocks_per_item
        prefix = any(self.lists[unit["list"]].shared for unit in self.units)
        more = {**self.data["merged"], "written": True, "merger": merger, "prefix": prefix, "units": self.units}
        self.add("merge", self.records[self.records.step == int(last.step)], "combine", **more)


def of_block(table: pd.DataFrame, launch: int, block: int) -> pd.DataFrame:
    return table[(table.launch == launch) & (table.block == block)]


def _of_role(steps: pd.DataFrame, position: Hashable) -> pd.Index:
    """The steps of the role of a step."""
    return steps[steps.role == steps.role[position]].index


def value_of(values: pd.DataFrame, event: str) -> float:
    """The first logged value of an event."""
    return float(values[values.event == event].value.iloc[0])


def _plan(walk: _Walk) -> Row:
    """The prefixes, the ranges and the pieces of the followed sequence.

    prefixes: a row for each: names of the sharers, pages, and again: whether the list has it before. A list repeats a
        prefix for sequences beyond the columns of a block.
    """
    own, problem, known = walk.lists[-1], walk.run.request.problem, set()
    plan: Row = {"prefixes": [], "at_once": 0, "prefix_ranges": 0, "in_prefix": False}
    for prefix in walk.lists[:-1]:
        plan |= {"at_once": problem.cache_use.prefix_heads // walk.data["group"], "prefix_ranges": prefix.ranges}
        plan["in_prefix"] = bool(walk.own_units(prefix))
        for first in dict.fromkeys(int(prefix.table[unit, SEQ]) for unit in prefix.in_order):
            units = prefix.table[prefix.table[:, SEQ] == first]
            pages = tuple(problem.block_tables[first][: units[:, PAGES].sum()])
            names = [walk.names[first + n] for n in range(units[0, PARTITIONS])]
            plan["prefixes"].append({"names": names, "pages": len(pages), "again": pages in known})
            known.add(pages)
    tables = {sequence for unit in own.in_order for sequence in own.sequences(unit)}
    plan |= {"entries": int(own.table[:, PAGES].sum()), "tables": len(tables), "ranges": own.ranges}
    return plan | {"low": min(own.pages), "high": max(own.pages), "pieces": len(walk.own_units(own))}


# ---- page ----


def stage_of(
    run: Run,
    names: Sequence[str],
    colours: Sequence[str],
    place: tuple[int, int],
    provenance: stage.Provenance,
    tabs: Iterable[stage.Tab] = (),
    live: tuple[int, str] | None = None,
) -> stage.Stage:
    """The whole stage of a whole run.

    names, colours: the sequences.
    place: the followed sequence and query head.
    tabs: the tabs after the lists'.
    live: as in grid.view.
    """
    data = data_of(run, names, *place)
    frames = WORDS.frames(data["steps"], {**data, "phase_title": phase_title})
    own = [stage.Tab("list", "Work list", list_blocks(data)), stage.Tab("merge", "Merge", merge_blocks(data))]
    return stage.of_request(
        run.request,
        frames,
        [picture(run, data, colours), grid.view(run.request, live)],
        state=states(data),
        tabs=[*own, *tabs],
        provenance=provenance,
        questions=WORDS.questions(asked(data), len(frames) - 1),
    )


def picture(run: Run, data: Names, colours: Sequence[str]) -> stage.View:
    """The lists of pages with their ranges, the tokens of the sequence with m and l of their parts, and the scores."""
    name, head, length, steps = data["name"], data["head"], data["length"], data["steps"]
    lists: list[WorkList] = data["lists"]
    strips = [_strip(run, data, work_list, colours) for work_list in lists]
    since = np.full(length, len(steps), np.float32)
    for tile in (tile for unit in data["units"] for tile in unit["tiles"]):
        since[tile["first"] : tile["end"]] = tile["since"]
    scores: np.ndarray = data["scores"]
    finite = scores[np.isfinite(scores)]
    bars = Columns(
        part="score",
        title=[[f"Scores of {name}, head {head}: a bar for each of {length} tokens", f"Scores of {name}"]],
        notes=[],
        column="scores",
        since="since",
        ranges=[(0, length)],
        scale=(min(0, float(finite.min())), max(0, float(finite.max()))),
        framed=[(row["first"], row["end"]) if row["about"] == "tile" else () for row in steps],
        name="token",
        noun=": score",
        blanks=[": no score yet"] * length,
    )
    colour = colours[data["sequence"]]
    legend = [(colour, f"pages of {name}"), ("S", "a warp's tile"), ("P", "partial result"), ("O", "output")]
    return scene.view(
        "ranges",
        "Ranges",
        [*([strip] for strip in strips), [_parts(data)], [bars]],
        {"scores": scores, "since": since},
        legend=[*legend, ("ring", "in this step")],
    )


def _strip(run: Run, data: Names, work_list: WorkList, colours: Sequence[str]) -> Lanes:
    """A work list end to end: its sequences, its pages with their stages in shared memory, and its ranges."""
    names, number, followed = data["names"], work_list.launch, data["sequence"]
    asked_for = {page["entry"]: page for unit in data["units"] if unit["list"] == number for page in unit["pages"]}
    spans: list[Span] = []
    cells: list[int] = []  # the range of each page
    for unit in work_list.in_order:
        first, pages = (int(work_list.table[unit, field]) for field in (FIRST, PAGES))
        holders, of_range, start = work_list.sequences(unit), work_list.range_of[unit], len(cells)
        mine, whose = followed in holders, ", ".join(names[one] for one in holders)
        colour, datum = colours[followed if mine else holders[0]], {"list": number, "unit": unit}
        told = f"unit {unit} of the work list"
        spans.append(span(0, start, start + pages, colour, datum, f"{told}: pages of {whose}", [whose]))
        for entry in range(first, first + pages):
            page, asks = paging.pages_of(run, holders[0])[entry], asked_for.get(entry) if mine else None
            tip = f"page {page}: entry {entry} of {whose}'s block table{'s' * (len(holders) > 1)}\n"
            tip += f"{told}, range {of_range}\n"
            at, datum = (1, len(cells), len(cells) + 1), {"list": number, "cell": len(cells)}
            if asks:
                into = f"stage {asks['stage']}"
                texts = [f"{page} in {into}", str(page)]
                brought = f"{tip}brought in step {asks['since'] + 1}, into {into} of {data['stages']}"
                early = [str(page)], f"{tip}not brought yet"
                spans.append(span(*at, colour, datum, brought, texts, asks["since"], *early))
            else:
                tip += f"not of {data['name']}, which is followed"
                spans.append(span(*at, colour if mine else f"pale {colour}", datum, tip, [str(page)]))
            cells.append(of_range)
    for of_range in dict.fromkeys(cells):
        first, pages = cells.index(of_range), cells.count(of_range)
        about = [n for n, row in enumerate(data["steps"]) if _unit_of(data, row, number).get("range") == of_range]
        tip, texts = f"range {of_range}: {count(pages, 'page')}", [f"range {of_range}", str(of_range)]
        own = span(2, first, first + pages, "dim", {"list": number, "range": of_range}, tip, texts)
        spans.append(replace(own, now=about))
    title = "Shared prefix" if work_list.shared else "Own pages" if len(data["lists"]) > 1 else "Work list"
    cut = (
        f"{count(len(cells), 'page')} in a list, cut into {count(work_list.ranges, 'range')}, KV head {data['kv_head']}"
    )
    rows = [Lane(name=row) for row in ("sequence", "page", "range")]
    return Lanes(groups=[Group(title=title, note=cut)], rows=rows, spans=spans, length=len(cells))


def _unit_of(data: Names, row: Names, number: int) -> Names:
    """The unit of a step, if it is of this list. The plan and the merge have none."""
    if row["unit"] < 0 or row["about"] == "merge":
        return {}
    unit = data["units"][row["unit"]]
    return unit if unit["list"] == number else {}


def _parts(data: Names) -> Lanes:
    """The tokens of the sequence: m and l of each tile and of each partition, its weight, and the merge."""
    name, head, length, steps, units = (data[key] for key in ("name", "head", "length", "steps", "units"))
    merged, whole = data["merged"], len(units) == 1
    written = next(n for n, row in enumerate(steps) if row.get("written"))
    spans: list[Span] = []
    for n, unit in enumerate(units):
        (first, end), number, l = unit["tokens"], unit["partition"], unit["l"]
        where = f"{'prefix ' if data['lists'][unit['list']].shared else ''}range {unit['range']}"
        for tile in unit["tiles"]:
            tokens, warp = f"tokens {tile['first']} to {tile['end'] - 1}", f"warp {tile['warp']}"
            m_l = f"m {short(tile['m'], 3)}, l {short(tile['l'], 3)}"
            tip, texts = f"{warp}: {tokens}\n{exact(tile)}", [f"{warp}: {m_l}", m_l, warp, str(tile["warp"])]
            at, datum = (0, tile["first"], tile["end"]), {"tile": tile["first"]}
            spans.append(span(*at, "S", datum, tip, texts, tile["since"], [], f"{tokens}: no product yet"))
        told = f"partition {number}: tokens {first} to {end - 1}, {where}\n"
        texts = [f"m {short(unit['m'])}, l {short(l)}", f"l {short(l, 3)}", short(l, 2)]
        early = [f"partition {number}, {where}", f"partition {number}", str(number)], f"{told}not done yet"
        spans.append(span(1, first, end, "P", {"unit": n}, told + exact(unit), texts, unit["since"], *early))
        if not whole:
            weight = unit["weight"]
            texts = [f"l × {short(weight)} = {short(l * weight)}", f"× {short(weight, 3)}"]
            tip = f"{told}{exact(unit)}, weight e^(mᵢ − m) = {short(weight, 9)}"
            spans.append(span(2, first, end, "dim", {"part": n}, tip, texts, written, [], f"{told}not merged yet"))
    o = float(data["o"][0])
    result = f"m = {short(merged['m'])}, l = {short(merged['l'])}, O[0] = {short(o)}"
    texts = [f"All of {name} is one piece: nothing is merged" if whole else result, f"l = {short(merged['l'], 3)}"]
    tip, early = (
        f"{name}, head {head}: {exact(merged)}\nO[0] = {short(o, 9)}",
        (["not written yet", "not yet"], "not written yet"),
    )
    spans.append(span(2 if whole else 3, 0, length, "O", {"part": "all"}, tip, texts, written, *early))
    rows = ["tile", "m, l", *([] if whole else ["weight"]), f"all of {name}"]
    title = Group(title=f"{name}, head {head}", note=f"tokens 0 to {length - 1}")
    return Lanes(groups=[title], rows=[Lane(name=row) for row in rows], spans=spans, length=length)


def states(data: Names) -> list[stage.State]:
    """The strip: range, page, warp, current m and l, and the bytes that the followed blocks read."""
    steps, last = data["steps"], len(data["lists"])
    ranges = [next((u["range"] for n in range(last) if (u := _unit_of(data, row, n))), None) for row in steps]
    return [
        stage.State("range", ranges),
        stage.State("page", [row.get("page") for row in steps]),
        stage.State("warp", [row.get("warp") for row in steps]),
        stage.State("max m", [row.get("m") for row in steps], colour="S"),
        stage.State("sum l", [row.get("l") for row in steps], colour="P"),
        stage.State("read so far", np.cumsum([row["read"] for row in steps]).tolist(), "B", colour="load"),
    ]


def list_blocks(data: Names) -> list[stage.Block]:
    """Every unit of every list, as the kernel reads it."""
    rows = []
    for work_list in data["lists"]:
        for unit in range(len(work_list.table)):
            row = dict(zip(FIELDS, work_list.table[unit].tolist()))
            kept = work_list.shared or row["partitions"] > 1  # an uncut sequence writes O at once
            rows.append(
                {
                    "list": "shared prefix" if work_list.shared else "own pages",
                    "unit": unit,
                    "range": work_list.range_of[unit],
                    "sequence": listed([data["names"][s] for s in work_list.sequences(unit)]),
                    "first entry": row["first"],
                    "pages": row["pages"],
                    "next unit": row["next"] if row["next"] >= 0 else None,
                    "partition": row["partition"],
                    "slot": row["slot"] + row["partition"] if kept else None,
                    "followed": data["sequence"] in work_list.sequences(unit),
                }
            )
    table = pd.DataFrame(rows).convert_dtypes()
    if not any(work_list.shared for work_list in data["lists"]):
        table = table.drop(columns="list")
    return [stage.table(table, WORDS.say("work_list", {}), lit="followed")]


def merge_blocks(data: Names) -> list[stage.Block]:
    """Every partial result of the sequence, and their merge."""
    rows: list[dict[str, object]] = []
    total = 0.0
    for unit in data["units"]:
        weight = unit.get("weight", 1.0)
        total += unit["l"] * weight
        rows.append(
            {
                "partition": unit["partition"],
                "range": f"{'prefix range' if data['lists'][unit['list']].shared else 'range'} {unit['range']}",
                "tokens": f"{unit['tokens'][0]} to {unit['tokens'][1] - 1}",
                **{"m_i": unit["m"], "l_i": unit["l"], "e^(m_i - m)": weight, "l_i e^(m_i - m)": unit["l"] * weight},
            }
        )
    merged = data["merged"]
    rows.append(
        {
            **{"partition": None, "range": f"all of {data['name']}", "tokens": "all"},
            **{"m_i": merged["m"], "l_i": merged["l"], "e^(m_i - m)": None, "l_i e^(m_i - m)": total},
        }
    )
    return [stage.table(pd.DataFrame(rows).convert_dtypes(), WORDS.say("merge", {}))]


def asked(data: Names) -> Row:
    """The names for the questions about the equal ranges, and the merge of the sequence.

    longest: pages of the longest range. most: pages of the longest sequence. low: the piece with the least weight.
    """
    own, units, m, steps = data["lists"][-1], data["units"], data["merged"]["m"], data["steps"]
    per_sequence = Counter[int]()
    for row in own.table:
        per_sequence[int(row[SEQ])] += int(row[PAGES])
    low = min(units, key=lambda unit: unit["weight"]) if len(units) > 1 and "weight" in units[0] else None
    names: Row = {
        **{"view": "ranges", "name": data["name"], "pieces": len(units), "m": m, "low": low},
        **{"pages": sum(own.pages), "ranges": own.ranges},
        **{"longest": max(own.pages), "most": max(per_sequence.values())},
    }
    if low:
        names |= {
            **{"part": units.index(low), "merged": next(n for n, row in enumerate(steps) if row["about"] == "merge")},
            "power": f"e^({short(low['m'])} - {short(m)})".replace("- -", "+ "),
            "digits": sorted({f"{low['weight']:.{digits}g}" for digits in (3, 4, 5)}),
        }
    return names
