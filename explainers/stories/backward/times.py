"""Recorded times of the backward in turns with torch's, next to the forward of the same sizes."""

from collections.abc import Mapping

import pandas as pd

from explainers.models.recorded_times import shown_name
from explainers.story import glossary, stage
from explainers.story.stage import Block
from kernels.catalog import current
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Role
from kernels.measure import duels, gradient_duels
from kernels.recordings.tables import Provenance

SHAPE = ["seq_len", "head_dim", "batch", "num_heads", "num_kv_heads", "causal", "dtype"]
RIVALS = ("sdpa_flash", "sdpa_cudnn")
Recorded = tuple[pd.DataFrame, Provenance]


def blocks(kernel: KernelSpec) -> list[Block]:
    """The table of times, or a sentence if no recording exists."""
    backward, forward = gradient_duels.recorded(), duels.recorded()
    found = turns(kernel, backward, forward) if backward else []
    nothing = "No recording of this backward exists yet. A run on this CPU never yields a time of a kernel."
    return [stage.heading("Time, next to the forward"), *(found or [stage.note(nothing)])]


def is_forward(spec: KernelSpec) -> bool:
    """Whether a kernel writes the part O of the picture."""
    problem = spec.problem_type()
    return any(t.role is Role.OUTPUT and problem.picture.get(t.name) == "O" for t in problem.tensors())


def turns(kernel: KernelSpec, backward: Recorded, forward: Recorded | None) -> list[Block]:
    """The table of times of a kernel as tuned, next to torch's backward in the same turns.

    A kernel without a recording has the table of the fastest one. Empty without any.

    backward, forward: the duels of the two passes.
    """
    table, where = backward
    table = table[(table.status == "ok") & table.sustained_us.notna()]
    if table.empty:
        return []
    fastest = str(table.loc[table.sustained_tflops.idxmax(), "name"])
    name = kernel.name if kernel.name in set(table.name) else fastest
    mine = table[table.name == name]
    tuned = duels.as_tuned(mine)
    own, others = mine[tuned], mine[~tuned]
    if own.empty:
        return []
    missing = f"No recording has {kernel.name}. The table has the fastest backward, {name}."
    head = [stage.text(missing)] if name != kernel.name else []
    head.append(stage.text(wins(own, name), "recorded"))
    usual = {words for settings in own.settings for words in settings.split()}  # of each other choice of constants
    choice = others.settings.map(lambda settings: " ".join(word for word in settings.split() if word not in usual))
    head += [
        stage.text(wins(part, f"With {said}, {name}"), "recorded") for said, part in others.groupby(choice, sort=True)
    ]
    how_fast = stage.link("How fast: the backward against cuDNN", "timing", {"tab": "turns"})
    head.append(stage.text("Charts of all shapes, with the losses next to the wins:", links=[how_fast]))
    rows = {tuple(shape): _row(shape, part) for shape, part in own.groupby(SHAPE, sort=True)}
    said = (
        f"Recorded on {where.device}, {where.dates}. Times are sustained: the kernel and "
        "torch's backwards take turns of 400 ms."
    )
    if forward:
        writes_o = [name for name, spec in current().kernels.items() if is_forward(spec)]
        near = _fastest(forward[0][forward[0].name.isin(writes_o)])
        same = forward[1].device == where.device
        for shape, row in rows.items():
            us = near.get(shape)
            row["forward" if same else f"forward ({forward[1].device})"] = ms(us) if us else ""
            if same:
                ours = own.set_index(SHAPE).sort_index().sustained_us.loc[shape].iloc[0]
                row["backward / forward"] = f"{ours / us:.2f}" if us else ""
        said += " The forward is our fastest kernel with these sizes."
        said += "" if same else " The forward ran on another GPU, so the table has no ratio of the two."
    return [*head, stage.table(pd.DataFrame([*rows.values()]), said)]


def wins(own: pd.DataFrame, name: str) -> str:
    """The shapes in which a kernel is faster than torch's fastest backward, and its least and largest gain."""
    gain = own.groupby(SHAPE).sustained_ratio.min()  # of its turns with the fastest rival
    return (
        f"{name} is faster than torch's fastest backward in {int((gain > 1).sum())} of {len(gain)} shapes: "
        f"{gain.min():.2f} to {gain.max():.2f} times as fast."
    )


def _row(shape: tuple[object, ...], part: pd.DataFrame) -> dict[str, object]:
    """A kernel and its rivals on one shape."""
    tokens, head_dim, batch, heads, kv_heads, causal, dtype = shape
    peers = part.set_index("peer").sustained_peer_us
    return {
        "tokens": tokens,
        "head_dim": head_dim,
        "batch x heads": f"{batch} x {heads}" + ("" if kv_heads == heads else f", {kv_heads} KV heads"),
        "mask": "causal" if causal else "none",
        "type": dtype,
        "ours": ms(float(part.sustained_us.iloc[0])),
        **{f"{shown_name(peer)}, backward": ms(float(peers[peer])) for peer in RIVALS if peer in peers},
    }


def _fastest(table: pd.DataFrame) -> Mapping[tuple[object, ...], float]:
    """Shape -> the least sustained time of the forward on normal scores."""
    plain = table[(table.status == "ok") & (table.scores == "random") & (table.score_scale == 1)]
    return {tuple(shape): float(us) for shape, us in plain.groupby(SHAPE).sustained_us.min().items() if us == us}


def ms(us: float) -> str:
    """A time in a unit that people read."""
    return glossary.amount(us, glossary.MICROSECONDS)
