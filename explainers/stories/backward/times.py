"""Recorded times and memory of the backward, next to the forward of the same sizes and to torch's backward."""

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import NamedTuple

import pandas as pd

from explainers.models import gradients
from explainers.models.recorded_times import shown_name
from explainers.stories.backward.tabs import LONG, amount
from explainers.story import axes, glossary, stage
from explainers.story.glossary import count, short
from explainers.story.stage import Block
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Role
from kernels.measure import duels
from kernels.recordings.tables import Provenance

SAME = ("seq_len", "seq_len_kv", "head_dim", "batch", "num_heads", "num_kv_heads", "causal", "dtype")
SHAPE = ["seq_len", "head_dim", "batch", "num_heads", "num_kv_heads", "causal", "dtype"]
RIVALS = ("sdpa_flash", "sdpa_cudnn")
Tables = Mapping[str, tuple[pd.DataFrame, Provenance]]


class Recorded(NamedTuple):
    """A recorded table of duels."""

    table: pd.DataFrame
    where: Provenance


def blocks(
    request: Request, catalog: Mapping[str, KernelSpec], recorded: Tables, backward: Recorded | None = None
) -> list[Block]:
    """The table of times, or a sentence if no recording exists.

    recorded: the tables of the bench.
    backward: the duels of the backward.
    """
    heading = stage.heading("Time, next to the forward")
    for table, where in recorded.values():
        found = _rows(request.kernel, catalog, table, where)
        if found is not None:
            said = f"Recorded on {where.device}, {where.date}. The forward is the fastest kernel with these sizes."
            return [heading, stage.table(found, said)]
    forward = [name for name, spec in catalog.items() if is_forward(spec)]
    met = duels.recorded() if backward else None
    if found := turns(request.kernel, backward, Recorded(*met) if met else None, forward):
        return [heading, *found]
    return [
        heading,
        stage.note("No recording of this backward exists yet. A run on this CPU never yields a time of a kernel."),
    ]


def memory(request: Request) -> list[Block]:
    """The bytes of the tensors of both passes, for this problem and for longer ones."""
    own = {field.name for field in fields(request.problem)}
    sizes = [{"seq_len": n, "seq_len_kv": 0} for n in LONG]
    problems = [replace(request.problem, **{k: v for k, v in one.items() if k in own}) for one in sizes]
    rows = [_bytes(replace(request, problem=problem)) for problem in problems]
    heads = axes.heads(gradients.tensors(request)["Q"])
    said = (
        f"Derived from the sizes, for {count(heads, 'head')}. The forward keeps Q, K, V, O and LSE. The backward adds "
        "dO and three gradients. Scratch is for delta and the sums of dQ."
    )
    return [stage.heading("Memory, next to the forward"), stage.table(pd.DataFrame([_bytes(request), *rows]), said)]


def _bytes(request: Request) -> dict[str, object]:
    of = gradients.tensors(request)
    size = {part: tensor.size * tensor.itemsize for part, tensor in of.items()}
    scratch = sum(t.size * t.itemsize for t in request.plan.tensors if t.role is Role.SCRATCH)
    kept = [part for part in ("Q", "K", "V", "O", "LSE") if part in size]
    queries, keys, _ = gradients.sizes(request)
    return {
        "tokens": queries,
        "forward": amount(sum(size[part] for part in kept)),
        "backward adds": amount(sum(size[part] for part in ("dO", "dQ", "dK", "dV"))),
        "scratch": amount(scratch),
        "P, if stored": amount(queries * keys * axes.heads(of["Q"]) * of["Q"].itemsize),
    }


def _rows(
    kernel: KernelSpec, catalog: Mapping[str, KernelSpec], table: pd.DataFrame, where: Provenance
) -> pd.DataFrame | None:
    """The rows of a kernel with its present code, each with the fastest forward of its sizes."""
    rows = table[(table.status == "ok") & (table.name == kernel.name)]
    if rows.empty or where.codes.get(kernel.name) != kernel.code_hash:
        return None
    forward = [name for name, spec in catalog.items() if is_forward(spec) and where.codes.get(name) == spec.code_hash]
    others = table[(table.status == "ok") & table.name.isin(forward)]
    by_size: dict[tuple[object, ...], list[float]] = {}
    for row in others.to_dict("records"):
        by_size.setdefault(_size(row), []).append(_us(row))
    made = []
    for row in rows.to_dict("records"):
        problem = json.loads(str(row["problem"]))
        fastest = min(by_size.get(_size(row), []), default=None)
        made.append(
            {
                "tokens": problem.get("seq_len"),
                "head_dim": problem.get("head_dim"),
                "causal": "yes" if problem.get("causal") else "no",
                "type": problem.get("dtype", ""),
                "backward pass": ms(_us(row)),
                "forward pass": ms(fastest) if fastest else "",
                "times": round(_us(row) / fastest, 2) if fastest else None,
                "peak memory": f"{short(row['peak_bytes'] / 1e6, 3)} MB"
                if row.get("peak_bytes") == row.get("peak_bytes")
                else "",
            }
        )
    return pd.DataFrame(made).drop_duplicates(ignore_index=True)


def is_forward(spec: KernelSpec) -> bool:
    """Whether a kernel writes the part O of the picture."""
    problem = spec.problem_type()
    return any(t.role is Role.OUTPUT and problem.picture.get(t.name) == "O" for t in problem.tensors())


def _size(row: Mapping[str, object]) -> tuple[object, ...]:
    """The sizes of a row's problem. By default it has as many keys as queries, and as many KV heads as heads."""
    problem = json.loads(str(row["problem"]))
    problem.setdefault("dtype", "float32")
    keys, heads = (
        problem.get("seq_len_kv") or problem.get("seq_len"),
        problem.get("num_kv_heads") or problem.get("num_heads"),
    )
    return tuple({**problem, "seq_len_kv": keys, "num_kv_heads": heads}.get(name) for name in SAME)


def _us(row: Mapping[str, object]) -> float:
    """The sustained time of a row if it has one, else the rested time."""
    sustained = float(str(row.get("sustained_us", "nan")))
    return sustained if sustained == sustained else float(str(row["median_us"]))


# ---- duels in turns ----


def turns(kernel: KernelSpec, backward: Recorded | None, forward: Recorded | None, writes_o: list[str]) -> list[Block]:
    """The table of times of a kernel as tuned, next to torch's backward in the same turns.

    A kernel without a recording has the table of the fastest one. Empty without any.

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
    return glossary.amount(us, ((1e3, "ms"), (1.0, "us")))
