"""Questions about a query tile: the place of its scores, the reads of K and Q, and the block's part of O."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from explainers.models import tiling
from explainers.models.frames import MatricesMeta, TilingFrame
from explainers.models.tiling import bytes_stored, never_stored, scores_size
from explainers.story import picture
from explainers.story.glossary import count, short
from explainers.story.questions import Where, idea
from explainers.story.stage import Question, Stage
from kernels.build.occupancy import MACHINES
from kernels.core.launch import Launch
from kernels.run.results import Run

LONG = 65_536  # tokens of a long context
SHARED_KB = MACHINES["sm_90"].shared_bytes // 1000  # of an SM of an H200


class Tile(NamedTuple):
    """A query tile as the questions see it.

    of: part of the picture -> the probes' name of its tensor.
    view: the id of the picture.
    met: the number of keys of each row.
    """

    run: Run
    frames: Sequence[TilingFrame]
    meta: MatricesMeta
    of: dict[str, str]
    view: str
    met: np.ndarray

    def read(self, part: str) -> int:
        """The bytes of a part that the blocks read from global memory."""
        return self.frames[-1]["bytes"].get(f"{self.of[part]} load", 0)

    def first(self, part: str, kind: str) -> int:
        """The first step with a load or a store of a part, or the last step."""
        key = f"{self.of.get(part, part)} {kind}"
        return next((n for n, f in enumerate(self.frames) if key in f["bytes"]), len(self.frames) - 1)

    @property
    def width(self) -> int:
        """The bytes of a row of K."""
        return self.meta["d"] * picture.tensor_at(self.run.request, "K").itemsize

    @property
    def scores_step(self) -> int:
        """The first step with scores, or step 0."""
        return next((n for n, f in enumerate(self.frames) if f["scores"]), 0)


def query_tile(run: Run, made: Stage) -> list[Question]:
    """The questions about a query tile. Their keys come from the trace."""
    of = {place: symbol for symbol, place in made.views[0].meta["places"].items()}
    met = np.asarray(made.views[0].columns["s_logged"]).sum(axis=1)
    tile = Tile(run, made.frames, made.views[0].meta, of, made.views[0].id, met)
    last, block = len(tile.frames) - 1, _block(run.request.plan.launches[-1], tile)
    if not met.any():  # a kernel without a logged score
        return block
    return [
        *_place_of_scores(tile),
        *_growth(tile),
        *_reads_of_k(tile),
        *_q_shared(tile),
        *never_stored(run, step=last, view=tile.view, veils=("headline",)),
        *block,
    ]


def _place_of_scores(tile: Tile) -> list[Question]:
    """A question about the memory of the scores between the two products."""
    stored, size = bytes_stored(tile.run), scores_size(tile.run)
    written = stored.get("S", 0) + stored.get("P", 0)
    globally = "In global memory, until the row is done"
    briefly = "On the chip, only as long as their tile"
    wholly = "On the chip, for all keys at once"
    long = size / tile.meta["keys"] * LONG / 1e6
    too_many = (
        f"These scores would take {size:,} bytes. With {LONG:,} tokens they would take {short(long, 3)} MB, and an SM "
        f"of an H200 has {SHARED_KB} kB of shared memory."
    )
    text = "The block has computed scores. How does the kernel keep them?"
    step = tile.first("S", "store") if written else tile.scores_step
    hides = _amounts_hidden(tile) if written else []
    where: Where = {
        "step": step,
        "view": tile.view,
        "veils": ("headline", "tabs"),
        "hides": [f"writes {part} to global memory" for part in ("S", "P")] + ["S and P in global memory"] + hides,
        "covers": [{"tensor": "S"}],
        "shows": {"tensor": "S", "query": tile.meta["row0"], "key": 0},
    }
    if written:
        why = (
            f"The block writes {stored.get('S', 0):,} bytes of S and {stored.get('P', 0):,} bytes of P. "
            "Later steps read them back."
        )
        early = "A weight needs the max of the whole row. This kernel finds it after all tiles, so it keeps each score."
        return [idea("never_stored", text, globally, {briefly: early, wholly: too_many}, why, **where)]
    why = f"The trace has no store of S or P. The block writes only O: {stored.get('O', 0):,} bytes."
    rare = f"S and P would take {2 * size:,} bytes there, and the trace has no such store."
    return [idea("never_stored", text, briefly, {globally: rare, wholly: too_many}, why, **where)]


def _amounts_hidden(tile: Tile) -> list[str]:
    """The amounts of S and P in the strip, as texts."""
    amounts = {tiling.scores_stored(frame, tile.meta["places"]) for frame in tile.frames}
    amounts |= {sum(n for name, n in f["bytes"].items() if name.endswith("store")) for f in tile.frames}
    return [f"{n:,}" for n in sorted(amounts - {0})]


def _growth(tile: Tile) -> list[Question]:
    """A question about the scores of a longer context, for a kernel that stores them."""
    n, keys = tile.meta["n"], tile.meta["keys"]
    stored = bytes_stored(tile.run).get("S", 0)
    if not stored or n != keys or tile.meta["causal"]:
        return []
    item = stored // (len(tile.met) * keys)
    text = "The text becomes twice as long. How many scores does the kernel store then?"
    right = "Four times as many"
    wrong = {
        "Twice as many": "Each row gets twice as many scores, and there are also twice as many rows.",
        "The same number": f"Each token has a score with every token: now {n:,} times {keys:,}.",
        "Eight times as many": "S has two sides, not three: queries and keys.",
    }
    ordered = ["The same number", "Twice as many", right, "Eight times as many"]
    why = (
        f"S is a square: every token meets every token. At {LONG:,} tokens, S of one head takes "
        f"{short(LONG * LONG * item / 1e9, 2)} GB."
    )
    where: Where = {
        "step": tile.first("S", "store"),
        "view": tile.view,
        "shows": {"tensor": "S", "query": tile.meta["row0"], "key": 0},
    }
    return [idea("growth", text, right, wrong, why, ordered, **where)]


def _reads_of_k(tile: Tile) -> list[Question]:
    """A question about the reads of each byte of K from global memory."""
    of_step = tiling.times_of_k(tile.frames, tile.of["K"], tile.width)
    times, rows, threads = of_step[-1], len(tile.met), tile.run.request.plan.launches[0].threads
    if not times or rows < 2:
        return []
    text = (
        f"A block of {threads:,} threads works together on {rows} queries. "
        "How often does it ask global memory for each byte of K?"
    )
    read, own = tile.read("K"), round(tile.read("K") / times)
    shared = times < 1.5

    def said(number: float, of: str) -> str:
        return f"{short(number, 3)} times: once for each {of}"

    once, per_query, per_thread = "Once: all threads use one copy", said(rows, "query"), said(threads, "thread")
    tiles = len({f["tile"] for f in tile.frames if f["scores"]})
    per_tile = said(tiles, "key tile")
    wrong = {
        per_tile: "Each key tile has its own keys. No key is in two tiles.",
        per_thread: "A thread asks only for the keys of its own scores.",
    }
    wrong = {option: reason for option, reason in wrong.items() if not option.startswith("1 times")}
    if shared:
        wrong = {per_query: "So it is without tiles. Here all queries use the copy on the chip.", **wrong}
        why = f"Each block reads {read:,} bytes of K, each once. It would read {rows} times as many without the copy."
        right = once
    else:
        right = per_query if abs(times - rows) < 0.5 else said(times, "query that sees the key")
        wrong = {once: "The threads share nothing here. Each query fetches the key for itself.", **wrong}
        why = (
            f"The threads ask for {read:,} bytes of K: the same {own:,} bytes again and again. "
            "Lanes that want the same bytes share a request, and caches can answer the rest."
        )
    wrong = {option: reason for option, reason in wrong.items() if option.split()[0] != right.split()[0]}
    ordered = [once, *sorted({right, *wrong} - {once}, key=lambda option: float(option.split()[0].replace(",", "")))]
    where: Where = {
        "step": max(n for n, f in enumerate(tile.frames) if f["scores"]),
        "view": tile.view,
        "veils": ("headline", "tabs"),
        "hides": sorted({tiling.times_said(n) for n in of_step if n}),
        "shows": {"tensor": "K", "key": 0, "dim": 0},
    }
    return [idea("k_read", text, right, wrong, why, ordered, **where)]


def _q_shared(tile: Tile) -> list[Question]:
    """The knowledge check on the query in shared memory."""
    q = tile.of["Q"]
    step = next((n for n, f in enumerate(tile.frames) if q in f["resident"] and f["resident"][q]["rects"]), None)
    keys, read, tiles = int(tile.met[-1]), tile.read("Q"), len({b[0] for b in tile.meta["blocks"]})
    if step is None or keys < 2 or not read:
        return []
    text = "The block copies its queries into shared memory before it computes. Why does that pay?"
    right = "Each number is used for many keys, so one copy serves many reads"
    wrong = {
        "Other blocks can then read them too": "Shared memory belongs to one block. "
        f"The head has {count(tiles, 'query tile')}, and each block copies its own.",
        "Global memory has no room for them": "It has: Q is there from the start, with all other inputs.",
        "A copy makes even a single read faster": "The copy itself is a read. One later read would gain nothing.",
    }
    row = tile.meta["d"] * picture.tensor_at(tile.run.request, "Q").itemsize
    anew, copies = int(tile.met.sum()) * row, read / (len(tile.met) * row)
    served = f"all {keys} keys" if copies < 1.5 else f"the {keys / copies:.0f} keys of a tile"
    why = f"One copy serves {served}: the block reads {read:,} bytes of Q. Read for each key, it would be {anew:,}."
    shows = {"tensor": "Q", "query": tile.meta["row0"], "dim": 0}
    where: Where = {"step": step, "view": tile.view, "veils": ("headline",), "shows": shows}
    return [idea("check_q_shared", text, right, wrong, why, **where)]


def _block(launch: Launch, tile: Tile) -> list[Question]:
    """A question about a block's part of the output."""
    blocks, row0, n, d = tile.meta["blocks"], tile.meta["row0"], tile.meta["n"], tile.meta["d"]
    rows = blocks[0][1] - blocks[0][0] + 1
    if n <= rows:
        return []
    own = next(b for b in blocks if b[0] == row0)
    wide = own[3] - own[2] + 1
    part = f"{count(rows, 'row')}" + ("" if wide == d else f" and {wide} of {d} columns")
    right = f"{part} of O, of one head"
    wrong = {
        f"All {n} rows of O, of one head": f"One block would then do all the work. The head has {len(blocks)} blocks.",
        "One row of O": "A copied tile of K would then serve one query only.",
        f"{launch.threads} numbers of O, one for each thread": f"Its part has {rows * wide:,} numbers.",
    }
    if rows == 1:
        del wrong["One row of O"]
    if wide * rows == launch.threads:
        del wrong[f"{launch.threads} numbers of O, one for each thread"]
    why = f"Block {own[4]} makes rows {own[0]} to {own[1]}. The next block makes the next rows."
    text = f"A block has {launch.threads} threads. Which part of the output does one block make?"
    shows = {"tensor": "O", "query": row0, "dim": own[2]}
    where: Where = {"view": tile.view, "covers": [{"tensor": "O"}], "shows": shows, "veils": ("sentence", "headline")}
    return [idea("grid", text, right, wrong, why, **where)]
