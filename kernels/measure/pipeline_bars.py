"""The bars of a pipeline: what each writer of a block did from one mark to its next, and the share of its products."""

import numpy as np
import pandas as pd

from kernels.measure.pipelines import Pipeline, keys_of

PRODUCTS = (*("scores", "output"), *("weight_gradients", "value_sums", "key_sums", "query_sums", "key_value_sums"))
"""The marks at a product of a tile, of the forward and of the backward. A mark with two products has half of each."""
COMPUTING = (*PRODUCTS, "softmax", "weights", "score_gradients")
"""The marks of a writer that computes."""
TENSOR_FLOPS = {"wgmma": 4096, "mma.sync": 4096 * 2 / 3}
"""Floating-point operations of 16 bits per cycle on the tensor cores of a Hopper SM. An m16n8k16 of mma.sync keeps one
of the four tensor cores busy for 6 cycles. The same share of a wgmma takes 4 cycles. Evidence: for 08_pipeline, with
63,550 products for each tensor core in 696,178 cycles, Nsight Compute on an H200 reads 55.2 % of tensor pipe."""


def bars(made: Pipeline, block: int, launch: int | None = None) -> pd.DataFrame:
    """The bars of a block's writers: writer, role, event, place, keys, start_ns, end_ns.

    A bar lasts from a mark to its writer's next one, and the last bar to the writer's end. The end comes from the
    coarser clock. If it is before the mark, the bar has no length.

    launch: by default that of the picture."""
    launch = made.launch if launch is None else launch
    mine = made.marks[(made.marks.block == block) & (made.marks.launch == launch)]
    writers = made.writers[(made.writers.block == block) & (made.writers.launch == launch)].set_index("writer")
    ends = mine.groupby("writer").ns.shift(-1)
    ends = ends.fillna(mine.writer.map(writers.end_ns).astype(float).clip(lower=mine.ns))
    return mine.assign(start_ns=mine.ns, end_ns=ends).drop(columns="ns").reset_index(drop=True)


def in_flight(shown: pd.DataFrame) -> pd.DataFrame:
    """The work in flight: from a mark X to the mark X_done of the same writer, with equal keys if both have them. A
    kernel sets X_done after its wait. A bar around the starting instruction is not the work itself."""
    number = ["writer", "event", "number"]  # the n-th X of a writer goes with its n-th X_done
    done = shown[shown.event.str.endswith("_done")]
    done = done.assign(event=done.event.str.removesuffix("_done"))
    begun, done = (f.assign(number=f.groupby(number[:2]).cumcount()) for f in (shown, done))
    pairs = begun.merge(done, on=number, suffixes=("", "_then"))
    for key in keys_of(shown):
        now, then = pairs[key].fillna(-1), pairs[f"{key}_then"].fillna(-1)
        same = (now == then) | (now < 0) | (then < 0)
        pairs = pairs[same.to_numpy()]
    return pairs.assign(end_ns=pairs.start_ns_then)[list(shown.columns)].reset_index(drop=True)


def fed(made: Pipeline, block: int) -> float | None:
    """The largest possible share of a block's time with work for its tensor cores. None for a kernel without them.
    Rule: a product of any writer is in flight. For synchronous products, a writer is at a bar of PRODUCTS, and fetches
    its operands there. The true share is lower, because a product may end before the wait for it."""
    if not made.request.kernel.tensor_products:
        return None
    shown = bars(made, block)
    spans = in_flight(shown)
    if spans.empty:
        spans = shown[shown.event.isin(PRODUCTS)]
    mine = made.blocks.loc[(made.launch, block)]
    return covered(spans, float(mine.start_ns), float(mine.end_ns))


def multiplying(made: Pipeline, block: int) -> float | None:
    """The share of a block's time that its products need on the tensor cores of its SM. Rule: each product takes its
    time without waits (TENSOR_FLOPS). None for products of other than 16 bits, for a kernel without a tile of
    queries and keys, and for a block without products."""
    tile_rows, tile_keys = made.request.value_of("query_rows") or 0, made.request.value_of("key_rows") or 0
    if made.request.kernel.tensor_products != 1 or not (tile_rows and tile_keys):
        return None
    shown = bars(made, block)
    products = shown[shown.event.isin(PRODUCTS)]
    if products.empty:
        return None
    mine = made.blocks.loc[(made.launch, block)]
    cycles = float(mine.end_ns - mine.start_ns) * made.mhz / 1e3
    rows = tile_rows / products.writer.nunique()
    flops = 2 * rows * tile_keys * made.request.problem.head_dim * len(products)
    return flops / TENSOR_FLOPS["wgmma" if made.noun == "warpgroup" else "mma.sync"] / cycles


def resident(made: Pipeline, block: int) -> float:
    """How many blocks its multiprocessor has, on average, while a block is there."""
    every = made.blocks.loc[made.launch]
    mine = every.loc[block]
    there = every[every.sm == mine.sm]
    shared = np.minimum(there.end_ns, mine.end_ns) - np.maximum(there.start_ns, mine.start_ns)
    return float(shared.clip(lower=0).sum() / (mine.end_ns - mine.start_ns))


def covered(spans: pd.DataFrame, start: float, end: float) -> float:
    """The share of a time inside some span (start_ns, end_ns)."""
    found, until = 0.0, start
    for begin, stop in sorted(zip(spans.start_ns.clip(start, end), spans.end_ns.clip(start, end))):
        found += max(0.0, stop - max(begin, until))
        until = max(until, stop)
    return found / (end - start) if end > start else 0.0


def shares(made: Pipeline, block: int) -> pd.DataFrame:
    """The time of each writer of a block by event: writer, role, event, bars, ns, share."""
    shown = bars(made, block)
    shown = shown.assign(ns=shown.end_ns - shown.start_ns)
    found = shown.groupby(["writer", "role", "event"], sort=False).ns.agg(bars="size", ns="sum").reset_index()
    return found.assign(share=found.ns / found.groupby("writer").ns.transform("sum"))


def sentence(made: Pipeline) -> str:
    """The facts behind a pipeline's times: the observer effect, the clocks, lost marks."""
    kernel, share = made.request.kernel.name, fed(made, 0)
    products = ""
    if share is not None:
        products = f" Tensor cores of block 0 have something to do for at most {share:.1%} of its time."
    took = f"the marks build takes {made.marks_ms:.4g} ms, the timed one {made.timed_ms:.4g} ms: {made.overhead:+.1%}"
    clocks = f"{made.mhz:,.0f} MHz; the two clocks differ by at most {made.residual_ns:.3g} ns"
    lost = f"{made.lost:,} marks did not fit" if made.lost else "no mark was lost"
    return f"{kernel} on {made.device}: {took}. {clocks}; {lost}.{products}"


def as_json(made: Pipeline) -> dict[str, object]:
    problem, settings = made.request.identity
    shown = bars(made, 0)
    return {
        "kernel": made.request.kernel.name,
        "problem": problem,
        "settings": settings,
        "device": made.device,
        "date": made.date,
        "marks_ms": made.marks_ms,
        "timed_ms": made.timed_ms,
        "overhead": made.overhead,
        "mhz": made.mhz,
        "residual_ns": made.residual_ns,
        "lost": made.lost,
        "block": 0,
        "fed": fed(made, 0),
        "bars": shown.astype(object).where(shown.notna(), None).to_dict("records"),
    }
