"""Questions of the course, asked before a picture is read. Each is made from what a story shows: its key is a number of
the run's own, and what makes no sense for a run is not asked.

Wrong options are other numbers of the same run, such as what the neighbour moved or what a kernel without sharing would
need; none equals the key or another. Stories that ask of their own frames (online_softmax, threads, timing_stage) have
their questions beside them. What says the answer at a question's step is among its veils.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from explainers.stories.bank_conflicts.frames import BankSide
from explainers.stories.block_table import paging
from explainers.stories.block_table.page_counts import Reads
from explainers.stories.block_table.page_reads import often
from explainers.stories.block_table.paging import Paged
from explainers.stories.block_table.walk_types import HeadsPanel, PartitionsMeta, WalkFrame
from explainers.stories.compare import pair_times, time_verdict
from explainers.stories.occupancy.frames import GridFrame
from explainers.stories.occupancy.grid import Schedule
from explainers.stories.tiling import tiling as tiled
from explainers.stories.tiling import traffic
from explainers.stories.tiling.frames import TilingFrame
from explainers.story import axes, glossary, picture
from explainers.story.frames import SectorRequest
from explainers.story.glossary import count, figure
from explainers.story.stage import MEASURED, VEILS, Question, Stage, View
from kernels.build.occupancy import Occupancy
from kernels.run.results import Run
from kernels.trace.memory import model

MOST = 4  # options of a question


def options(
    id: str, text: str, right: str, wrong: Iterable[str], why: str, ordered: Sequence[str] = (), **more: Any
) -> list[Question]:
    """A question with options, as a list; none if no wrong option is left. ordered: the order of texts that have one;
    others stand in an order that the texts decide, and that says nothing of the answer. more: of Question."""
    others = [text for text in dict.fromkeys(wrong) if text != right][: MOST - 1]
    if not others:
        return []
    listed = [right, *others]
    key = {text: n for n, text in enumerate(ordered)} if ordered else {}
    listed.sort(
        key=lambda said: (key.get(said, 0), hashlib.sha256((id + said).encode()).hexdigest() if not key else "")
    )
    return [Question(id, text, "options", listed.index(right), why, listed, **more)]


def amounts(
    id: str, text: str, right: int, wrong: Iterable[int], why: str, unit: str = "", **more: Any
) -> list[Question]:
    """A question whose options are numbers, from low to high. more: of Question."""
    others = [n for n in dict.fromkeys(int(w) for w in wrong) if n != right and n >= 0][: MOST - 1]
    said = {n: f"{n:,} {unit[:-1] if n == 1 else unit}".strip() for n in sorted({right, *others})}
    return options(id, text, said[right], [said[n] for n in others], why, list(said.values()), **more)


def beside(made: Stage) -> list[Question]:
    """Of the pictures that several stories have beside their own: how many threads of a block are at work at a step,
    and how many multiprocessors a grid of this size needs."""
    found: list[Question] = []
    for view in made.views:
        if view.kind == "threads":
            found += _at_work(view, view.meta.get("frames") or made.frames)
        if view.kind == "grid":
            found += multiprocessors(view)
    return found


def _at_work(view: View, frames: Sequence[Any]) -> list[Question]:
    """Of the step in which the fewest threads of a block run a traced line, of those where no count beside a line of
    code says how many; the first one of a picture with steps of its own."""
    meta, ran = view.meta, np.asarray(view.columns["ran"]).reshape(len(view.meta["moments"]), -1)
    busy = [int((ran[moment] >= 0).sum()) for moment in meta["of_frame"]]
    every = [meta["launches"][meta["moments"][moment]["launch"]]["threads"] for moment in meta["of_frame"]]
    there = [n for n, some in enumerate(busy) if some][: 1 if view.meta.get("clock") else None]
    there = [n for n in there if busy[n] not in _counts(frames[n])]
    if not there:
        return []
    step = min(there, key=lambda n: busy[n])
    text = (
        f"Step {step + 1}, {frames[step]['title']}: of how many of the block's {every[step]} threads do the "
        "probes log any work?"
    )
    idle = every[step] - busy[step]
    others = f"nothing is logged of the other {idle}" if idle else "none is idle"
    why = f"The probes log work of {busy[step]} of {every[step]} threads in this step; {others}."
    wrong = [every[step], every[step] // 2, 1, 32]
    where: dict[str, Any] = {"step": step, "view": view.id, "veils": ("picture",)}
    return amounts(f"at_work_{view.id}", text, busy[step], wrong, why, "threads", **where)


def _counts(frame: Any) -> set[int]:
    """What stands beside the lit lines of every code pane at a frame."""
    return {n for key, lines in frame.items() if key.startswith("lines") for n in lines.values()}


def multiprocessors(view: View) -> list[Question]:
    """Of the picture `grid`: how many multiprocessors have work."""
    meta = view.meta
    blocks, used, every = sum(launch["blocks"] for launch in meta["launches"]), meta["multiprocessors"], meta["all"]
    text = (
        f"The whole grid has {count(blocks, 'block')}, and {meta['gpu']} has {every} multiprocessors. How many of "
        "these get a block?"
    )
    how = (
        "In launch order, a block to each in turn" if meta["unit"] == "turn" else "As the timeline of this build has it"
    )
    why = f"{how}: {used} of {every}, and {every - used} have nothing to do."
    wrong = [every, blocks, every // 2, used // 2]
    veils = ("sentence", "strip", "picture")
    return amounts("multiprocessors", text, used, wrong, why, view=view.id, veils=veils)


# ---- why tiles ----


def tiling(run: Run, made: Stage) -> list[Question]:
    """Why Q goes to shared memory, what a block's part is, what is read again, and what is never stored."""
    frames, meta = made.frames, made.views[0].meta
    request, of = run.request, {place: symbol for symbol, place in meta["places"].items()}
    view = made.views[0].id
    return [
        *_reuse(run, frames, made, of),
        *_keys_read(run, frames, meta, of, view),
        *_stored(run, frames, meta, of, view),
        *_whose(request.plan.launches[-1], meta, view),
    ]


