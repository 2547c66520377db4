"""The frames of one unit of a work list: its entry, its pages, its tiles and its result."""

from collections.abc import Hashable

import numpy as np
import pandas as pd

from explainers.stories.block_table.range_frames import RangeFrames
from explainers.stories.block_table.range_trace import RangeTrace, value_of
from explainers.stories.block_table.range_types import RangesTile, RangesUnit
from explainers.stories.block_table.work_lists import FIRST, LIST_AXES, NEXT, PAGES, PARTITION, SEQ, WorkList
from explainers.story import axes
from explainers.story.glossary import count, listed, phase_title, short

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
            f"score is {short(best.value)}, at token {int(best.token)}. {_softmax_text(before, m, l)}"
            f"{self._rounding_sentence(first, end)}",
            tokens=[first, end - 1],
            warp=warp,
            m=m,
            l=l,
        )

    def _rounding_sentence(self, first: int, end: int) -> str:
        errors = self.trace.errors
        if errors is None:
            return ""
        key, score = float(np.nanmax(errors.keys[first:end])), float(np.nanmax(errors.scores[first:end]))
        return f" In 8 bits K is off by up to {short(key)} here, and a score by up to {short(score)}."

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
            return f"No cut divides {trace.name}, so O = sums / l is written at once.{output_error_sentence(trace)}"
        return (
            f"They and {trace.paged.head_dim} sums, not divided by l, are kept as partition "
            f"{self.unit['partition']} of {trace.partitions}."
        )


def output_error_sentence(trace: RangeTrace) -> str:
    """Returns the error of O by a cache of 8 bits, or ""."""
    return f" With the cache in 8 bits O is off by up to {short(trace.errors.output)}." if trace.errors else ""


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
