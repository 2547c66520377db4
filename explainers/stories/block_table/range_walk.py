"""The walk of one query head over the units of its sequence, from the trace of a whole run."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pandas as pd

from explainers.stories.block_table.range_trace import (
    FIRST,
    LIST_AXES,
    NEXT,
    PAGES,
    PARTITION,
    PARTITIONS,
    SEQ,
    RangesFrame,
    RangesTile,
    RangesUnit,
    RangeTrace,
    WorkList,
    value_of,
)
from explainers.story import axes
from explainers.story.glossary import count, listed, phase_title, short
from kernels.run.results import Run
from kernels.trace.kinds import READS


class RangeFrames:
    """The frames so far.

    frames: for the browser.
    units: the units of the followed sequence so far.
    group: the number of the current unit or merge. Shift+Left and Shift+Right step from group to group.
    """

    def __init__(self) -> None:
        self.frames: list[RangesFrame] = []
        self.units: list[RangesUnit] = []
        self.group = -1

    def __len__(self) -> int:
        return len(self.frames)

    def begin(self, unit: RangesUnit) -> None:
        """Starts the frames of a unit."""
        self.group += 1
        self.units.append(unit)

    def add(self, phase: str, title: str, records: pd.DataFrame, sentence: str, **more: object) -> None:
        """Adds a frame. records: the step's own. more: other fields of RangesFrame."""
        lines = records.place[records.place != ""].value_counts()
        loads = records[records.event.isin(READS) & (records.space == "global")]
        frame = {
            "tile": self.group,
            "title": title,
            "phase": phase,
            "sentence": sentence,
            "lines": {str(line): int(n) for line, n in lines.items()},
            "read": int(loads.bytes.sum()),
            "unit": len(self.units) - 1,
            **more,
        }
        self.frames.append(cast(RangesFrame, frame))


TILE_STEPS = 3  # steps of a tile: scores, softmax and output


def add_unit(trace: RangeTrace, frames: RangeFrames, work_list: WorkList, number: int) -> None:
    """Adds the frames of a unit. number: its row in the list."""
    _UnitFrames(trace, frames, work_list, number).add_all()