def _reuse(run: Run, frames: Sequence[TilingFrame], made: Stage, of: dict[str, str]) -> list[Question]:
    """Of the query tile in shared memory: how often each of its elements is used."""
    q, scores, row0 = of["Q"], np.asarray(made.views[0].columns["s_logged"]), made.views[0].meta["row0"]
    held = any(q in f["resident"] and f["resident"][q]["rects"] for f in frames)
    met = scores.sum(axis=1)  # keys of each row
    keys, pairs = int(met[-1]), int(met.sum())  # with a causal mask the last row meets the most
    read = frames[-1]["bytes"].get(f"{q} load", 0)
    if not held or not keys or not read:
        return []
    tiles = len({f["tile"] for f in frames if f["scores"]})
    row = row0 + len(scores) - 1
    anew = pairs * made.views[0].meta["d"] * picture.tensor_at(run.request, "Q").itemsize
    text = (
        f"The block copies its tile of {q} into shared memory before it does anything else. That pays if its elements "
        f"are used often. How many products does one element of row {row} go into?"
    )
    why = (
        f"Row {row} meets {keys} keys, in {count(tiles, 'key tile')}, and each element of {q} is multiplied with one "
        f"element of each. The tile's {read:,} bytes come from global memory once. Its {len(scores)} rows meet "
        f"{pairs:,} keys in all: read anew for each, they would be {anew:,} bytes, {anew / read:.3g} times as many."
    )
    step = max(n for n, f in enumerate(frames) if f["scores"])
    where: dict[str, Any] = {"step": step, "view": made.views[0].id, "veils": ("sentence",)}
    return [Question("reuse", text, "number", keys, why, unit="products", **where)]


def _stored(run: Run, frames: Sequence[TilingFrame], meta: Any, of: dict[str, str], view: str) -> list[Question]:
    """What of the scores S and the weights P goes to global memory."""
    last, names = frames[-1]["bytes"], [of[place] for place in "SP" if place in of]
    stored = sum(last.get(f"{name} store", 0) for name in names)
    rows, keys = meta["rows"], meta["keys"]
    item = picture.tensor_at(run.request, "O").itemsize
    one = rows * keys * item
    o = last.get(f"{of['O']} store", 0)
    step = len(frames) - 1
    if stored:
        parts = glossary.listed([f"{last[f'{name} store']:,} of {name}" for name in names if f"{name} store" in last])
        why = (
            f"It stores {stored:,} bytes: {parts}; and {o:,} of {of['O']}, which alone is the result. Flash attention "
            "stores none of S and P."
        )
        step = next((k for k, f in enumerate(frames) if any(f"{name} store" in f["bytes"] for name in names)), step)
    else:
        why = (
            "No store of S or P is logged: scores and weights live in the chip and are gone after their tile. Only "
            f"{of['O']} is written, {o:,} bytes. Stored, they would have been {one:,} bytes each for these {rows} rows."
        )
    text = (
        f"How many bytes of the scores S and the weights P does this kernel write to global memory for these {rows} "
        "queries?"
    )
    where: dict[str, Any] = {"step": step, "view": view, "veils": ("sentence", "strip", "headline", "tabs")}
    return amounts("never_stored", text, stored, [0, one, 2 * one, o], why, "bytes", **where)


