"""The KV cache of the block table story: its content after each event, and the saving over contiguous slots."""

from collections.abc import Container
from dataclasses import replace
from typing import Any

import altair as alt
import pandas as pd

from explainers.charts.palette import AXIS, OKABE_ITO, SEQUENCES
from explainers.stories.block_table.cache_types import HeldPages, PoolFrame, PoolMeta, PoolPage, PoolSequence
from explainers.story import stage
from explainers.story.glossary import count
from kernels.kv_cache.scenarios import Scenario, write_event

States = list[
    tuple[Any, Any]
]  # (KVCache, Change or None) before the first event and after each, as Scenario.states gives them


def cache_frames(states: States, max_len: int) -> list[PoolFrame]:
    """Returns a frame for each state: the pool, the block tables, and a sentence about the event."""
    colours = sequence_colours(states)
    before = [states[0][0], *(cache for cache, _ in states)]
    return [_frame(n, cache, change, before[n], max_len, colours) for n, (cache, change) in enumerate(states)]


def view(frames: list[PoolFrame], cache: Any, max_len: int, layout: Any = None) -> PoolMeta:
    """Returns the meta of the view `pool`.

    cache: any state of the cache.
    layout: the problem's layout, None if no kernel can run.
    """
    return {
        "frames": frames,
        "size": cache.block_size,
        "max_len": max_len,
        "page_bytes": layout.page_bytes if layout else 0,
        "kv_heads": layout.num_kv_heads if layout else 0,
    }


def stage_of(scenario: Scenario, block_size: int, layout: Any, by_hand: bool) -> stage.Stage:
    """Returns the whole stage of a history, with a step for each event. by_hand: the reader makes the events."""
    played, max_len = scenario.states(block_size), scenario.max_len
    frames = cache_frames(played, max_len)
    events = {"events": [f["event"] for f in frames], "names": [[s["name"] for s in f["sequences"]] for f in frames]}
    usage = stage.chart(
        usage_chart(usage_table(played, max_len)),
        "Slots used, held in pages and reserved contiguously after each event; a rule marks the event",
        f"After the last event. {usage_sentence(played[-1][0], max_len)}",
        f"Slots after each event; contiguous: {max_len} reserved for each sequence",
    )
    return stage.Stage(
        headline=f"{scenario.title}. {scenario.about}",
        frames=frames,
        views=[stage.View("pool", "pool", "Pool", view(frames, played[-1][0], max_len, layout))],
        state=states(frames),
        tabs=[stage.Tab("usage", "Slots over time", [usage]), stage.Tab("writes", "What the kernels write")],
        provenance=stage.Provenance(
            "modelled",
            "The block manager of kernels/kv_cache/manager.py, played event by event; the kernels are handed "
            "its tables as they are. Nothing ran for this picture.",
        ),
        side=[stage.live("events", events | {"by_hand": by_hand})],
        step_choice="moment",
    )


def states(frames: list[PoolFrame]) -> list[stage.State]:
    """Returns the strip: slots in use, slots in held pages, slack, and slots of contiguous reservations."""

    def course(name: str) -> list[int]:
        return [f["usage"][name] for f in frames]

    free = [len(f["free"]) for f in frames]
    return [
        stage.State("slots used", course("used")),
        stage.State("held in pages", course("held")),
        stage.State("slack", course("slack")),
        stage.State("reserved contiguously", course("reserved")),
        stage.State("free pages", free, of=free[0]),
    ]


def identity(sequence: Any) -> tuple:
    """Returns the key of a sequence. A later sequence of the same name has another key."""
    return sequence.name, sequence.tokens[0], sequence.family


def sequence_colours(states: States) -> dict[tuple, str]:
    """Returns identity -> colour for every sequence of these states, in order of appearance."""
    seen = dict.fromkeys(identity(sequence) for cache, _ in states for sequence in cache.sequences)
    return {key: SEQUENCES[number % len(SEQUENCES)] for number, key in enumerate(seen)}