class _UnitFrames:
    """Adds the frames of one unit, step by step.

    row: the unit's row of the list.
    unit: the unit for the browser.
    steps, records: of the unit's thread block.
    where: the unit's range in words.
    """

    def __init__(self, trace: RangeTrace, frames: RangeFrames, work_list: WorkList, number: int) -> None:
        self.trace, self.frames, self.work_list = trace, frames, work_list
        self.row = work_list.table[number]
        self.unit = self._described(number)
        block, launch = self.unit["block"], work_list.launch
        self.steps = trace.steps[(trace.steps.launch == launch) & (trace.steps.block == block)]
        self.records = trace.records[(trace.records.launch == launch) & (trace.records.block == block)]
        self.where = f"{'Prefix range' if work_list.shared else 'Range'} {self.unit['range']}"

    def _described(self, number: int) -> RangesUnit:
        trace, size = self.trace, self.trace.paged.block_size
        launch = trace.run.request.plan.launches[self.work_list.launch]
        number_of_range = self.work_list.range_of[number]
        first, end = int(self.row[FIRST]), int(self.row[FIRST] + self.row[PAGES])
        return {
            "list": self.work_list.launch,
            "number": number,
            "range": number_of_range,
            "block": number_of_range * launch.blocks_per_item + trace.kv_head,
            "entries": [first, end],
            "tokens": [first * size, min(trace.length, end * size)],
            "partition": int(self.row[PARTITION]),
            "pages": [],
            "tiles": [],
            "since": -1,
        }

    def add_all(self) -> None:
        self.frames.begin(self.unit)
        self._read_list()
        for position, step in self.steps.iterrows():
            part = self.records[self.records.step == position]
            if step.phase == "prefetch_tile":
                self._request_pages(part, position)
            elif step.phase == "load_q" and (part.sequence == self.row[SEQ]).any():
                self._load_q(part)
            elif step.phase == "scores":
                self._tiles(position)
        self._result()

    def _read_list(self) -> None:
        trace, records, number = self.trace, self.records, self.unit["number"]
        symbols = axes.with_axes(trace.run.request, *LIST_AXES)
        part = records[(records.event == "load") & (records.unit == number) & records.tensor.isin(symbols)]
        first, last = self.unit["entries"][0], self.unit["entries"][1] - 1
        entries = f"entry {first}" if first == last else f"entries {first} to {last}"
        sharers = [trace.names[s] for s in self.work_list.sequences(number)]
        whose = f"{listed(sharers)}'s block tables" if len(sharers) > 1 else f"{trace.name}'s block table"
        following = int(self.row[NEXT])
        after = f"After it comes unit {following}" if following >= 0 else "It is the range's last"
        partitions = trace.partitions
        share = f"partition {self.unit['partition']} of {partitions}" if partitions > 1 else f"all of {trace.name}"
        self.frames.add(
            "read_list",
            f"{self.where} · {phase_title('read_list')}",
            part,
            f"{self.where}, block {self.unit['block']}: every lane reads the same {self.row.nbytes} bytes, "
            f"unit {number} of the work list: {entries} of {whose}, {share}. {after}.",
        )

    def _request_pages(self, part: pd.DataFrame, position: Hashable) -> None:
        """Adds a frame for each page that the producer requests in a step."""
        first, end = self.unit["entries"]
        tma = part[part.event == "tma"]
        tma = tma[(tma.sequence == self.row[SEQ]) & (tma.entry >= first) & (tma.entry < end)]
        requests = self.steps[self.steps.phase == "prefetch_tile"]
        stage = int((requests.index < position).sum()) % self.trace.run.request.required_value_of("stages")
        for slot, (entry, copies) in enumerate(tma.groupby("entry")):
            self._page(part, int(entry), copies, stage, slot)

    def _page(self, part: pd.DataFrame, entry: int, copies: pd.DataFrame, stage: int, slot: int) -> None:
        trace, page = self.trace, self.trace.pages[entry]
        k = copies[copies.tensor == trace.paged.k[0]]
        amount, low = int(copies.bytes.sum()), int(k.offset.min())
        since = len(self.frames)
        self.unit["pages"].append({"entry": entry, "page": page, "stage": stage, "slot": slot, "since": since})
        read = part[(part.event == "load") & (part.logical == entry)] if "logical" in part else part.iloc[:0]
        self.frames.add(
            "prefetch_tile",
            f"{self.where} · page {page}",
            pd.concat([read, part[part.entry == entry]]),
            f"{self.where}: entry {entry} names page {page}. The producing warp asks for its KV head {trace.kv_head}, "
            f"{amount:,} bytes of K and V, into stage {stage}. "
            f"{count(len(copies), 'bulk copy', 'bulk copies')} start, from byte {low:,} of K on."
            f"{self._sharers_sentence()}",
            page=page,
            entry=entry,
            bytes=amount,
        )

    def _sharers_sentence(self) -> str:
        if not self.work_list.shared:
            return ""
        sharers, group = self.work_list.sequences(self.unit["number"]), self.trace.group
        return (
            f" It is read once for {count(len(sharers) * group, 'query head')}, {group} of each of "
            f"{listed([self.trace.names[s] for s in sharers])}."
        )

    def _load_q(self, part: pd.DataFrame) -> None:
        trace = self.trace
        q = part[(part.tensor == trace.paged.q[0]) & (part.space == "global")]
        distinct = q.drop_duplicates(["offset", "bytes"])
        heads = {(int(sequence), int(head)) for sequence, head in zip(q.sequence, q["head"])}
        self.frames.add(
            "load_q",
            f"{self.where} · {phase_title('load_q')}",
            part[~part.tensor.isin(axes.with_axes(trace.run.request, *LIST_AXES))],
            f"{self.where}: the block's warps load {count(len(heads), 'query', 'queries')} that read KV head "
            f"{trace.kv_head}: {distinct.bytes.sum():,.0f} bytes, head {trace.head} of {trace.name} among them. They "
            "are the columns of every product.",
        )

    def _tiles(self, position: Hashable) -> None:
        """Adds a frame for each warp that multiplies tokens of the unit in a step, with softmax and output."""
        own, (first, end) = self.trace.own, self.unit["tokens"]
        scored = own[(own.step == position) & (own.event == "score")]
        scored = scored[(scored.token >= first) & (scored.token < end)]
        consumer = self._steps_of_role(position)
        tile_steps = consumer[consumer.get_loc(position) :][:TILE_STEPS]
        for warp, scores in scored.groupby("warp"):
            self._tile(int(warp), scores, tile_steps)

    def _steps_of_role(self, position: Hashable) -> pd.Index:
        """Returns the steps of the role of a step."""
        return self.steps[self.steps.role == self.steps.role[position]].index

    def _tile(self, warp: int, scores: pd.DataFrame, tile_steps: pd.Index) -> None:
        trace, records = self.trace, self.records
        logged = trace.own[trace.own.step.isin(tile_steps) & (trace.own.warp == warp)]
        m, l = value_of(logged, "warp_m"), value_of(logged, "warp_l")
        before = next((tile for tile in reversed(self.unit["tiles"]) if tile["warp"] == warp), None)
        best = scores.loc[scores.value.idxmax()]
        first, end = int(scores.token.min()), int(scores.token.max()) + 1
        tile: RangesTile = {"first": first, "end": end, "warp": warp, "m": m, "l": l, "since": len(self.frames)}
        self.unit["tiles"].append(tile)
        self.frames.add(
            "scores",
            f"{self.where} · warp {warp}, tokens {first} to {end - 1}",
            records[records.step.isin(tile_steps) & (records.warp == warp)],
            f"{self.where}: warp {warp} multiplies tokens {first} to {end - 1}. Head {trace.head}'s largest "
            f"score is {short(best.value)}, at token {int(best.token)}. {_softmax_text(before, m, l)}",
            tokens=[first, end - 1],
            warp=warp,
            m=m,
            l=l,
        )

    def _result(self) -> None:
        own, whole = self.trace.own, self.trace.partitions == 1
        own = own[(own.launch == self.unit["list"]) & (own.block == self.unit["block"])]
        own = own[own.event.isin(["m", "l"]) & (own.partition == self.unit["partition"])]
        m, l = value_of(own, "m"), value_of(own, "l")
        self.unit |= {"m": m, "l": l, "since": len(self.frames)}
        phase = "write" if whole else "write_part"
        self.frames.add(
            phase,
            f"{self.where} · {phase_title(phase)}",
            self._result_records(int(own.step.iloc[0])),
            f"{self.where}: {self._combined_text(m, l)} {self._written_sentence(whole)}",
            m=m,
            l=l,
            written=whole,
        )

    def _result_records(self, position: int) -> pd.DataFrame:
        """Returns the records of a step, and of the warps' combination before it."""
        consumer = self._steps_of_role(position)
        before = consumer[consumer.get_loc(position) - 1]
        combines = self.steps.phase[before] == "combine_warps"
        return self.records[self.records.step.isin([before, position] if combines else [position])]

    def _combined_text(self, m: float, l: float) -> str:
        warps = {tile["warp"]: tile for tile in self.unit["tiles"]}
        if len(warps) == 1:
            (warp,) = warps
            why = (
                f"warp {warp} has this head's column" if self.work_list.shared else f"only warp {warp} had tokens here"
            )
            return f"{why}, so the unit has its m = {short(m)} and l = {short(l)}."
        terms = ", ".join(f"({short(tile['m'])}, {short(tile['l'])})" for _, tile in sorted(warps.items()))
        return (
            f"the (m, l) of {count(len(warps), 'warp')}, {terms}, become one: m = {short(m)}, l = "
            f"\u03a3 l_w e^(m_w - m) = {short(l)}."
        )

    def _written_sentence(self, whole: bool) -> str:
        trace = self.trace
        if whole:
            return f"No cut divides {trace.name}, so O = sums / l is written at once."
        return (
            f"They and {trace.paged.head_dim} sums, not divided by l, are kept as partition "
            f"{self.unit['partition']} of {trace.partitions}."
        )


