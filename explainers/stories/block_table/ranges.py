"""Decoding over a work list: the pages of all sequences, end to end, cut into equal ranges; who takes which; how the
warps of a block go through them; and how the partial results of a sequence become one. Where sequences share a prefix,
its pages stand in a list of their own and are read once for all of them. From the trace of a whole run.

A sequence's *units* are the pieces of it that the ranges cut: a range is one unit or more, one after another.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from explainers.stories.block_table import paging, range_tables
from explainers.stories.block_table.paging import Paged
from explainers.stories.occupancy import grid
from explainers.stories.tiling.tiling import listed
from explainers.story import axes, probed, stage
from explainers.story.frames import RangesFrame, RangesList, RangesMeta, RangesUnit
from explainers.story.glossary import count, phase_title, short
from kernels.core.spec import KernelSpec
from kernels.families.paged.cascade import COLUMNS
from kernels.families.paged.work_list import FIELDS
from kernels.run.results import Run
from kernels.trace import steps as cutting
from kernels.trace.kinds import READS
from kernels.trace.probes import sites_of

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
WANTS = tuple(NEEDS)
LIST_AXES = ("unit", "field")
SEQ, FIRST, PAGES, NEXT, TOKENS, SLOT, PARTITION, PARTITIONS = range(len(FIELDS))
STAGES, WARPS = "STAGES", "WARPS"  # constants of such a kernel


def accepts(spec: KernelSpec) -> bool:
    """Attention over pages that goes by a work list and logs each warp's m and l, each unit's, and how they merge."""
    request = probed.sample(spec)
    listed = bool(axes.with_axes(request, *LIST_AXES))
    return listed and paging.attends(request) and probed.logs(spec, NEEDS)


def shares(spec: KernelSpec) -> bool:
    """Of such kernels, those with a list of shared prefixes too."""
    return len(_lists_of(probed.sample(spec))) > 1


def _lists_of(request: Any) -> list[str]:
    """The work list of each launch, by its name among the arrays."""
    known = {t.name for t in axes.with_axes(request, *LIST_AXES).values()}
    return [next(name for name in launch.args if name in known) for launch in request.plan.launches]


@dataclass(frozen=True)
class WorkList:
    """The list of a launch. table: int [units, 8], a row of work_list.FIELDS for each unit. range_of: the range of each
    unit. shared: whether each unit is of a prefix; then its field seq is the first of `partitions` sharers."""

    launch: int
    table: np.ndarray
    ranges: int
    shared: bool

    @cached_property
    def range_of(self) -> list[int]:
        found = [-1] * len(self.table)
        for number in range(self.ranges):
            unit = number
            while unit >= 0:
                found[unit] = number
                unit = int(self.table[unit, NEXT])
        return found

    def sequences(self, unit: int) -> list[int]:
        """Whose pages a unit has."""
        first = int(self.table[unit, SEQ])
        return list(range(first, first + int(self.table[unit, PARTITIONS]))) if self.shared else [first]

    @cached_property
    def in_order(self) -> list[int]:
        """The units as their pages lie, end to end."""
        return sorted(range(len(self.table)), key=lambda n: (self.table[n, SEQ], self.table[n, FIRST]))


@dataclass(frozen=True)
class Walked:
    """frames: one for each step, for the browser. units: those of the sequence, in the order of their partitions.
    scores: float32 [tokens] as logged, NaN where none is. score_errors: float64 [tokens], |score - that of K as it was
    before it was rounded|, None where the cache has Q's type. output_error: the same of O, its largest. o: [head_dim].
    merged: {"m", "l"} of the sequence."""

    frames: list[RangesFrame]
    lists: list[WorkList]
    units: list[RangesUnit]
    scores: np.ndarray
    score_errors: np.ndarray | None
    output_error: float
    o: np.ndarray
    merged: dict[str, float]
    sequence: int
    head: int
    kv_head: int


def walk(run: Run, names: Sequence[str], sequence: int, head: int) -> Walked:
    """The Walked of a whole Run, of one query head of one sequence. names: of the sequences."""
    return _Story(run, names, sequence, head).told()


class _Story:
    """Builds the frames, step by step."""

    def __init__(self, run: Run, names: Sequence[str], sequence: int, head: int) -> None:
        request = run.request
        self.run, self.names, self.sequence, self.head = run, names, sequence, head
        self.paged = Paged(request)
        self.name, self.kv_head = names[sequence], self.paged.kv_head_of(head)
        self.size, self.length = self.paged.block_size, int(paging.lengths(run)[sequence])
        self.pages = paging.pages_of(run, sequence)
        by_launch = _lists_of(request)
        self.lists = [
            WorkList(n, np.asarray(run.arrays[name]), launch.blocks // launch.blocks_per_item, n + 1 < len(by_launch))
            for n, (name, launch) in enumerate(zip(by_launch, request.plan.launches))
        ]
        self.frames: list[RangesFrame] = []
        self.units: list[RangesUnit] = []
        self.group = -1
        sites = sites_of(request)
        cut = cutting.cut(run.trace, sites)
        frame = run.trace.frame()
        places = np.array([site.place if site.kind in ("value", "access") else "" for site in sites])
        words = {name: frame[name].astype(str) for name in ("event", "tensor", "space")}
        self.records = frame.assign(step=cut.of_record, place=places[sites.index(run.trace.table)], **words)
        self.steps = cut.table
        values = self.records[self.records.value.notna()]
        self.mine = values[(values.sequence == sequence) & (values["head"] == head)]
        self.score_errors, self.output_error, self.key_errors = self._errors()

    def _errors(self) -> tuple[np.ndarray | None, float, np.ndarray | None]:
        """(score_errors and output_error of Walked; the largest error of each token's K)."""
        problem = self.run.request.problem
        if not getattr(problem, "cache_dtype", ""):
            return None, 0.0, None
        exact, output = list(problem.scores(dequantised=False)), problem.attention(dequantised=False)["o"]
        (_, kept, _, begin), (_, drawn, _, _) = (list(problem.seen(d))[self.sequence] for d in (True, False))
        scores, keys = (np.full(self.length, np.nan) for _ in range(2))
        scores[begin:] = np.abs(self._by_token("score")[begin:] - exact[self.sequence][self.head])
        keys[begin:] = np.abs(kept - drawn)[:, self.kv_head].max(axis=-1)
        made = self.run.arrays[self.paged.o[1].name][self.sequence, self.head].astype(np.float64)
        return scores, float(np.abs(made - output[self.sequence, self.head]).max()), keys

    def _by_token(self, event: str) -> np.ndarray:
        found = np.full(self.length, np.nan, np.float32)
        logged = self.mine[self.mine.event == event]
        found[logged.token.astype(int)] = logged.value
        return found

    def told(self) -> Walked:
        self._plan()
        for made in self.lists:
            for unit in self._own_units(made):
                self._unit(made, unit)
        self._merge()
        output = np.asarray(self.run.arrays[self.paged.o[1].name][self.sequence, self.head], np.float32)
        merged = {key: self._value(self.mine, f"{key}_all") for key in ("m", "l")}
        return Walked(
            self.frames,
            self.lists,
            self.units,
            self._by_token("score"),
            self.score_errors,
            self.output_error,
            output,
            merged,
            self.sequence,
            self.head,
            self.kv_head,
        )

    def _own_units(self, made: WorkList) -> list[int]:
        """Those of the sequence, in the order of its pages."""
        return [n for n in made.in_order if self.sequence in made.sequences(n)]

    # ---- frames ----

    def _frame(self, phase: str, title: str, part: pd.DataFrame, sentence: str, **more: Any) -> None:
        lines = part.place[part.place != ""].value_counts()
        loads = part[part.event.isin(READS) & (part.space == "global")]
        made: Any = {
            "tile": self.group,
            "title": title,
            "phase": phase,
            "sentence": sentence,
            "lines": {str(place): int(n) for place, n in lines.items()},
            "read": int(loads.bytes.sum()),
            "unit": len(self.units) - 1,
            **more,
        }
        self.frames.append(made)

    def _plan(self) -> None:
        own, others = self.lists[-1], self.lists[:-1]
        total, there = int(own.table[:, PAGES].sum()), {s for n in own.in_order for s in own.sequences(n)}
        lengths = [
            int(own.table[[n for n in own.in_order if own.range_of[n] == r], PAGES].sum()) for r in range(own.ranges)
        ]
        entries = f"{count(total, 'entry', 'entries')} of {count(len(there), 'block table')}"
        verb = "is" if others or total == 1 else "are"
        mine, shared = len(self._own_units(own)), any(self._own_units(made) for made in others)
        said = [
            *(self._prefixes(made) for made in others),
            f"{f'What follows, {entries}' if others else f'The {entries}'}, end to end, {verb} cut into "
            f"{count(own.ranges, 'range')} of {_span(lengths)}, a thread block for each range and KV head.",
            f"{self.name}'s {count(len(self.pages), 'page')} {'lies' if len(self.pages) == 1 else 'lie'} in "
            f"{f'{mine} of them' if mine > 1 else 'one'}{' and in those of the prefix' if shared else ''}.",
        ]
        self._frame("plan", "The work list", self.records.iloc[:0], " ".join(said), unit=-1)

    def _prefixes(self, made: WorkList) -> str:
        """Who shares which pages. A prefix of more sequences than a block has columns for is listed anew for the
        others."""
        said, known = [], set()
        group = self.paged.num_heads // self.paged.num_kv_heads
        for first in dict.fromkeys(int(made.table[n, SEQ]) for n in made.in_order):
            units = made.table[made.table[:, SEQ] == first]
            names = listed([self.names[first + n] for n in range(units[0, PARTITIONS])])
            pages = tuple(self.run.request.problem.block_tables[first][: units[:, PAGES].sum()])
            if pages in known:
                said.append(
                    f"They are listed once more for {names}: a block has columns for {COLUMNS // group} sequences of "
                    f"{count(group, 'query head')}."
                )
            else:
                there = "stands" if len(pages) == 1 else "stand"
                said.append(
                    f"{names} begin with the same {count(len(pages), 'page')}, which {there} once, in a list of "
                    "prefixes."
                )
            known.add(pages)
        return f"{' '.join(said)} That list is cut into {count(made.ranges, 'range')}."

    def _unit(self, made: WorkList, unit: int) -> None:
        """The steps of one unit: its entry of the list, its pages, its tiles, its result."""
        self.group += 1
        row, number = made.table[unit], made.range_of[unit]
        launch = self.run.request.plan.launches[made.launch]
        block = number * launch.blocks_per_item + self.kv_head
        first, pages = int(row[FIRST]), int(row[PAGES])
        partition, of = int(row[PARTITION]), self._partitions()
        steps = self.steps[(self.steps.launch == made.launch) & (self.steps.block == block)]
        records = self.records[(self.records.launch == made.launch) & (self.records.block == block)]
        end = min(self.length, (first + pages) * self.size)
        here: RangesUnit = {
            "list": made.launch,
            "number": unit,
            "range": number,
            "block": block,
            "entries": [first, first + pages],
            "tokens": [first * self.size, end],
            "partition": partition,
            "pages": [],
            "tiles": [],
            "since": -1,
        }
        self.units.append(here)
        self._read_list(made, unit, records, of)
        for position, step in steps.iterrows():
            part = records[records.step == position]
            if step.phase == "prefetch_tile":
                self._bring(here, part, position, steps)
            elif step.phase == "load_q" and (part.sequence == row[SEQ]).any():
                self._load_q(here, made, unit, part)
            elif step.phase == "scores":
                self._tiles(here, records, position, steps)
        self._finish(here, records, steps, of, made)

    def _partitions(self) -> int:
        return max(1, int(self.mine[self.mine.event == "weight"].partition.nunique()))

    def _where(self, here: RangesUnit) -> str:
        return f"{'Prefix range' if self._shared(here) else 'Range'} {here['range']}"

    def _shared(self, here: RangesUnit) -> bool:
        return self.lists[here["list"]].shared

    def _read_list(self, made: WorkList, unit: int, records: pd.DataFrame, of: int) -> None:
        here, row = self.units[-1], made.table[unit]
        symbols = axes.with_axes(self.run.request, *LIST_AXES)
        part = records[(records.event == "load") & (records.unit == unit) & records.tensor.isin(symbols)]
        first, last = here["entries"][0], here["entries"][1] - 1
        entries = f"entry {first}" if first == last else f"entries {first} to {last}"
        sharers = [self.names[s] for s in made.sequences(unit)]
        whose = f"{listed(sharers)}'s block tables" if len(sharers) > 1 else f"{self.name}'s block table"
        then = int(row[NEXT])
        after = f"After it comes unit {then}" if then >= 0 else "It is the range's last"
        share = f"partition {here['partition']} of {of}" if of > 1 else f"all of {self.name}"
        self._frame(
            "read_list",
            f"{self._where(here)} · {phase_title('read_list')}",
            part,
            f"{self._where(here)}, block {here['block']}: every lane reads the same {made.table[unit].nbytes} bytes, "
            f"unit {unit} of the work list: {entries} of {whose}, {share}. {after}.",
        )

    def _bring(self, here: RangesUnit, part: pd.DataFrame, position: int, steps: pd.DataFrame) -> None:
        """A frame for each page that the producer asks for in a step."""
        tma = part[part.event == "tma"]
        row = self.lists[here["list"]].table[here["number"]]
        tma = tma[(tma.sequence == row[SEQ]) & (tma.entry >= here["entries"][0]) & (tma.entry < here["entries"][1])]
        number = int((steps[steps.phase == "prefetch_tile"].index < position).sum())
        stages = int(self.run.request.constants[STAGES])
        for slot, (entry, copies) in enumerate(tma.groupby("entry")):
            logical = int(entry)
            page = self.pages[logical]
            k = copies[copies.tensor == self.paged.k[0]]
            amount, low = int(copies.bytes.sum()), int(k.offset.min())
            here["pages"].append(
                {"entry": logical, "page": page, "stage": number % stages, "slot": slot, "since": len(self.frames)}
            )
            read = part[(part.event == "load") & (part.logical == logical)] if "logical" in part else part.iloc[:0]
            for_whom = self._for_whom(here)
            self._frame(
                "prefetch_tile",
                f"{self._where(here)} · page {page}",
                pd.concat([read, part[part.entry == logical]]),
                f"{self._where(here)}: the producing warp finds page {page} in entry {logical} and asks for KV head "
                f"{self.kv_head} of it, for stage {number % stages}: {count(len(copies), 'bulk copy', 'bulk copies')}, "
                f"{amount:,} bytes of K and V, K's from byte {low:,} on.{for_whom}",
                page=page,
                entry=logical,
                bytes=amount,
            )

    def _for_whom(self, here: RangesUnit) -> str:
        made = self.lists[here["list"]]
        if not made.shared:
            return ""
        sharers, group = made.sequences(here["number"]), self.paged.num_heads // self.paged.num_kv_heads
        return (
            f" It is read once for {count(len(sharers) * group, 'query head')}, {group} of each of "
            f"{listed([self.names[s] for s in sharers])}."
        )

    def _load_q(self, here: RangesUnit, made: WorkList, unit: int, part: pd.DataFrame) -> None:
        q = part[(part.tensor == self.paged.q[0]) & (part.space == "global")]
        asked = q.drop_duplicates(["offset", "bytes"])
        heads = sorted({(int(s), int(h)) for s, h in zip(q.sequence, q["head"])})
        self._frame(
            "load_q",
            f"{self._where(here)} · {phase_title('load_q')}",
            part[~part.tensor.isin(axes.with_axes(self.run.request, *LIST_AXES))],
            f"{self._where(here)}: the block's warps load {count(len(heads), 'query', 'queries')} that read KV head "
            f"{self.kv_head}: {asked.bytes.sum():,.0f} bytes, head {self.head} of {self.name} among them. They are the "
            "columns of every product.",
        )

    def _tiles(self, here: RangesUnit, records: pd.DataFrame, position: int, steps: pd.DataFrame) -> None:
        """A frame for each warp that multiplies tokens of the unit in a step, with its softmax and output."""
        mine = self.mine[(self.mine.step == position) & (self.mine.event == "score")]
        mine = mine[(mine.token >= here["tokens"][0]) & (mine.token < here["tokens"][1])]
        consumer = steps[steps.role == steps.role[position]].index
        three = consumer[consumer.get_loc(position) :][:3]
        for warp, scores in mine.groupby("warp"):
            part = records[records.step.isin(three) & (records.warp == warp)]
            logged = self.mine[self.mine.step.isin(three) & (self.mine.warp == warp)]
            m, l = (self._value(logged, f"warp_{key}") for key in ("m", "l"))
            before = next((t for t in reversed(here["tiles"]) if t["warp"] == int(warp)), None)
            best = scores.loc[scores.value.idxmax()]
            first, end = int(scores.token.min()), int(scores.token.max()) + 1
            here["tiles"].append(
                {"first": first, "end": end, "warp": int(warp), "m": m, "l": l, "since": len(self.frames)}
            )
            self._frame(
                "scores",
                f"{self._where(here)} · warp {warp}, tokens {first} to {end - 1}",
                part,
                f"{self._where(here)}: warp {warp} multiplies tokens {first} to {end - 1}. Head {self.head}'s largest "
                f"score is {short(best.value)}, at token {int(best.token)}; {_moved(before, m, l)}"
                f"{self._rounded(first, end)}",
                tokens=[first, end - 1],
                warp=int(warp),
                m=m,
                l=l,
            )

    def _rounded(self, first: int, end: int) -> str:
        if self.score_errors is None or self.key_errors is None:
            return ""
        key, score = (float(np.nanmax(e[first:end])) for e in (self.key_errors, self.score_errors))
        return f" In 8 bits K is off by up to {short(key)} here, and a score by up to {short(score)}."

    def _finish(self, here: RangesUnit, records: pd.DataFrame, steps: pd.DataFrame, of: int, made: WorkList) -> None:
        own = self.mine[(self.mine.launch == here["list"]) & (self.mine.block == here["block"])]
        own = own[own.event.isin(["m", "l"]) & (own.partition == here["partition"])]
        m, l = (self._value(own, key) for key in ("m", "l"))
        at = int(own.step.iloc[0])
        consumer = steps[steps.role == steps.role[at]].index
        place = consumer.get_loc(at)
        before = consumer[place - 1 : place] if steps.phase[consumer[place - 1]] == "combine_warps" else []
        part = records[records.step.isin([*before, at])]
        warps = {t["warp"]: t for t in here["tiles"]}
        here |= {"m": m, "l": l, "since": len(self.frames)}
        if len(warps) > 1:
            terms = ", ".join(f"({short(t['m'])}, {short(t['l'])})" for _, t in sorted(warps.items()))
            said = f"the (m, l) of {count(len(warps), 'warp')}, {terms}, become one: m = {short(m)}, l = "
            said += f"\u03a3 l_w e^(m_w - m) = {short(l)}."
        else:
            (warp,) = warps
            why = f"warp {warp} has this head's column" if made.shared else f"only warp {warp} had tokens of it"
            said = f"{why}, so the unit has its m = {short(m)} and l = {short(l)}."
        if of > 1:
            said += f" They and {self.paged.head_dim} sums, not divided by l, are kept as partition "
            said += f"{here['partition']} of {of}."
        else:
            said += f" No cut divides {self.name}, so O = sums / l is written at once.{self._output_rounded()}"
        phase = "write_part" if of > 1 else "write"
        where = f"{self._where(here)}: "
        self._frame(phase, f"{self._where(here)} · {phase_title(phase)}", part, where + said, m=m, l=l, written=of == 1)

    def _output_rounded(self) -> str:
        return (
            f" With the cache in 8 bits O is off by up to {short(self.output_error)}."
            if self.score_errors is not None
            else ""
        )

    def _merge(self) -> None:
        weights = self.mine[self.mine.event == "weight"].sort_values("partition")
        if weights.empty:
            return
        for here in self.units:
            here["weight"] = float(weights[weights.partition == here["partition"]].value.iloc[0])
        self.group += 1
        step = int(weights.step.iloc[0])
        block, launch = int(weights.block.iloc[0]), int(weights.launch.iloc[0])
        number = block // self.run.request.plan.launches[launch].blocks_per_item
        m, l = (self._value(self.mine, f"{key}_all") for key in ("m", "l"))
        terms = " + ".join(f"{short(u['l'])} x {short(u['weight'])}" for u in self.units[:4]) + (
            " + ..." if len(self.units) > 4 else ""
        )
        before = ", those of the prefix from the launch before" if any(map(self._shared, self.units)) else ""
        self._frame(
            "combine",
            f"Merge · {count(len(self.units), 'partition')}",
            self.records[self.records.step == step],
            f"Range {number}'s block arrives last, so it merges the {len(self.units)} in the same launch{before}: "
            f"m = max m_i = {short(m)}; l = \u03a3 l_i e^(m_i - m) = {terms} = {short(l)}. "
            f"O = \u03a3 O_i e^(m_i - m) / l is written.{self._output_rounded()}",
            unit=len(self.units) - 1,
            m=m,
            l=l,
            written=True,
            merged=True,
        )

    @staticmethod
    def _value(values: pd.DataFrame, event: str) -> float:
        return float(values[values.event == event].value.iloc[0])


def _moved(before: Mapping[str, Any] | None, m: float, l: float) -> str:
    """What a tile does to its warp's m and l."""
    if before is None:
        return f"the warp's m is {short(m)} and its l {short(l)}."
    if m == before["m"]:
        return f"the warp's m stays {short(m)}, and l grows from {short(before['l'])} to {short(l)}."
    power = f"e^({short(before['m'])} - {short(m)}) = {short(float(np.exp(before['m'] - m)))}".replace("- -", "+ ")
    rises = f"the warp's m rises from {short(before['m'])} to {short(m)}"
    return f"{rises}, so l {short(before['l'])} is scaled by {power}; l is {short(l)}."


def _span(lengths: Sequence[int]) -> str:
    low, high = min(lengths), max(lengths)
    return count(high, "page") if low == high else f"{low} to {high} pages"


# ---- the stage ----


def view(
    run: Run, story: Walked, names: Sequence[str], colours: Sequence[str]
) -> tuple[RangesMeta, dict[str, np.ndarray]]:
    """What the view `ranges` draws: its meta and its columns. names, colours: of the sequences."""
    paged, constants = Paged(run.request), run.request.constants
    meta: RangesMeta = {
        "frames": story.frames,
        "names": list(names),
        "colours": list(colours),
        "sequence": story.sequence,
        "head": story.head,
        "kv_head": story.kv_head,
        "length": int(paging.lengths(run)[story.sequence]),
        "size": paged.block_size,
        "lists": [_list(run, made) for made in story.lists],
        "units": story.units,
        "stages": int(constants[STAGES]),
        "stage_pages": max(1, 16 * int(constants[WARPS]) // paged.block_size),
        "warps": int(constants[WARPS]),
        "merged": story.merged,
    }
    columns = {"scores": story.scores, "o": story.o}
    if story.score_errors is not None:
        columns["errors"] = story.score_errors
    return meta, columns


def _list(run: Run, made: WorkList) -> RangesList:
    """A work list as a strip: its pages end to end, and where each range has its pieces."""
    tables = [paging.pages_of(run, n) for n in range(len(paging.lengths(run)))]
    cells: list[list[int]] = []
    units: list[list[int]] = []
    for unit in made.in_order:
        row = made.table[unit]
        units.append([unit, made.range_of[unit], len(cells), int(row[PAGES])])
        cells += [[int(row[SEQ]), e, tables[row[SEQ]][e]] for e in range(row[FIRST], row[FIRST] + row[PAGES])]
    sharers = {unit: made.sequences(unit) for unit in made.in_order}
    return {"shared": made.shared, "ranges": made.ranges, "cells": cells, "units": units, "sharers": sharers}


def stage_of(
    run: Run,
    names: Sequence[str],
    colours: Sequence[str],
    place: tuple[int, int],
    provenance: stage.Provenance,
    tabs: Iterable[stage.Tab] = (),
    live: tuple[int, str] | None = None,
) -> stage.Stage:
    """The whole stage of a whole run. place: the sequence and the query head that are followed. live: as grid.view
    takes it."""
    story = walk(run, names, *place)
    own = [
        stage.Tab("list", "Work list", range_tables.list_blocks(story, names)),
        stage.Tab("merge", "Merge", range_tables.merge_blocks(story, names[story.sequence])),
    ]
    return stage.Stage(
        headline=stage.headline(run.request.kernel),
        frames=story.frames,
        views=[
            stage.View("ranges", "ranges", "Ranges", *view(run, story, names, colours)),
            grid.view(run.request, live),
        ],
        codes=[stage.code(run.request, story.frames)],
        state=states(story),
        tabs=[*own, *tabs],
        provenance=provenance,
    )


def states(story: Walked) -> list[stage.State]:
    """The strip: range, page, warp, m and l as they stand in each step, and the bytes that the followed blocks read."""
    units = story.units

    def of(key: str) -> list[Any]:
        return [f.get(key) for f in story.frames]

    found = [
        stage.State(
            "range",
            [units[f["unit"]]["range"] if f["unit"] >= 0 and not f.get("merged") else None for f in story.frames],
        ),
        stage.State("page", of("page")),
        stage.State("warp", of("warp")),
        stage.State("max m", of("m"), colour="S"),
        stage.State("sum l", of("l"), colour="P"),
        stage.State("read so far", np.cumsum([f["read"] for f in story.frames]).tolist(), "B", colour="load"),
    ]
    if story.score_errors is not None:
        worst = [
            float(np.nanmax(story.score_errors[f["tokens"][0] : f["tokens"][1] + 1])) if "tokens" in f else None
            for f in story.frames
        ]
        found.append(stage.State("score off by", [None if w is None else short(w) for w in worst]))
    return found