def held(cache: Any, colours: dict[tuple, str]) -> HeldPages:
    """Returns the content of a cache for a frame."""
    size = cache.block_size
    pages: dict[int, PoolPage] = {}
    for n, s in enumerate(cache.sequences):
        for entry, page in enumerate(s.table):
            there = pages.setdefault(page, {"fill": 0, "owners": [], "entry": entry})
            there["owners"].append(n)
            there["fill"] = max(there["fill"], min(size, len(s.tokens) - entry * size))
    sequences: list[PoolSequence] = [
        {"name": s.name, "length": len(s.tokens), "table": s.table, "colour": colours[identity(s)]}
        for s in cache.sequences
    ]
    return {"sequences": sequences, "pages": pages, "free": cache.free, "counts": cache.ref_counts}


def _frame(number: int, cache: Any, change: Any, before: Any, max_len: int, colours: dict[tuple, str]) -> PoolFrame:
    return {
        "tile": number,
        "title": "Empty cache" if change is None else f"Event {number}: {write_event(change.event)}"[:34],
        "event": "" if change is None else write_event(change.event),
        "sentence": cache_sentence(cache, change, before),
        **held(cache, colours),
        "new": [slot for _, slot in change.written] if change else [],
        "copied": change.copied if change else None,
        "released": change.released if change else (),
        "usage": cache.usage(max_len),
        "waste": usage_sentence(cache, max_len),
    }


def cache_sentence(cache: Any, change: Any, before: Any) -> str:
    """Returns the effect of the event in sentences. before: the cache before the event."""
    if change is None:
        pool = f"The pool has {cache.num_blocks} pages of {cache.block_size} slots, all free."
        return f"{pool} A slot holds the key and value of one token."
    told = {"fork": _forked, "free": _freed}
    return told.get(change.event.action, _grown)(cache, change, before)


def _forked(cache: Any, change: Any, before: Any) -> str:
    event, last, counts = change.event, before.find(change.event.parent), cache.ref_counts
    return (
        f"{event.name} is forked from {event.parent}: its block table is a copy, "
        f"{count(len(last.table), 'entry', 'entries')}, and no key "
        f"or value is copied. The reference count of {pages_said(last.table)} is now "
        f"{_range([counts[page] for page in last.table])}."
    )


def _freed(cache: Any, change: Any, before: Any) -> str:
    kept = [page for page in before.find(change.event.name).table if page not in change.released]
    said = [f"{change.event.name} is freed."]
    if change.released:
        go = "goes" if len(change.released) == 1 else "go"
        said.append(f"{pages_said(change.released).capitalize()} {go} to the end of the free list.")
    if kept:
        stay = "stays: other sequences hold it" if len(kept) == 1 else "stay: other sequences hold them"
        said.append(f"{pages_said(kept).capitalize()} {stay}.")
    return " ".join(said)


