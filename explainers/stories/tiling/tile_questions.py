"""Questions about a query tile: its reuse in shared memory, its bytes, and the block's part of O."""

from collections.abc import Sequence

import numpy as np

from explainers.stories.tiling.frames import MatricesMeta, TilingFrame
from explainers.story import axes, glossary, picture
from explainers.story.glossary import count
from explainers.story.questions import Where, amounts, options
from explainers.story.stage import Question, Stage
from kernels.core.launch import Launch
from kernels.run.results import Run


def query_tile(run: Run, made: Stage) -> list[Question]:
    """Questions about the reuse of Q, the keys read by the block, the scores and weights, and the block's part of O."""
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
    """A question about the uses of each element of the query tile in shared memory."""
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
    where: Where = {"step": step, "view": made.views[0].id, "veils": ("sentence",)}
    return [Question("reuse", text, "number", keys, why, unit="products", **where)]


def _stored(
    run: Run, frames: Sequence[TilingFrame], meta: MatricesMeta, of: dict[str, str], view: str
) -> list[Question]:
    """A question about the bytes of the scores S and the weights P in global memory."""
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
    where: Where = {"step": step, "view": view, "veils": ("sentence", "strip", "headline", "tabs")}
    return amounts("never_stored", text, stored, [0, one, 2 * one, o], why, "bytes", **where)


def _whose(launch: Launch, meta: MatricesMeta, view: str) -> list[Question]:
    """Questions about the rows of a block: grid, blocks and threads."""
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
        wrong.pop()  # that answer is right too
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


def _keys_read(
    run: Run, frames: Sequence[TilingFrame], meta: MatricesMeta, of: dict[str, str], view: str
) -> list[Question]:
    """A question about the bytes of K for one block and for all blocks."""
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
