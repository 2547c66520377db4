"""Recorded times and memory of the backward, next to the forward of the same sizes."""

import json
from collections.abc import Mapping
from dataclasses import fields, replace

import pandas as pd

from explainers.models import gradients
from explainers.stories.backward import turns
from explainers.stories.backward.tabs import LONG, amount
from explainers.stories.backward.turns import Recorded
from explainers.story import axes, stage
from explainers.story.glossary import count, short
from explainers.story.stage import Block
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Role
from kernels.measure import duels
from kernels.recordings.tables import Provenance

SAME = ("seq_len", "seq_len_kv", "head_dim", "batch", "num_heads", "num_kv_heads", "causal", "dtype")
Tables = Mapping[str, tuple[pd.DataFrame, Provenance]]


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
    if found := turns.blocks(request.kernel, backward, Recorded(*met) if met else None, forward):
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
                "backward pass": turns.ms(_us(row)),
                "forward pass": turns.ms(fastest) if fastest else "",
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
