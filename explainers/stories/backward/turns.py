"""Times of a backward from recorded duels: next to torch's backward in the same turns, and to the forward's times."""

from collections.abc import Mapping
from typing import NamedTuple

import pandas as pd

from explainers.models.recorded_times import shown_name
from explainers.story import stage
from explainers.story.glossary import amount
from explainers.story.stage import Block
from kernels.core.spec import KernelSpec
from kernels.measure import duels
from kernels.recordings.tables import Provenance

SHAPE = ["seq_len", "head_dim", "batch", "num_heads", "num_kv_heads", "causal", "dtype"]
RIVALS = ("sdpa_flash", "sdpa_cudnn")


class Recorded(NamedTuple):
    """A recorded table of duels."""

    table: pd.DataFrame
    where: Provenance


def blocks(kernel: KernelSpec, backward: Recorded | None, forward: Recorded | None, writes_o: list[str]) -> list[Block]:
    """The table of times of a kernel as tuned, or of the fastest recorded kernel. Empty without a recording.

    backward, forward: the duels of the two passes.
    writes_o: the names of the kernels of the forward.
    """
    if backward is None or backward.table.empty:
        return []
    own, other = _own(kernel.name, backward), ""
    if own is None:
        other = str(backward.table.loc[backward.table.sustained_tflops.idxmax(), "name"])
        own = _own(other, backward)
    if own is None:
        return []
    head = (
        [stage.text(f"No recording has {kernel.name}. The table has the fastest backward, {other}.")] if other else []
    )
    rows = [_row(shape, part) for shape, part in own.groupby(SHAPE, sort=True)]
    head += [stage.text(wins(own, other or kernel.name), "recorded")]
    head += [stage.text(said, "recorded") for said in _others(other or kernel.name, backward)]
    how_fast = stage.link("How fast: the backward against cuDNN", "timing", {"tab": "turns"})
    head.append(stage.text("Charts of all shapes, with the losses next to the wins:", links=[how_fast]))
    said = (
        f"Recorded on {backward.where.device}, {backward.where.date}. Times are sustained: the kernel and torch's "
        "backwards take turns of 400 ms."
    )
    if forward is None:
        return [*head, stage.table(pd.DataFrame(rows), said)]
    same = forward.where.device == backward.where.device
    fastest = _fastest(forward.table[forward.table.name.isin(writes_o)])
    column = "forward" if same else f"forward ({forward.where.device})"
    for row, (shape, part) in zip(rows, own.groupby(SHAPE, sort=True)):
        us = fastest.get(tuple(shape))
        row[column] = ms(us) if us else ""
        if same:
            row["backward / forward"] = f"{part.sustained_us.iloc[0] / us:.2f}" if us else ""
    more = "" if same else " The forward ran on another GPU, so the table has no ratio of the two."
    return [
        *head,
        stage.table(pd.DataFrame(rows), said + " The forward is our fastest kernel with these sizes." + more),
    ]


def _others(name: str, backward: Recorded) -> list[str]:
    """The sentence of `wins` for each other choice of constants, such as a fixed order."""
    timed = _timed(name, backward)
    tuned = duels.as_tuned(timed)
    usual = {words for settings in timed[tuned].settings for words in settings.split()}
    own = timed[~tuned]
    choice = own.settings.map(lambda settings: " ".join(word for word in settings.split() if word not in usual))
    return [wins(part, f"With {said}, {name}") for said, part in own.groupby(choice, sort=True)]


def wins(own: pd.DataFrame, name: str) -> str:
    """The shapes in which a kernel is faster than torch's fastest backward, and its least and largest gain."""
    gain = own.groupby(SHAPE).sustained_ratio.min()  # of its turns with the fastest rival
    return (
        f"{name} is faster than torch's fastest backward in {int((gain > 1).sum())} of {len(gain)} shapes: "
        f"{gain.min():.2f} to {gain.max():.2f} times as fast."
    )


def _own(name: str, backward: Recorded) -> pd.DataFrame | None:
    """The sustained rows of a kernel as tuned."""
    own = _timed(name, backward)
    own = own[duels.as_tuned(own)] if len(own) else own
    return own if len(own) else None


def _timed(name: str, backward: Recorded) -> pd.DataFrame:
    table = backward.table
    return table[(table.name == name) & (table.status == "ok") & table.sustained_us.notna()]


def _row(shape: tuple[object, ...], part: pd.DataFrame) -> dict[str, object]:
    """A kernel and its rivals on one shape."""
    tokens, head_dim, batch, heads, kv_heads, causal, dtype = shape
    us = float(part.sustained_us.iloc[0])
    peers = part.set_index("peer").sustained_peer_us
    return {
        "tokens": tokens,
        "head_dim": head_dim,
        "batch x heads": f"{batch} x {heads}" + ("" if kv_heads == heads else f", {kv_heads} KV heads"),
        "mask": "causal" if causal else "none",
        "type": dtype,
        "ours": ms(us),
        **{f"{shown_name(peer)}, backward": ms(float(peers[peer])) for peer in RIVALS if peer in peers},
    }


def _fastest(table: pd.DataFrame) -> Mapping[tuple[object, ...], float]:
    """Shape -> the least sustained time of the forward on normal scores."""
    plain = table[(table.status == "ok") & (table.scores == "random") & (table.score_scale == 1)]
    return {tuple(shape): float(us) for shape, us in plain.groupby(SHAPE).sustained_us.min().items() if us == us}


def ms(us: float) -> str:
    """A time in a unit that people read."""
    return amount(us, ((1e3, "ms"), (1.0, "us")))
