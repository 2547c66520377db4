"""The KV cache of the block table story: its content after each event, and the saving over contiguous slots."""

from collections.abc import Container, Sequence
from dataclasses import replace

import altair as alt
import numpy as np
import pandas as pd

from explainers.charts.palette import AXIS, OKABE_ITO, SEQUENCES
from explainers.stories.block_table import paging
from explainers.stories.block_table.paging import WORDS
from explainers.story import axes, scene, stage
from explainers.story.frames import Frame
from explainers.story.glossary import count
from explainers.story.scene import Bar, Bars, Entries, Line, Lines, Page, Pages, Tables
from explainers.story.words import Names, Row
from kernels.kv_cache import manager
from kernels.kv_cache.layout import Layout
from kernels.kv_cache.manager import Change, KVCache
from kernels.kv_cache.scenarios import Scenario, write_event
from kernels.run.results import Run

State = tuple[KVCache, Change | None]  # the cache, and the change before it; None before the first event
SequenceKey = tuple[str, int, int]  # name, first token, family


def cache_frames(states: Sequence[State], max_len: int) -> list[Row]:
    """A row for each state, with its words: the content of the cache (`held`), and the event before it.

    new: slots written by the event. copies: (from, to) each. released: pages freed by it. usage: KVCache.usage.
    waste: it in words. Further columns: the event, for the words.
    """
    colours = sequence_colours(states)
    before = [states[0][0], *(cache for cache, _ in states)]
    steps = [_row(n, state, before[n], max_len, colours) for n, state in enumerate(states)]
    frames = WORDS.frames(steps, {"view": "pool", "pages_said": pages_said})
    return [{**row, **frame} for row, frame in zip(steps, frames)]


def stage_frames(frames: Sequence[Names]) -> list[Row]:
    """The frames without the content of the cache."""
    return [{name: value for name, value in frame.items() if name in Frame.__annotations__} for frame in frames]


