"""The walk of one query head over the units of its sequence, from the trace of a whole run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from explainers.stories.block_table import paging
from explainers.stories.block_table.paging import Paged
from explainers.stories.block_table.range_types import RangesFrame, RangesUnit
from explainers.stories.block_table.work_lists import (
    FIRST,
    LIST_AXES,
    NEXT,
    PAGES,
    PARTITION,
    PARTITIONS,
    SEQ,
    WorkList,
    lists_of,
)
from explainers.story import axes
from explainers.story.glossary import count, listed, phase_title, short
from kernels.run.results import Run
from kernels.trace import steps as cutting
from kernels.trace.kinds import READS
from kernels.trace.probes import sites_of

STAGES, WARPS = "STAGES", "WARPS"  # constants of these kernels


@dataclass(frozen=True)
class Walked:
    """The walk of one query head over its units.

    frames: one for each step.
    lists: the work list of each launch.
    units: the sequence's units, in the order of their partitions.
    scores: float32 [tokens] as logged, else NaN.
    score_errors: float64 [tokens], the error of a score by the rounding of K. None for a cache in Q's type.
    output_error: the largest error of O by the same rounding.
    o: [head_dim].
    merged: {"m", "l"} of the sequence.
    sequence, head, kv_head: the followed ones.
    """

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
    """Returns the Walked of one query head of one sequence, from a whole Run. names: the sequences."""
    return RangeStory(run, names, sequence, head).told()


class RangeStory:
    """Builds the frames, step by step."""

    def __init__(self, run: Run, names: Sequence[str], sequence: int, head: int) -> None:
        request = run.request
        self.run, self.names, self.sequence, self.head = run, names, sequence, head
        self.paged = Paged(request)
        self.name, self.kv_head = names[sequence], self.paged.kv_head_of(head)
        self.size, self.length = self.paged.block_size, int(paging.lengths(run)[sequence])
        self.pages = paging.pages_of(run, sequence)
        by_launch = lists_of(request)
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
        """Returns score_errors and output_error of Walked, and the largest error of each token's K."""
        problem = self.run.request.problem
        if not problem.cache_dtype:
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
        """Returns the sequence's units, in the order of its pages."""
        return [n for n in made.in_order if self.sequence in made.sequences(n)]

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
        """Returns the sharers of each prefix and its pages.

        A list repeats a prefix for sequences beyond the columns of a block.
        """
        said, known = [], set()
        group = self.paged.num_heads // self.paged.num_kv_heads
        at_once = self.run.request.problem.cache_use.prefix_heads // group
        for first in dict.fromkeys(int(made.table[n, SEQ]) for n in made.in_order):
            units = made.table[made.table[:, SEQ] == first]
            names = listed([self.names[first + n] for n in range(units[0, PARTITIONS])])
            pages = tuple(self.run.request.problem.block_tables[first][: units[:, PAGES].sum()])
            if pages in known:
                said.append(
                    f"They are listed once more for {names}: a block has columns for {at_once} sequences of "
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
        """Adds the steps of one unit: its entry of the list, its pages, its tiles, its result."""
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
        """Adds a frame for each page that the producer requests in a step."""
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
        """Adds a frame for each warp that multiplies tokens of the unit in a step, with softmax and output."""
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
    """Returns the change of a warp's m and l by a tile."""
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