def _grown(cache: Any, change: Any, before: Any) -> str:
    event, size, length = change.event, cache.block_size, len(cache.find(change.event.name).tokens)
    adds = event.action == "add"
    did = f"{event.name} {'starts with' if adds else 'grows by'} {count(event.tokens, 'token')}"
    said = [did + ("" if adds else f" to {length}") + "."]
    if change.copied:
        source, target = change.copied
        said.append(
            f"Page {source} is shared by {before.ref_counts[source]} sequences, so it is first copied to page "
            f"{target}, and {event.name}'s "
            f"entry {change.allocated[0][0]} becomes {target}: copy on write."
        )
    fresh = change.allocated[1 if change.copied else 0 :]
    taken = sum(slot // size in {page for _, page in fresh} for _, slot in change.written)
    if event.tokens - taken and not change.copied:
        fits = "fits" if event.tokens - taken == 1 else "fit"
        said.append(
            f"{count(event.tokens - taken, 'token')} {fits} in the slots left of page {change.written[0][1] // size}."
        )
    if fresh:
        one = len(fresh) == 1
        entries = f"entry {fresh[0][0]}" if one else f"entries {fresh[0][0]} to {fresh[-1][0]}"
        said.append(
            f"{pages_said([page for _, page in fresh]).capitalize()} {'is' if one else 'are'} taken from the free list "
            f"and {'becomes' if one else 'become'} {entries} of {event.name}'s block table."
        )
    return " ".join(said)


def usage_table(states: States, max_len: int, prefixes: Container[str] = ()) -> pd.DataFrame:
    """Returns event, kind and slots after each event: in use, in held pages, and in max_len contiguous slots per
    sequence.

    prefixes: as in usage_of.
    """
    rows = []
    for number, (cache, _) in enumerate(states):
        usage = usage_of(cache, max_len, prefixes)
        rows += [
            (number, "used", usage["used"]),
            (number, "in pages", usage["held"]),
            (number, "contiguous", usage["reserved"]),
        ]
    return pd.DataFrame(rows, columns=["event", "kind", "slots"])


def usage_chart(table: pd.DataFrame, axis: str = "event") -> alt.LayerChart:
    """Returns the slots after each event. The rule follows the clock. axis: the name of an event."""
    kinds = ["used", "in pages", "contiguous"]
    colours = alt.Scale(domain=kinds, range=[OKABE_ITO[c] for c in ("green", "blue", "vermillion")])
    dashes = alt.Scale(domain=kinds, range=[[1, 0], [6, 3], [2, 2]])
    step = alt.param(name="step", value=1)
    x = alt.X(
        "event:Q",
        title=axis,
        axis=alt.Axis(tickMinStep=1, format="d", grid=False),
        scale=alt.Scale(domain=[0, max(1, int(table.event.max()))], nice=False),
    )
    line = alt.Chart(table).mark_line(interpolate="step-after", strokeWidth=2.5)
    line = line.encode(
        x=x,
        y=alt.Y("slots:Q", title="slots"),
        tooltip=["kind:N", alt.Tooltip("event:Q", title=axis), "slots:Q"],
        color=alt.Color("kind:N", title=None, sort=kinds, legend=alt.Legend(orient="top", columns=3), scale=colours),
        strokeDash=alt.StrokeDash("kind:N", title=None, sort=kinds, scale=dashes),
    )
    now = alt.Chart(pd.DataFrame({"rule": [0]})).mark_rule(color=AXIS, strokeWidth=1.5)
    now = now.encode(x=alt.XDatum(alt.ExprRef("step - 1"), type="quantitative"))
    return (line + now).add_params(step).properties(height=230)


def usage_of(cache: Any, max_len: int, prefixes: Container[str] = ()) -> dict[str, int]:
    """Returns KVCache.usage. prefixes: sequences that a server without sharing does not have."""
    own = replace(cache, sequences=tuple(s for s in cache.sequences if s.name not in prefixes)).usage(max_len)
    return cache.usage(max_len) | {name: own[name] for name in ("reserved", "copies", "empty")}


def usage_sentence(cache: Any, max_len: int) -> str:
    """Returns the waste of pages and of reservations in a sentence."""
    usage = cache.usage(max_len)
    if not usage["held"]:
        return "Nothing is held."
    share, other = usage["slack"] / usage["held"], usage["empty"] / usage["reserved"]
    copies = (
        f" It would also store {count(usage['copies'], 'token')} again that pages share." if usage["copies"] > 0 else ""
    )
    return (
        f"Pages hold {usage['held']} slots for {usage['used']} tokens: {usage['slack']} slots of slack in last pages, "
        f"{share:.0%}. "
        f"Reserving {max_len} contiguous slots for each of {count(len(cache.sequences), 'sequence')} would hold "
        f"{usage['reserved']}, "
        f"{usage['empty']} of them empty, {other:.0%}.{copies}"
    )


def pages_said(pages: Any) -> str:
    """Returns pages in words, with ranges: "page 3", "pages 4, 7 to 9"."""
    return f"page{'' if len(pages) == 1 else 's'} {numbers_said(pages)}"


def numbers_said(numbers: Any) -> str:
    """Returns numbers in words, with ranges: "4, 7 to 9"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] + 1 == number:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}, {b}" if b == a + 1 else f"{a} to {b}" for a, b in runs)


def _range(numbers: list[int]) -> str:
    return str(min(numbers)) if min(numbers) == max(numbers) else f"{min(numbers)} to {max(numbers)}"