def pool(frames: Sequence[Names], size: int, layout: Layout | None, title: str) -> Pages:
    """The pool after each step. frames: HeldPages with new slots, released pages and copies each."""
    count_of = len(frames[0]["free"])
    steps = []
    for frame in frames:
        written: dict[int, list[int]] = {}
        for slot in frame["new"]:
            written.setdefault(slot // size, []).append(slot % size)
        steps.append([_page(frame, page, size, written.get(page, []), layout) for page in range(count_of)])
    titles = [f"Pool: {count_of} pages of {size} slots ({title})", f"Pool: {count_of} pages of {size} slots"]
    return Pages(title=titles, size=size, steps=steps, copies=[frame["copies"] for frame in frames])


def _page(frame: Names, page: int, size: int, new: Sequence[int], layout: Layout | None) -> Page:
    """A page after a step. new: its slots that the step fills, which are neighbours."""
    freed, is_next = page in frame["released"], frame["free"][:1] == (page,)
    held = frame["pages"].get(page)
    if not held:
        note = f"page {page} is free" + (": the next to be taken" if is_next else "")
        return Page(texts=["next" if is_next else "free"], freed=freed, tip=note)
    owners = [frame["sequences"][n] for n in held["owners"]]
    names = ", ".join(owner["name"] for owner in owners)
    shared = [f"held by {len(owners)}", f"x{len(owners)}"] if len(owners) > 1 else []
    tip = [f"reference count {len(owners)}"] if shared else []
    if layout:
        tip.append(f"KV head 0 of the page: K from byte {page * layout.num_kv_heads * layout.page_bytes:,}")
    return Page(
        names=names,
        colours=[owner["colour"] for owner in owners],
        fill=held["fill"],
        freed=freed,
        first=held["entry"] * size,
        texts=[names, *shared],
        fresh=[new[0], new[-1] + 1] if new else [],
        tip="\n".join(tip),
    )


def turns(frames: Sequence[Names]) -> list[tuple[str, str, str, list[bool]]]:
    """The views that run kernels on the cache of the step, if it has a sequence."""
    works = [bool(frame["sequences"]) for frame in frames]
    return [("view", "walk", "Run the decode kernel", works)]


def free_list(frames: Sequence[Names]) -> Lines:
    """The free list after each step."""
    return Lines(
        lines=[
            Line(texts=[f"Free list, next first: {', '.join(map(str, frame['free'])) or 'empty'}" for frame in frames])
        ]
    )


def usage_bars(frames: Sequence[Names], max_len: int) -> Bars:
    """The slots after each step: used, in pages, and reserved without pages."""
    usage = [frame["usage"] for frame in frames]

    def empty(one: dict[str, int]) -> str:
        copies = f", {one['copies']} copies" if one["copies"] > 0 else ""
        return f"{one['reserved']:,}: {one['empty']} empty{copies}"

    texts = {
        "used": [f"{one['used']:,}" for one in usage],
        "held": [f"{one['held']:,}: {one['slack']} empty" for one in usage],
        "reserved": [empty(one) for one in usage],
    }
    names = {"used": "With a token", "held": "In pages", "reserved": f"Reserved, {max_len} each"}
    colours = {"used": "V", "held": "primary", "reserved": "dim"}
    bars = [
        Bar(
            name=names[name],
            colour=colours[name],
            text=texts[name],
            datum={"slots": name},
            value=max(one[name] for one in usage) or 1,
            steps=[one[name] for one in usage],
            strong=True,
        )
        for name in names
    ]
    return Bars(title=["Slots"], bars=bars)


def _tables(frames: Sequence[Names], size: int) -> Tables:
    """The block tables after each step."""

    def row(sequence: Names) -> Entries:
        ends = [min((entry + 1) * size, sequence["length"]) - 1 for entry in range(len(sequence["table"]))]
        name, length = sequence["name"], sequence["length"]
        tips = [
            f"entry {entry} of {name}: tokens {entry * size} to {end} lie in page {page}"
            for entry, (end, page) in enumerate(zip(ends, sequence["table"]))
        ]
        texts = [count(length, "token"), str(length)]
        return Entries(name=name, colour=sequence["colour"], pages=sequence["table"], texts=texts, tips=tips)

    steps = [[row(sequence) for sequence in frame["sequences"]] for frame in frames]
    titles = ["Block tables: entry above, page below", "Block tables"]
    return Tables(title=titles, steps=steps, empty="No sequence yet.")


def stage_of(scenario: Scenario, block_size: int, layout: Layout | None) -> stage.Stage:
    """The whole stage of a history, with a step for each event."""
    played, max_len = scenario.states(block_size), scenario.max_len
    frames = cache_frames(played, max_len)
    usage = stage.chart(
        usage_chart(usage_table(played, max_len)),
        "Slots used, held in pages and reserved contiguously after each event. A rule marks the event",
        f"After the last event. {usage_sentence(played[-1][0], max_len)}",
        f"Slots after each event. Contiguous: {max_len} reserved for each sequence",
    )
    return stage.Stage(
        headline=f"{scenario.title}. {scenario.about}",
        frames=stage_frames(frames),
        views=[
            scene.view(
                "pool",
                "KV cache",
                [
                    [_tables(frames, block_size)],
                    [pool(frames, block_size, layout, "outlined: written by this event, dashed: freed")],
                    [free_list(frames)],
                    [usage_bars(frames, max_len)],
                ],
                note=[frame["waste"] for frame in frames],
                turns=turns(frames),
            )
        ],
        state=states(frames),
        tabs=[stage.Tab("usage", "Slots over time", [usage]), stage.Tab("writes", "Writes of the kernels")],
        provenance=stage.Provenance("modelled", WORDS.say("pool_model", {})),
        questions=WORDS.questions(asked(scenario, block_size), len(frames) - 1),
        step_choice="moment",
    )


def states(frames: Sequence[Names]) -> list[stage.State]:
    """The strip: slots in use, slots in held pages, slack, and slots of contiguous reservations."""
    named = {"used": "slots used", "held": "held in pages", "slack": "slack", "reserved": "reserved contiguously"}
    free = [len(frame["free"]) for frame in frames]
    course = [stage.State(name, [frame["usage"][key] for frame in frames]) for key, name in named.items()]
    return [*course, stage.State("free pages", free, of=free[0])]


def identity(sequence: manager.Sequence) -> SequenceKey:
    """The key of a sequence. A later sequence of the same name has another key."""
    return sequence.name, sequence.tokens[0], sequence.family


def sequence_colours(states: Sequence[State]) -> dict[SequenceKey, str]:
    """identity -> colour for every sequence of these states, in order of appearance."""
    seen = dict.fromkeys(identity(sequence) for cache, _ in states for sequence in cache.sequences)
    return {key: SEQUENCES[number % len(SEQUENCES)] for number, key in enumerate(seen)}


def held(cache: KVCache, colours: dict[SequenceKey, str]) -> Row:
    """The content of a cache.

    sequences: rows name, length, table, colour.
    pages: the pages in use -> row fill (slots with a token), owners (places in `sequences`), entry (in their tables).
    free: the free list. The first page is the next in use.
    """
    size, pages = cache.block_size, dict[int, Row]()
    for n, s in enumerate(cache.sequences):
        for entry, page in enumerate(s.table):
            shown = pages.setdefault(page, {"fill": 0, "owners": [], "entry": entry})
            shown["owners"].append(n)
            shown["fill"] = max(shown["fill"], min(size, len(s.tokens) - entry * size))
    sequences = [
        {"name": s.name, "length": len(s.tokens), "table": s.table, "colour": colours[identity(s)]}
        for s in cache.sequences
    ]
    return {"sequences": sequences, "pages": pages, "free": cache.free}


def _row(number: int, state: State, before: KVCache, max_len: int, colours: dict[SequenceKey, str]) -> Row:
    cache, change = state
    row: Row = {
        **{"tile": number, "before": change is None, "action": "", "pool": cache.num_blocks, "size": cache.block_size},
        **held(cache, colours),
        **{"new": [], "copies": [], "released": (), "usage": cache.usage(max_len)},
        "waste": usage_sentence(cache, max_len),
    }
    if change is None:
        return row
    event, copied = change.event, change.copied
    row |= {"action": event.action, "name": event.name, "parent": event.parent, "amount": event.tokens}
    row |= {"new": [slot for _, slot in change.written], "copies": [copied] if copied else []}
    row |= {"released": change.released, "event": f"Event {number}: {write_event(event)}"[:34]}
    if event.action == "fork":
        table = before.find(event.parent).table
        counts = [cache.ref_counts[page] for page in table]
        row |= {"table": table, "low": min(counts), "high": max(counts)}
    elif event.action == "free":
        row["kept"] = [page for page in before.find(event.name).table if page not in change.released]
    else:
        fresh = change.allocated[1 if copied else 0 :]
        fresh_pages = {page for _, page in fresh}
        fitting = sum(slot // cache.block_size not in fresh_pages for _, slot in change.written)
        row |= {"total": len(cache.find(event.name).tokens), "fresh": [page for _, page in fresh], "copied": copied}
        row |= {"entries": [entry for entry, _ in fresh], "fitting": 0 if copied else fitting}
        row |= {"left_of": change.written[0][1] // cache.block_size} if fitting else {}
        row |= {"holders": before.ref_counts[copied[0]], "entry": change.allocated[0][0]} if copied else {}
    return row


def usage_table(states: Sequence[State], max_len: int, prefixes: Container[str] = ()) -> pd.DataFrame:
    """Event, kind and slots after each event: in use, in held pages, and in max_len contiguous slots per
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
    """The slots after each event. The rule follows the clock. axis: the name of an event."""
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


def usage_of(cache: KVCache, max_len: int, prefixes: Container[str] = ()) -> dict[str, int]:
    """KVCache.usage. prefixes: sequences that a server without sharing does not have."""
    own = replace(cache, sequences=tuple(s for s in cache.sequences if s.name not in prefixes)).usage(max_len)
    return cache.usage(max_len) | {name: own[name] for name in ("reserved", "copies", "empty")}


def usage_sentence(cache: KVCache, max_len: int) -> str:
    """The waste of pages and of reservations in words."""
    return WORDS.say("waste_of_pool", {"usage": cache.usage(max_len), "max_len": max_len})


def pages_said(pages: Sequence[int]) -> str:
    """Pages in words, with ranges: page 3, or pages 4, 7 to 9."""
    runs: list[list[int]] = []
    for number in pages:
        if runs and runs[-1][1] + 1 == number:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    said = [str(a) if a == b else f"{a}, {b}" if b == a + 1 else f"{a} to {b}" for a, b in runs]
    return f"page{'' if len(pages) == 1 else 's'} {', '.join(said)}"


def asked(scenario: Scenario, block_size: int) -> Row:
    """The names for the questions about the waste of paging and of contiguous slots."""
    cache, max_len = scenario.states(block_size)[-1][0], scenario.max_len
    longest = max(cache.sequences, key=lambda s: len(s.tokens), default=None)
    at = len(longest.tokens) - 1 if longest else 0
    return {
        **{"view": "pool", "sequences": len(cache.sequences), "at": at, "entry": at // block_size},
        "longest": {"name": longest.name, "length": at + 1, "table": [*longest.table]} if longest else None,
        **{"ends": [s.table[-1] for s in cache.sequences], "usage": cache.usage(max_len)},
        **{"waste": usage_sentence(cache, max_len), "size": block_size, "max_len": max_len},
    }


def addresses_table(run: Run, limit: int = 64) -> pd.DataFrame:
    """The stored bytes of each token in the cache, from the logged stores.

    Columns: token, slot, page, first K byte, K pieces, first V byte, V numbers. The address of a token's first byte of
    V gives its slot.
    """
    k, v = (next(iter(axes.with_axes(run.request, *names).items())) for names in (paging.K_AXES, paging.V_AXES))
    frame = run.trace.frame("event", "tensor", "space", "token", "offset")
    rows: list[dict[str, int]] = []
    stores = frame[(frame.event == "store") & (frame.space == "global")]
    size = axes.length(v[1], "slot")
    for token, part in stores.groupby("token"):
        if len(rows) == limit:
            break
        k_offsets, v_offsets = (part[part.tensor == name].offset for name, _ in (k, v))
        page, *_, slot = (int(n) for n in axes.coordinates(v[1], np.array(v_offsets.min())))
        rows.append(
            {
                "token": int(token),
                "slot": page * size + slot,
                "page": page,
                "slot in page": slot,
                "first K byte": int(k_offsets.min()),
                "K stores of 16 bytes": len(k_offsets),
                "first V byte": int(v_offsets.min()),
                "V stores of one number": len(v_offsets),
            }
        )
    return pd.DataFrame(rows)