def _whose(launch: Any, meta: Any, view: str) -> list[Question]:
    """Which block makes which rows: grid, blocks and threads."""
    blocks, row0 = meta["blocks"], meta["row0"]
    rows, threads = blocks[0][1] - blocks[0][0] + 1, launch.threads
    grid = " by ".join(str(n) for n in launch.grid if n > 1) or "1"
    own = next(b for b in blocks if b[0] == row0)
    wide = own[3] - own[2] + 1
    part = f"{rows} rows" + ("" if wide == meta["d"] else f" and {wide} of {meta['d']} columns")
    why = (
        f"The grid of {launch.entry} has {grid} blocks of {threads} threads; each makes {part} of O of one head, "
        f"block {own[4]} rows {own[0]} to {own[1]}."
    )
    text = f"{launch.entry} is launched with {grid} blocks of {threads} threads. What does one block make?"
    right = f"{part[0].upper()}{part[1:]} of O, of one head"
    wrong = [
        "One row of O",
        f"All {meta['n']} rows of O, of one head",
        f"{threads} elements of O, one for each thread",
    ]
    if wide * rows == threads:
        wrong.pop()  # that is right too
    if rows == 1:
        wrong = wrong[1:]
    found = options("grid", text, right, wrong, why, view=view, veils=("sentence",)) if meta["n"] > rows else []
    others = [b for b in blocks if b[0] != row0]
    if others:
        other = others[len(others) // 2]
        why = (
            f"Rows {other[0]} to {other[1]} of O, columns {other[2]} to {other[3]}, are block {other[4]}'s: blocks are "
            f"numbered row tile by row tile, {len(blocks)} for this head."
        )
        key = {"tensor": "O", "query": [other[0], other[1]], "dim": [other[2], other[3]]}
        text = f"Click an element of O that block {other[4]} makes."
        found.append(Question("click_block", text, "click", key, why, view=view))
    return found


def _keys_read(run: Run, frames: Sequence[TilingFrame], meta: Any, of: dict[str, str], view: str) -> list[Question]:
    """What the block reads of K, and what that is over all blocks."""
    read = frames[-1]["bytes"].get(f"{of['K']} load", 0)
    k = picture.tensor_at(run.request, "K")
    whole = k.nbytes // axes.heads(k)
    tile = next((f["bytes"].get(f"{of['K']} load", 0) for f in frames if f["bytes"].get(f"{of['K']} load")), 0)
    if not read:
        return []
    rows, item = meta["rows"], k.itemsize
    share = "exactly this head's" if read == whole else f"{read / whole:.3g} times this head's"
    why = f"The probes logged {read:,} bytes of {of['K']}, {share} {whole:,}, for one tile of {rows} queries."
    tiles = len({b[0] for b in meta["blocks"]})
    why += f" The head has {count(tiles, 'query tile')}; each goes through the keys again."
    wrong = [tile, whole, rows * whole, meta["d"] * item, 2 * read]
    step = max(range(len(frames)), key=lambda n: frames[n]["bytes"].get(f"{of['K']} load", 0))
    text = f"How many bytes of {of['K']} does this kernel read from global memory for this one query tile?"
    return amounts("k_read", text, read, wrong, why, "bytes", step=step, view=view, veils=("sentence", "tabs"))


# ---- online softmax, where its own do not apply ----


def ordinary_row(frames: Sequence[Any], first_wrong: int | None, ordinary: bool, head_dim: int) -> list[Question]:
    """What a row keeps between tiles; and of a build that is broken on purpose, where that shows first."""
    found = []
    tiles = sorted({f["tile"] for f in frames if f["tile"] >= 0})
    if first_wrong is not None:
        frame = frames[first_wrong]
        names = {"max": "the max m", "rescale": "the rescale factor", "weights": "the weights", "sum": "the sum l"}
        names |= {"output": "O so far", "final": "the finished row", "scores": "the scores"}
        there = [names[f["group"]] for f in frames]
        step, place = first_wrong, f" in tile {frame['tile']}" if frame["tile"] >= 0 else ""
        why = f"Step {first_wrong + 1}{place}: {frame['sentence']}"
        text = "This build is broken on purpose. Which number is the first to be wrong by more than rounding?"
        found += options("first_wrong", text, names[frame["group"]], there, why, step=step, veils=VEILS)
    if not ordinary and len(tiles) > 1:
        keys = max(f["keys"] for f in frames)
        kept = 2 + head_dim
        why = (
            f"m, l and the {head_dim} numbers of O so far: {kept}. Every score is used in its tile and then gone, so "
            f"{keys} keys or a million make no difference."
        )
        text = (
            "After a tile the kernel goes on to the next. How many numbers of this row must it still know, of "
            f"{keys} keys?"
        )
        last = next(n for n, f in enumerate(frames) if f["tile"] == tiles[0] and f["group"] in ("output", "sum"))
        found += amounts("kept", text, kept, [keys, 2, keys + head_dim, 2 * head_dim], why, "numbers", step=last)
    if ordinary:
        keys = max(f["keys"] for f in frames)
        step = next((n for n, f in enumerate(frames) if f["group"] == "max"), 0)
        why = (
            f"The max of a row is known when all its {keys} scores are: they were written to memory and are read again."
        )
        text = "How many scores of this row must be there before the first weight can be computed?"
        found += amounts("before_max", text, keys, [1, head_dim, keys // 2, keys - 1], why, "scores", step=step)
    return found


# ---- paging ----


def pool(made: Stage) -> list[Question]:
    """Of the cache: what paging wastes and what contiguous slots would have."""
    frames, meta = made.frames, made.views[0].meta
    size, last = meta["size"], len(frames) - 1
    usage, sequences = frames[last]["usage"], frames[last]["sequences"]
    if not sequences:
        return []
    longest = max(sequences, key=lambda s: s["length"])
    pages = len(longest["table"])
    at = longest["length"] - 1
    entry, page = at // size, longest["table"][at // size]
    why = (
        f"Token {at} is in logical block {at} / {size} = {entry}; entry {entry} of {longest['name']}'s block table is "
        f"page {page}, slot {at % size} of it. The pages of the sequence are {', '.join(map(str, longest['table']))}."
    )
    text = (
        f"{longest['name']} has {longest['length']} tokens; a page has {size} slots. In which page does its token {at} "
        "lie?"
    )
    wrong = [entry, at // size + 1, *longest["table"], *(s["table"][-1] for s in sequences)]
    view = made.views[0].id
    found = amounts("which_page", text, page, wrong, why, step=last, view=view)
    why = (
        f"Pages in use have {usage['held']} slots, and {usage['used']} hold a token: {usage['slack']} are slack, "
        f"always less than a page for each sequence. With {meta['max_len']} slots reserved for each it would be "
        f"{usage['reserved']}."
    )
    text = (
        f"How many slots are held in pages after the last event, for {count(len(sequences), 'sequence')} of at most "
        f"{meta['max_len']} tokens?"
    )
    wrong = [usage["reserved"], usage["used"], pages * size, usage["held"] + size]
    veils = ("strip", "picture", "tabs")
    return [*found, *amounts("held", text, usage["held"], wrong, why, "slots", step=last, view=view, veils=veils)]


def walk(run: Run, frames: Sequence[WalkFrame], partition: int) -> list[Question]:
    """Of a walk: what the block table does to an access, the two phases, how a context is cut into partitions of so
    many tokens, and what query heads share."""
    paged = Paged(run.request)
    sequence, head = paged.place
    length, size, table = int(paging.lengths(run)[sequence]), paged.block_size, paging.pages_of(run, sequence)
    steps = [n for n, f in enumerate(frames) if "page" in f]
    if not steps:
        return []
    astray = [n for n in steps if frames[n]["page"] != frames[n]["logical"] and frames[n].get("role") == "k"] or steps
    step = astray[len(astray) // 2]
    now = frames[step]
    token, page = now["tokens"][0], now["page"]
    why = (
        f"Token {token} is in entry {token} / {size} = {now['logical']} of the block table, and that entry says page "
        f"{page}: its K is read from byte {now['base']:,} on."
    )
    text = (
        f"To score token {token} the kernel needs its key. It reads entry {now['logical']} of the block table. "
        "Which page does it go to?"
    )
    where: dict[str, Any] = {"step": step, "view": "walk", "veils": ("sentence", "strip")}
    found = amounts("indirect", text, page, [now["logical"], *table, page + 1], why, **where)
    found += _page_of(run, frames, [n for n in steps if n != step and frames[n].get("role") == "k"])
    extra, entries = len(steps), len(table)
    by_role = {role: sum(1 for n in steps if frames[n].get("role") == role) for role in ("k", "v")}
    if all(by_role.values()):
        first_v = next(n for n in steps if frames[n].get("role") == "v")
        why = (
            f"First K: {count(by_role['k'], 'page')} for {length} scores. Then the softmax over all of them. Only then "
            f"V: {count(by_role['v'], 'page')}, from step {first_v + 1} on. The weights must be known before a value "
            "can count."
        )
        text = (
            f"The walk has two phases: {by_role['k']} pages of K, and later {by_role['v']} pages of V. What lies "
            "between?"
        )
        right = f"The softmax over all {length} scores"
        wrong = [
            "A second block table, of the values",
            f"The softmax over the {size} scores of one page",
            "Nothing: K and V of a page are read together",
        ]
        found += options("phases", text, right, wrong, why, step=first_v, view="walk")
        why = (
            f"{entries} entries, each looked up once for K and once for V: {extra} look-ups of {2 * entries} that a "
            f"context of {length} tokens has."
        )
        text = (
            f"This context fills {count(entries, 'page')}. How many times does this walk look a page up in the block "
            "table, over both phases?"
        )
        found.append(Question("lookups", text, "number", extra, why, step=steps[-1], unit="look-ups", view="walk"))
    return [*found, *_cut(length, partition, steps[0]), *_shared(paged, head, frames, steps[0])]


def _page_of(run: Run, frames: Sequence[WalkFrame], steps: Sequence[int]) -> list[Question]:
    """A click on the page that holds a token, in the last of these steps."""
    if not steps:
        return []
    frame, size = frames[steps[-1]], Paged(run.request).block_size
    first, last = frame["tokens"]
    text = f"Click the page of the pool in which token {last} lies."
    why = (
        f"Page {frame['page']} holds tokens {first} to {last}: token {last} is in entry {last} / {size} = "
        f"{frame['logical']} of the block table, and that entry says page {frame['page']}."
    )
    key = {"token": [first, last], "part": "pool"}
    return [Question("page_of", text, "click", key, why, step=steps[-1], view="walk", veils=("sentence", "strip"))]


def _cut(length: int, partition: int, step: int) -> list[Question]:
    parts = -(-length // partition)
    why = (
        f"{length} tokens in partitions of {partition}: {parts}, a block each, and a second launch that puts their "
        f"sums together. V1 has one block for all {length} tokens. V1 beside V2 shows both on one clock."
    )
    text = (
        f"PagedAttention V2 cuts a long context into partitions of {partition} tokens, each walked by a block of its "
        f"own. How many blocks would walk this one of {length} tokens?"
    )
    return [Question("cut", text, "number", parts, why, step=step, unit="blocks", view="walk")]


def _shared(paged: Paged, head: int, frames: Sequence[WalkFrame], step: int) -> list[Question]:
    heads, kv_heads = paged.num_heads, paged.num_kv_heads
    mine, own = paged.kv_head_of(head), heads // kv_heads
    if own == 1:
        return []
    first = frames[step]["page"] * kv_heads * paged.page_bytes
    why = (
        f"Query head {head} reads from byte {frames[step]['base']:,} of the cache, {frames[step]['base'] - first:,} "
        f"bytes into the page: KV head {mine}. {heads} query heads over {kv_heads} KV heads make {own} for each, so "
        f"the cache holds {own} times fewer bytes than with a KV head for every query head."
    )
    text = (
        f"{heads} query heads share {kv_heads} KV heads, and this walk is query head {head}'s. How many query heads "
        "read these very bytes of K and V?"
    )
    return [Question("grouped", text, "number", own, why, step=step, unit="query heads", view="walk")]


def partitions(made: Stage, size: int) -> list[Question]:
    """How V2 splits a long context, and what the pieces need to be put together. size: tokens of a partition."""
    meta: PartitionsMeta = made.views[0].meta
    parts, length, view = meta["parts"], meta["length"], made.views[0].id
    frames = made.frames
    done = next((n for n, f in enumerate(frames) if f["reduce"] is not None), len(frames) - 1)
    spans = ", ".join(f"{p['first']} to {p['end'] - 1}" for p in parts[:4]) + (" ..." if len(parts) > 4 else "")
    why = (
        f"{length} tokens in partitions of {size} make {len(parts)}: tokens {spans}. Each has a block of its own; "
        "V1 has one block for all."
    )
    text = (
        f"V2 cuts this context of {length} tokens into partitions of {size}. How many blocks walk it at the same time?"
    )
    veils = ("sentence", "strip", "picture", "tabs")
    found = [Question("blocks", text, "number", len(parts), why, unit="blocks", view=view, veils=veils)]
    if len(parts) > 1:
        top = max(parts, key=lambda p: p["weight"])
        low = min(parts, key=lambda p: p["weight"])
        m = meta["v2"]["m"]
        factor = f"e^({low['m']:.4g} - {m:.4g}) = {low['weight']:.4g}".replace("- -", "+ ")
        why = (
            f"Each partition counted against its own max: partition {top['partition']} against {top['m']:.4g}, "
            f"partition {low['partition']} against {low['m']:.4g}. With m = {m:.4g} of all, the latter weighs {factor}."
        )
        right = "Its own max m, its own sum l, and its part of O"
        wrong = ["Its scores", "Its part of O only: they add up", "Nothing: the blocks wait for one another"]
        text = "The blocks of V2 know nothing of one another. What must each leave behind for the second launch?"
        found += options("combine", text, right, wrong, why, step=done, view=view, veils=(*veils, "headline"))
    return found


def heads(panels: Sequence[HeadsPanel], num_heads: int, view: str = "heads") -> list[Question]:
    """What grouped queries save. panels: ratios of heads, each with the bytes of its own run."""
    shared = next((p for p in panels if 1 < p["kv_heads"] < num_heads), None)
    shared = shared or next((p for p in panels if p["kv_heads"] < num_heads), panels[0])
    kv, store = shared["kv_heads"], shared["links"][0][1]
    readers = [str(q) for q, s in shared["links"] if s == store]
    why = (
        f"As logged, KV head {store} is read by query heads {', '.join(readers)}: {num_heads} over "
        f"{count(kv, 'KV head')}."
    )
    text = f"{num_heads} query heads and {count(kv, 'KV head')}. How many query heads read the same KV head?"
    wrong = [kv, num_heads, 1, 2 * len(readers)]
    veils = ("sentence", "tabs")
    found = amounts("sharing", text, len(readers), wrong, why, "query heads", view=view, veils=veils)
    full, least = (max(panels, key=lambda p: p["held"]), min(panels, key=lambda p: p["held"]))
    if full["held"] > least["held"]:
        a, b = full["held"], least["held"]
        why = (
            f"The runs hold {a:,} bytes of K and V with {count(full['kv_heads'], 'KV head')} and {b:,} with "
            f"{least['kv_heads']}: {a / b:.3g} times fewer bytes to keep, and each is read by more heads."
        )
        text = (
            f"With {count(full['kv_heads'], 'KV head')} these tokens fill {a:,} bytes of K and V. How many with "
            f"{count(least['kv_heads'], 'KV head')} for the same {num_heads} query heads?"
        )
        wrong = [a, a // 2, b // 2, a - b]
        found += amounts("saved", text, b, wrong, why, "bytes", view=view, veils=(*veils, "strip", "picture"))
    return found


def page_reads(found: Sequence[Reads], view: str) -> list[Question]:
    """How often a page is read, by one kernel for all its query heads and by another for each of them."""
    shared = max(range(len(found)), key=lambda n: float(found[n].times.max()))
    one = found[shared]
    page = int(one.times.argmax())
    who = sum(1 for bytes_ in one.asked[:, page] if bytes_)
    asked_for, distinct = int(one.page_asked[page]), int(one.page_distinct[page])
    veils = ("sentence", "strip", "picture", "tabs")
    text = (
        f"{one.kernel} with {one.heads}: {count(who, 'reader')} {'reads' if who == 1 else 'read'} page {page}. How "
        "many times is each byte of K and V asked for that lies there?"
    )
    why = f"{asked_for:,} bytes of it are asked for and {distinct:,} differ: {often(asked_for / distinct)} each."
    wrong = [1, who // 2, 2 * who, who + 1]
    where: dict[str, Any] = {"step": shared, "view": view}
    times = asked_for // distinct
    last = amounts("page_times", text, times, wrong, why, "times", **where, veils=veils)
    made: list[Question] = []
    others = [n for n, other in enumerate(found) if other.heads == one.heads]
    totals = {n: int(found[n].page_asked.sum()) for n in others}
    least = min(others, key=lambda n: totals[n])
    if totals[least] < totals[shared]:
        low = found[least]
        text = (
            f"With {one.heads}, {one.kernel} asks for {totals[shared]:,} bytes of K and V. Which kernel asks for the "
            "fewest of the same cache?"
        )
        why = (
            f"{low.kernel} asks for {totals[least]:,} bytes, {figure(totals[shared] / totals[least])} times fewer: "
            f"its busiest page is read {often(low.times.max())}, where {one.kernel} reads one {often(one.times.max())}."
        )
        same = [found[n].kernel for n in others if totals[n] == totals[least]]
        wrong_kernels = [found[n].kernel for n in others if found[n].kernel not in same]
        told = ("sentence", "strip", "tabs")  # the picture says how often, not how much
        made += options("fewest", text, low.kernel, wrong_kernels, why, step=least, view=view, veils=told)
    busiest = [n for n, mean in enumerate(one.times) if mean == one.times.max()]
    if len(busiest) == 1 or busiest == list(range(busiest[0], busiest[-1] + 1)):
        text = f"Click a page that {one.kernel} with {one.heads} reads more often than any other, in its own row."
        why = f"Page {page}: each byte {often(one.times.max())}."
        key = {"row": shared, "page": [busiest[0], busiest[-1]]}
        if len(busiest) < int((one.most > 0).sum()):
            made.append(Question("busiest", text, "click", key, why, **where, veils=("sentence", "strip")))
    return [*made, *last]  # which veils the picture, so it does not come first


def ranges(made: Stage) -> list[Question]:
    """Of a work list: how equal its ranges are, and how the pieces of a sequence become one."""
    meta, view = made.views[0].meta, made.views[0].id
    own, units, name = meta["lists"][-1], meta["units"], meta["names"][meta["sequence"]]
    pages, cut = len(own["cells"]), own["ranges"]
    longest = max(sum(u[3] for u in own["units"] if u[1] == r) for r in range(cut))
    veils = ("sentence", "strip", "picture", "tabs")
    text = (
        f"{count(pages, 'page')} stand end to end and are cut into {count(cut, 'range')} that are equal within a page. "
        "How many pages has the longest?"
    )
    why = f"{pages} / {cut} = {pages / cut:.4g}, so no range has more than {longest}: no block waits long for another."
    most = max(sum(1 for c in own["cells"] if c[0] == s) for s in {c[0] for c in own["cells"]})
    wrong = [most, pages, longest + 1, cut]
    counted = ("sentence", "strip", "tabs")  # in the picture the pages of a range can be counted
    found = amounts("longest", text, longest, wrong, why, "pages", step=0, view=view, veils=counted)
    if len(units) > 1 and "weight" in units[0]:
        low = min(units, key=lambda u: u["weight"])
        step = next(n for n, f in enumerate(made.frames) if f.get("merged"))
        text = (
            f"{name} is in {len(units)} pieces. Partition {low['partition']} has m = {low['m']:.4g}, and the largest m "
            f"of all is {meta['merged']['m']:.4g}. By what is its l multiplied when they are merged?"
        )
        power = f"e^({low['m']:.4g} - {meta['merged']['m']:.4g}) = {low['weight']:.4g}".replace("- -", "+ ")
        why = f"{power}; the trace has it as its weight."
        key = float(f"{low['weight']:.3g}")
        found.append(
            Question("weight", text, "number", key, why, step=step, view=view, tolerance=MEASURED, veils=veils)
        )
    return found


def serving(made: Stage) -> list[Question]:
    """Of requests that are served: what a step writes, what one that waits needs, and what would be reserved."""
    meta, frames = made.views[0].meta, made.frames
    view, size = made.views[0].id, meta["size"]
    prefills = [n for n, frame in enumerate(frames) if "prefilled:" in frame["sentence"]]
    both = [n for n in prefills if "a token" in frames[n]["sentence"]]
    step = max(both or prefills, key=lambda n: len(frames[n]["new"]))
    written = len(frames[step]["new"])
    starts = [visit for visit in meta["visits"] if visit["start"] == step and visit["prompt"]]
    prompts = sum(visit["prompt"] for visit in starts)
    decoding = written - prompts
    names, one = glossary.listed([visit["name"] for visit in starts]), len(starts) == 1
    text = (
        f"In step {step}, {names} {'is' if one else 'are'} prefilled with {count(prompts, 'token')}, and "
        f"{count(decoding, 'sequence')} {'decodes' if decoding == 1 else 'decode'}. How many tokens' K and V does the "
        "step write?"
    )
    why = (
        f"{prompts} of the {'prompt' if one else 'prompts'}, all at once, and one for each sequence that decodes: "
        f"{prompts} + {decoding} = {written}."
    )
    wrong = [prompts, decoding, prompts * max(2, decoding), written + decoding]
    veils = ("sentence", "strip", "tabs")
    found = amounts("written", text, written, wrong, why, "tokens", step=step, view=view, veils=veils)
    last = len(frames) - 1
    usage, there = frames[last]["usage"], frames[last]["sequences"]
    own = max(there, key=lambda s: len(s["table"]) * size - s["length"])
    empty = len(own["table"]) * size - own["length"]
    text = (
        f"After the last step {own['name']} has {count(own['length'], 'token')} in {count(len(own['table']), 'page')} "
        f"of {size} slots. How many slots of its last page are empty?"
    )
    why = (
        f"{len(own['table'])} x {size} = {len(own['table']) * size} slots, {own['length']} of them filled. All last "
        f"pages together waste {count(usage['slack'], 'slot')}; {meta['max_len']} reserved for each would leave "
        f"{usage['empty']} empty."
    )
    wrong = [size, own["length"] % size, meta["max_len"] - own["length"], usage["slack"]]
    found += amounts("last_page", text, empty, wrong, why, "slots", step=last, view=view, veils=(*veils, "picture"))
    pool = len(frames[0]["free"]) * size
    most = max(len(frame["sequences"]) for frame in frames)
    text = (
        f"The pool has {pool} slots. A server without pages reserves {meta['max_len']} for each sequence. How many can "
        "it hold at once?"
    )
    pages = f"With pages it holds up to {count(most, 'sequence')} at once."
    why = f"{pool} / {meta['max_len']}: {pool // meta['max_len']}. {pages}"
    wrong = [most, len(meta["visits"]), pool // meta["max_len"] + 1]
    return [*found, *amounts("at_once", text, pool // meta["max_len"], wrong, why, "sequences", view=view, veils=veils)]


# ---- banks and sectors ----


def banks(side: BankSide) -> list[Question]:
    """Of the first access of a side: what its first wavefront serves, and in which bank a lane's word lies."""
    access = side["accesses"][0] if side["accesses"] else None
    if access is None or not access["cells"]:
        return []
    first = [cell for cell in access["cells"] if cell[2] == 0]
    lanes, words = len({cell[0] for cell in first}), len({cell[3] for cell in first})
    used = len({cell[1] for cell in access["cells"]})
    why = (
        f"The first wavefront serves {count(lanes, 'lane')} of {access['active']} with "
        f"{count(words, 'different word')}, at most one of each bank. The access takes "
        f"{count(access['wavefronts'], 'wavefront')}, at best {access['ideal']}."
    )
    text = (
        f"{count(access['active'], 'lane')} ask for {access['bytes']} bytes each of {access['tensor']}, in {used} of "
        "the 32 banks. How many lanes does the first wavefront serve?"
    )
    veils = ("sentence", "strip")
    served = Question("first_wave", text, "number", lanes, why, unit="lanes", view="banks", veils=(*veils, "picture"))
    lane = access["cells"][-1][0]
    word = min(cell[3] for cell in access["cells"] if cell[0] == lane)
    bank = word % model.BANKS
    wanted = len({cell[3] for cell in access["cells"] if cell[1] == bank})
    where = f", with {side['name']}" if side["name"] else ""
    text = (
        f"Lane {lane} asks for {access['tensor']} from byte {word * model.WORD:,} on{where}. Click any word of the "
        "bank that serves that byte."
    )
    why = (
        f"Bank {bank}: byte {word * model.WORD:,} is in word {word:,}, and {word:,} modulo {model.BANKS} is {bank}. "
        f"The access wants {count(wanted, 'different word')} of it."
    )
    return [served, Question("bank_of", text, "click", {"side": 0, "bank": bank}, why, view="memory", veils=veils)]


def sectors(requests: Sequence[SectorRequest], veils: Sequence[str], view: str = "sectors") -> list[Question]:
    """Of the request that uses its sectors worst: how much of what is moved anybody asked for, and what nobody did.
    veils: of Question, where a picture or a text says how much."""
    if not requests:
        return []
    step = min(range(len(requests)), key=lambda n: requests[n]["used"] / requests[n]["sectors"])
    request = requests[step]
    moved, used = request["sectors"] * model.SECTOR, request["used"]
    lanes, asked = request["active"], request["active"] * request["bytes"]
    again = f", asked for {asked / used:.3g} times over" if asked > used else ""
    why = (
        f"{count(request['sectors'], 'sector')} of {model.SECTOR} bytes move. The lanes ask for {used:,} different "
        f"bytes{again}: {100 * used / moved:.3g} per cent of what is moved."
    )
    text = (
        f"Step {step + 1}: {count(lanes, 'lane')} ask for {request['bytes']} bytes each of {request['tensor']}, and "
        f"{moved:,} bytes are moved. How many of these does any lane want?"
    )
    wrong = [asked, moved, request["bytes"], moved // 2, used // 2]
    where: dict[str, Any] = {"step": step, "view": view}
    found = amounts("wanted", text, used, wrong, why, "bytes", **where, veils=veils)
    return [*found, *_unused(request, where)]


def _unused(request: SectorRequest, where: dict[str, Any]) -> list[Question]:
    """A click on bytes that are moved for nothing: of the first sector in which they are one run."""
    size = request["bytes"]
    wanted = {byte for offset in request["offsets"] if offset >= 0 for byte in range(offset, offset + size)}
    for sector in sorted({byte // model.SECTOR for byte in wanted}):
        every = range(sector * model.SECTOR, (sector + 1) * model.SECTOR)
        free = [byte for byte in every if byte not in wanted]
        if free and free[-1] - free[0] + 1 == len(free):
            text = (
                f"Step {where['step'] + 1}: sector {sector:,}, bytes {every[0]:,} to {every[-1]:,} of "
                f"{request['tensor']}, is moved whole. Click a byte of it that no lane asks for."
            )
            why = (
                f"Bytes {free[0]:,} to {free[-1]:,} of {request['tensor']}: no lane asks for them, so "
                f"{count(len(free), 'byte')} moved for nothing."
            )
            return [Question("unused", text, "click", {"side": 0, "byte": [free[0], free[-1]]}, why, **where)]
    return []


# ---- occupancy ----


def occupancy(
    found: Sequence[Occupancy], most_warps: int, gpu: str, step: int, view: str = "multiprocessor"
) -> list[Question]:
    """What limits the blocks of the last launch, and how many warps that leaves."""
    o = found[-1]
    where: dict[str, Any] = {"step": step, "view": view, "veils": ("sentence", "strip", "picture", "tabs", "side")}
    limits = ", ".join(f"{name} {blocks}" for name, blocks in o.limits.items())
    why = (
        f"A block of {o.entry} takes {o.threads} threads of {o.registers} registers and {o.shared_bytes:,} bytes of "
        f"shared memory. Blocks that each allows: {limits}. The least counts: {o.blocks}."
    )
    made: list[Question] = []
    if len(o.limiters) == 1:
        text = (
            f"A block of {o.entry} has {o.threads} threads of {o.registers} registers and {o.shared_bytes:,} bytes "
            f"of shared memory. What limits how many fit on a multiprocessor of {gpu}?"
        )
        made += options("limit", text, o.limiters[0], list(o.limits), why, **where)
    text = f"How many blocks of {o.entry} does a multiprocessor of {gpu} hold at once?"
    made.append(Question("blocks", text, "number", o.blocks, why, unit="blocks", **where))
    why = (
        f"{count(o.blocks, 'block')} of {count(-(-o.threads // 32), 'warp')}: {o.warps} of {most_warps} warps, "
        f"{o.percent:.0f} per cent."
    )
    text = f"A multiprocessor of {gpu} can hold {most_warps} warps. How many does it hold of {o.entry}?"
    made.append(Question("warps", text, "number", o.warps, why, unit="warps", **where))
    return made


def timeline(schedule: Schedule, frames: Sequence[GridFrame], view: str = "grid") -> list[Question]:
    """Of a grid whose blocks' times are known: how many run at once, and which ends last."""
    table = schedule.table
    begun, ended = np.sort(table.start), np.sort(table.end)
    running = np.searchsorted(begun, begun, "right") - np.searchsorted(ended, begun, "right")
    at_once, moment = int(running.max()), begun[running.argmax()]
    used = int(table.sm.nunique())
    text = f"{count(len(table), 'block')} ran on {count(used, 'multiprocessor')}. How many at most at the same time?"
    why = (
        f"At the busiest moment {at_once:,} of the {len(table):,} blocks ran, {at_once / used:.3g} on each "
        "multiprocessor on average."
    )
    wrong = [used, len(table), at_once // 2, 2 * at_once, used // 2]
    step = max((n for n, frame in enumerate(frames) if frame["at"] <= moment), default=0)
    veils = ("sentence", "strip", "headline", "side", "tabs")
    found = amounts("at_once", text, at_once, wrong, why, "blocks", step=step, view=view, veils=veils)
    last = table[table.end == table.end.max()]
    if len(last) == 1 and len(table) > 1:
        block = last.iloc[0]
        took, middle = block.end - block.start, float((table.end - table.start).median())
        why = (
            f"Block {int(block.block):,} ends last, at {block.end:,.1f} {schedule.unit}. It ran {took:,.1f} "
            f"{schedule.unit}; the median block ran {middle:,.1f}."
        )
        key = {"launch": int(block.launch), "block": int(block.block)}
        text, step = "Click the block that ends last.", len(frames) - 1
        found.append(Question("ends_last", text, "click", key, why, step=step, view=view, veils=("sentence",)))
    return found


# ---- compare ----


def compare(runs: Sequence[Run], made: Stage, row: Any = None) -> list[Question]:
    """Which side moves more and which is faster. row: of compare_times.times, None without a time.

    The sides may trace different amounts of work, so what is counted is divided by it.
    """
    found: list[Question] = []
    names = [run.request.kernel.name for run in runs]
    sides = {"A": f"A: {names[0]}", "B": f"B: {names[1]}", "even": "Both the same"}
    where: dict[str, Any] = {"step": len(made.frames) - 1, "veils": ("strip", "headline", "tabs")}
    (a, per), (b, per_b) = (_traced(run.request) for run in runs)
    if per == per_b and a and b and runs[0].request.problem == runs[1].request.problem:
        found += _more_bytes([_moved(run) for run in runs], (a, b), per, sides, where)
        costs = [int(model.requests(run.trace, space="shared").costs.wavefronts.sum()) for run in runs]
        if all(costs):
            each = costs[0] / a, costs[1] / b
            text = (
                f"A's accesses of shared memory take {figure(each[0])} wavefronts for each {per}. How many do B's take?"
            )
            why = (
                f"Derived from the logged addresses: A {costs[0]:,} for {a:,}, B {costs[1]:,} for {b:,}. For each "
                f"{per} that is {figure(each[0])} and {figure(each[1])}, {figure(each[1] / each[0])} times as many."
            )
            key = float(figure(each[1]).replace(",", ""))
            more = {**where, "unit": "wavefronts", "tolerance": MEASURED}
            found.append(Question("wavefronts", text, "number", key, why, **more))
    if row is not None and not pair_times.is_even(row):
        faster, slower, times = ("B", "A", row.ratio) if row.ratio > 1 else ("A", "B", 1 / row.ratio)
        builds = [
            time_verdict.build_text(run.request.kernel, pair_times.settings_of(row, side))
            for side, run in enumerate(runs)
        ]
        text = (
            f"Timed were A as {builds[0]} and B as {builds[1]}, at {pair_times.problem_said(row)}, with "
            f"{row.l2} L2. How many times as fast as {slower} is {faster}?"
        )
        more = {**where, "veils": ("headline", "tabs"), "unit": "times", "tolerance": MEASURED}
        why = time_verdict.ratio_sentence(row)
        found.append(Question("faster", text, "number", round(float(times), 2), why, **more))
    return found


def _traced(request: Any) -> tuple[int, str]:
    """How much of the work a trace is of, and what that counts: queries; with a causal mask, where a later query meets
    more keys, pairs of query and key; of other kernels the plan's items."""
    if not tiled.accepts(request.kernel):
        return request.scope.count, request.plan.item
    if request.problem.causal:
        return traffic.pairs(request, False), "pair of query and key"
    _, first, end = picture.query_rows(request)
    return end - first, "query"


def _more_bytes(
    moved: Sequence[int], traced: tuple[int, int], per: str, sides: dict[str, str], where: dict[str, Any]
) -> list[Question]:
    """Which side moves more bytes for as much work. moved, traced: of both."""
    a, b = moved[0] * traced[1], moved[1] * traced[0]  # what each would move for as much work
    right = "even" if a == b else "AB"[b > a]
    each = [n / by for n, by in zip(moved, traced)]
    text = f"Which side moves more bytes to and from global memory for each {per}?"
    why = (
        f"As logged, A moves {moved[0]:,} bytes for {traced[0]:,} and B {moved[1]:,} for {traced[1]:,}. For each {per} "
        f"that is {figure(each[0])} and {figure(each[1])}"
    )
    why += "." if right == "even" else f": {right} moves {figure(max(a, b) / max(1, min(a, b)))} times as many."
    order = list(sides.values())
    return options("bytes", text, sides[right], order, why, order, **where)


def _moved(run: Run) -> int:
    """Bytes of global memory that the run's trace logs."""
    table = run.trace.frame("space", "bytes", "event")
    return int(table[table.space == "global"].bytes.sum())
