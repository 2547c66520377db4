"""The errors of dQ, dK and dV by the steps that round: each step replayed in float64 from the run's own arrays."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from explainers.models import gradients
from explainers.story import picture, stage
from explainers.story.glossary import short
from explainers.story.stage import Block
from kernels.core.dtypes import element_type
from kernels.run.results import Run

Gradients = dict[str, np.ndarray]
Errors = dict[str, dict[str, float]]  # step -> gradient -> its relative error so far, in the order of the steps


class Rounds(NamedTuple):
    """The tensors that a replay rounds to the inputs' type."""

    stored: bool = False  # O and LSE, as the forward stored them
    weights: bool = False  # P for dV
    scores: bool = False  # dS for dK and dQ
    outputs: bool = False  # the gradients


STEPS = {
    "O and LSE, as stored": Rounds(True),
    "P for dV, in the inputs' type": Rounds(True, True),
    "dS for dK and dQ, in the inputs' type": Rounds(True, True, True),
    "the gradients, in the inputs' type": Rounds(True, True, True, True),
}
OWN = "this run of the kernel"


def blocks(run: Run, head: int) -> list[Block]:
    """The table of errors after each step, with the kernel's own.

    head: the first query head of the group, counted over the batch.
    """
    after = after_each_step(run, head)
    rows = [
        {"after rounding": step, **{part: said(error) for part, error in one.items()}} for step, one in after.items()
    ]
    return [
        stage.heading("The error of each gradient, step by step"),
        stage.text(
            "Root mean square of the error, over that of the gradient. The reference is float64 from the same Q, K, V "
            "and dO. Each row adds one rounding to the rows above it."
        ),
        stage.table(pd.DataFrame(rows), "Replayed in float64. The last row is the kernel's own output."),
        stage.text(largest(after), "modelled"),
    ]


def after_each_step(run: Run, head: int) -> Errors:
    """The errors after each step that rounds, and the errors of the kernel's own gradients."""
    due = replay(run, head, Rounds())
    found = {step: _errors(replay(run, head, rounds), due) for step, rounds in STEPS.items()}
    return found | {OWN: _errors(_own(run, head), due)}


def largest(after: Errors) -> str:
    """The gradient with the largest error, and its largest step, in two sentences."""
    worst = max(after[OWN], key=lambda part: after[OWN][part])
    each = [0.0, *(after[step][worst] ** 2 for step in STEPS)]
    most = max(zip(STEPS, each, each[1:]), key=lambda step: step[2] - step[1])[0]
    error = said(after[OWN][worst])
    return f"{worst} has the largest error, {error}. The largest part comes from rounding {most}."


def replay(run: Run, head: int, rounds: Rounds) -> Gradients:
    """dQ, dK and dV of a group of query heads in float64, with these roundings."""
    request = run.request
    group, scale = gradients.group_of(request), float(str(request.problem.sizes["scale"]))
    kind = element_type(gradients.tensors(request)["Q"].dtype).numpy

    def rounded(values: np.ndarray, wanted: bool) -> np.ndarray:
        return values.astype(np.float32).astype(kind).astype(np.float64) if wanted else values

    k, v = (gradients.values(run, part, head).astype(np.float64) for part in "KV")
    seen = _seen(run)
    found: dict[str, list[np.ndarray]] = {"dQ": [], "dK": [], "dV": []}
    for one in range(head, head + group):
        q, do, o = (gradients.values(run, part, one).astype(np.float64) for part in ("Q", "dO", "O"))
        s = np.where(seen, scale * q @ k.T, -np.inf)
        highest = np.maximum(s.max(axis=1, keepdims=True), -1e30)  # a row without keys has no weights
        total = np.exp(s - highest).sum(axis=1, keepdims=True)
        lse = highest + np.log(np.maximum(total, 1e-300))
        if rounds.stored and "LSE" in gradients.tensors(request):
            lse = np.maximum(gradients.values(run, "LSE", one).astype(np.float64)[:, None], -1e30)
        p = np.exp(s - lse)
        o = o if rounds.stored else p @ v
        ds = p * (do @ v.T - (do * o).sum(axis=1, keepdims=True))
        ds = rounded(ds, rounds.scores)
        found["dQ"].append(scale * ds @ k)
        found["dK"].append(scale * ds.T @ q)
        found["dV"].append(rounded(p, rounds.weights).T @ do)
    sums = {"dQ": np.concatenate(found["dQ"]), "dK": sum(found["dK"]), "dV": sum(found["dV"])}
    return {part: rounded(np.asarray(values), rounds.outputs) for part, values in sums.items()}


def _seen(run: Run) -> np.ndarray:
    """[queries, keys]: whether a query sees a key."""
    n, keys, _ = gradients.sizes(run.request)
    if not run.request.problem.causal:
        return np.ones((n, keys), bool)
    return np.arange(keys)[None] <= np.arange(n)[:, None] + picture.mask_offset(run.request)


def _own(run: Run, head: int) -> Gradients:
    heads = range(head, head + gradients.group_of(run.request))
    made = {part: gradients.values(run, part, head).astype(np.float64) for part in ("dK", "dV")}
    return {"dQ": np.concatenate([gradients.values(run, "dQ", one) for one in heads]).astype(np.float64), **made}


def _errors(found: Gradients, due: Gradients) -> dict[str, float]:
    """Part -> RMS error over the RMS of the gradient."""
    return {
        part: float(np.sqrt(np.mean((found[part] - due[part]) ** 2) / max(np.mean(due[part] ** 2), 1e-300)))
        for part in due
    }


def said(error: float) -> str:
    """A relative error in parts per million, or in per cent."""
    return f"{short(100 * error, 2)} %" if error >= 1e-4 else f"{short(1e6 * error, 2)} ppm"