def _softmax_text(before: RangesTile | None, m: float, l: float) -> str:
    """Returns the change of a warp's m and l by a tile. before: the warp's tile before, if any."""
    if before is None:
        return f"The warp's m is {short(m)} and its l {short(l)}."
    if m == before["m"]:
        return f"The warp's m stays {short(m)}, and l grows from {short(before['l'])} to {short(l)}."
    factor = short(float(np.exp(before["m"] - m)))
    power = f"e^({short(before['m'])} - {short(m)}) = {factor}".replace("- -", "+ ")
    rises = f"The warp's m rises from {short(before['m'])} to {short(m)}"
    return f"{rises}, so l {short(before['l'])} is scaled by {power}. Now l is {short(l)}."


def plan_sentence(trace: RangeTrace) -> str:
    """Returns the prefixes, the ranges and the pieces of the followed sequence."""
    own, prefixes = trace.lists[-1], trace.lists[:-1]
    sequences = {sequence for unit in own.in_order for sequence in own.sequences(unit)}
    total = int(own.table[:, PAGES].sum())
    entries = f"{count(total, 'entry', 'entries')} of {count(len(sequences), 'block table')}"
    subject = f"What follows, {entries}" if prefixes else f"The {entries}"
    verb = "is" if prefixes or total == 1 else "are"
    said = [
        *(_prefix_sentence(trace, prefix) for prefix in prefixes),
        f"{subject}, end to end, {verb} cut into {count(own.ranges, 'range')} of {_span(_range_lengths(own))}, a "
        "thread block for each range and KV head.",
        _pieces_sentence(trace, own, prefixes),
    ]
    return " ".join(said)


def _range_lengths(work_list: WorkList) -> list[int]:
    """Returns the pages of each range."""
    lengths = [0] * work_list.ranges
    for unit, number in enumerate(work_list.range_of):
        lengths[number] += int(work_list.table[unit, PAGES])
    return lengths


