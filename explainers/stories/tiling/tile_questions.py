"""Questions about a query tile: the place of its scores, the reads of K and Q, and the block's part of O."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from explainers.models import tiling
from explainers.models.frames import MatricesMeta, TilingFrame
from explainers.models.tiling import bytes_stored, never_stored, scores_size
from explainers.stories.tiling.reuse import WORDS
from explainers.story import picture
from explainers.story.glossary import short
from explainers.story.questions import Where, idea
from explainers.story.stage import Question, Stage
from explainers.story.words import Row
from kernels.build.occupancy import MACHINES
from kernels.run.results import Run

LONG = 65_536  # tokens of a long context
SHARED_KIB = MACHINES["sm_90"].shared_bytes // 1024  # of an SM of an H200


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
    last = len(tile.frames) - 1
    asked = {question.id: question for question in WORDS.questions(_asked(tile), last)}
    block = [asked[id] for id in asked if id == "grid"]
    if not met.any():  # a kernel without a logged score
        return block
    return [
        *_place_of_scores(tile),
        *(asked[id] for id in asked if id == "growth"),
        *_reads_of_k(tile),
        *(asked[id] for id in asked if id in ("check_q_shared", "check_q_again")),
        *never_stored(run, step=last, view=tile.view, veils=("headline",)),
        *block,
    ]


def _asked(tile: Tile) -> Row:
    """What the questions of words.toml ask.

    written: bytes of S in global memory. s_store: the first step that stores it. copied: the first step with Q in
    shared memory, or -1. copies: the number of blocks that copy Q. first, second: the first two of them. copied_again:
    the first step of the second. met, met_last: the keys of all rows and of the last one. q_row: bytes of a row of Q.
    high, wide: rows and columns of O that a block makes. own: its entry of Tiling.output_blocks.
    """
    meta, request, q = tile.meta, tile.run.request, tile.of["Q"]
    own = next(block for block in meta["blocks"] if block[0] == meta["row0"])
    holds = {
        f["block"]: n
        for n, f in reversed([*enumerate(tile.frames)])
        if q in f["resident"] and f["resident"][q]["rects"]
    }
    (first, copied), (second, copied_again) = [*sorted(holds.items(), key=lambda one: one[1]), (-1, -1), (-1, -1)][:2]
    return {
        **{"n_queries": meta["n"], "keys": meta["keys"], "d": meta["d"], "row0": meta["row0"], "long": LONG},
        "square": meta["n"] == meta["keys"] and not meta["causal"],
        "written": bytes_stored(tile.run).get("S", 0),
        "s_store": tile.first("S", "store"),
        "copied": copied,
        "copies": len(holds),
        "first": first,
        "second": second,
        "copied_again": copied_again,
        "q_read": tile.read("Q"),
        "q_row": meta["d"] * picture.tensor_at(request, "Q").itemsize,
        "q_tiles": len({block[0] for block in meta["blocks"]}),
        "rows": len(tile.met),
        "met": int(tile.met.sum()),
        "met_last": int(tile.met[-1]) if len(tile.met) else 0,
        "threads": request.plan.launches[-1].threads,
        "blocks": len(meta["blocks"]),
        "high": meta["blocks"][0][1] - meta["blocks"][0][0] + 1,
        "wide": own[3] - own[2] + 1,
        "own": own,
    }


def _place_of_scores(tile: Tile) -> list[Question]:
    """A question about the memory of the scores between the two products."""
    stored, size = bytes_stored(tile.run), scores_size(tile.run)
    written = stored.get("S", 0) + stored.get("P", 0)
    globally = "In global memory, until the row is done"
    briefly = "On the chip, only as long as their tile"
    wholly = "On the chip, for all keys at once"
    long = size / tile.meta["keys"] * LONG / 2**20
    too_many = (
        f"These scores would take {size:,} bytes. With {LONG:,} tokens they would take {short(long, 3)} MiB, and an SM "
        f"of an H200 has {SHARED_KIB} KiB of shared memory."
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
            f"For these queries, blocks write {stored.get('S', 0):,} bytes of S and {stored.get('P', 0):,} bytes of P. "
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


def _reads_of_k(tile: Tile) -> list[Question]:
    """A question about the reads of each byte of K from global memory."""
    of_step = tiling.times_of_k(tile.frames, tile.of["K"], tile.width)
    part = tiling.sees_a_part(tile.run)
    times, rows, threads = of_step[-1], len(tile.met), tile.run.request.plan.launches[0].threads
    if not times or rows < 2:
        return []
    text = (
        f"A block of {threads:,} threads works together on {rows} queries. "
        f"How often does it ask global memory for each byte of K{' that they see' if part else ''}?"
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
        blocks = len({f["block"] for f in tile.frames if f["scores"]})
        who = f"The {blocks} blocks of these queries together read" if blocks > 1 else "The block reads"
        why = f"{who} {read:,} bytes of K, each once. It would be {rows} times as many without the copy."
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
        "step": tile.scores_step if shared else max(n for n, f in enumerate(tile.frames) if f["scores"]),
        "view": tile.view,
        "veils": ("headline", "tabs"),
        "hides": sorted({tiling.times_said(n) for n in of_step if n}),
        "shows": {"tensor": "K", "key": 0, "dim": 0},
    }
    return [idea("k_read", text, right, wrong, why, ordered, **where)]