def _pieces_sentence(trace: RangeTrace, own: WorkList, prefixes: Sequence[WorkList]) -> str:
    pieces = len(trace.own_units(own))
    lies = "lies" if len(trace.pages) == 1 else "lie"
    where = f"{pieces} of them" if pieces > 1 else "one"
    shared = any(trace.own_units(prefix) for prefix in prefixes)
    also = " and in the prefix's" if shared else ""
    return f"{trace.name}'s {count(len(trace.pages), 'page')} {lies} in {where}{also}."


def _prefix_sentence(trace: RangeTrace, prefix: WorkList) -> str:
    """Returns the sharers of each prefix and its pages.

    A list repeats a prefix for sequences beyond the columns of a block.
    """
    problem = trace.run.request.problem
    at_once = problem.cache_use.prefix_heads // trace.group
    said, known = [], set()
    for first in dict.fromkeys(int(prefix.table[unit, SEQ]) for unit in prefix.in_order):
        units = prefix.table[prefix.table[:, SEQ] == first]
        names = listed([trace.names[first + n] for n in range(units[0, PARTITIONS])])
        pages = tuple(problem.block_tables[first][: units[:, PAGES].sum()])
        if pages in known:
            said.append(
                f"They are listed once more for {names}: a block has columns for {at_once} sequences of "
                f"{count(trace.group, 'query head')}."
            )
        else:
            stands = "stands" if len(pages) == 1 else "stand"
            said.append(
                f"{names} begin with the same {count(len(pages), 'page')}, which {stands} once, in a list of prefixes."
            )
        known.add(pages)
    return f"{' '.join(said)} That list is cut into {count(prefix.ranges, 'range')}."


def _span(lengths: Sequence[int]) -> str:
    low, high = min(lengths), max(lengths)
    return count(high, "page") if low == high else f"{low} to {high} pages"


MOST_TERMS = 4  # most partial results in a sum


@dataclass(frozen=True)
class Walked:
    """The walk of one query head over its units.

    frames: one for each step.
    lists: the work list of each launch.
    units: the sequence's units, in the order of their partitions.
    scores: float32 [tokens] as logged, else NaN.
    o: [head_dim].
    merged: {"m", "l"} of the sequence.
    sequence, head, kv_head: the followed ones.
    """

    frames: list[RangesFrame]
    lists: list[WorkList]
    units: list[RangesUnit]
    scores: np.ndarray
    o: np.ndarray
    merged: dict[str, float]
    sequence: int
    head: int
    kv_head: int


def walk(run: Run, names: Sequence[str], sequence: int, head: int) -> Walked:
    """Returns the Walked of one query head of one sequence, from a whole Run. names: the sequences."""
    trace, frames = RangeTrace(run, names, sequence, head), RangeFrames()
    frames.add("plan", "The work list", trace.records.iloc[:0], plan_sentence(trace), unit=-1)
    for work_list in trace.lists:
        for number in trace.own_units(work_list):
            add_unit(trace, frames, work_list, number)
    _merge(trace, frames)
    return Walked(
        frames=frames.frames,
        lists=trace.lists,
        units=frames.units,
        scores=trace.by_token("score"),
        o=np.asarray(trace.output, np.float32),
        merged=trace.merged,
        sequence=sequence,
        head=head,
        kv_head=trace.kv_head,
    )


def _merge(trace: RangeTrace, frames: RangeFrames) -> None:
    """Adds the frame of the merge, if the sequence has several partial results."""
    weights, units = trace.own[trace.own.event == "weight"].sort_values("partition"), frames.units
    if weights.empty:
        return
    for unit in units:
        unit["weight"] = float(weights[weights.partition == unit["partition"]].value.iloc[0])
    frames.group += 1
    last = weights.iloc[0]
    launch = trace.run.request.plan.launches[int(last.launch)]
    number = int(last.block) // launch.blocks_per_item
    m, l = trace.merged["m"], trace.merged["l"]
    terms = " + ".join(f"{short(unit['l'])} x {short(unit['weight'])}" for unit in units[:MOST_TERMS])
    terms += " + ..." if len(units) > MOST_TERMS else ""
    has_prefix = any(trace.lists[unit["list"]].shared for unit in units)
    before = ", the prefix's from the launch before" if has_prefix else ""
    frames.add(
        "combine",
        f"Merge · {count(len(units), 'partition')}",
        trace.records[trace.records.step == int(last.step)],
        f"Range {number}'s block arrives last, so it merges the {len(units)} in the same launch{before}: "
        f"m = max m_i = {short(m)}, l = \u03a3 l_i e^(m_i - m) = {terms} = {short(l)}. "
        f"O = \u03a3 O_i e^(m_i - m) / l is written.",
        unit=len(units) - 1,
        m=m,
        l=l,
        written=True,
        merged=True,
    )
