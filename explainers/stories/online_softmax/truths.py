"""A row in float64: its scores, and its output next to the kernel's."""

from dataclasses import dataclass
from itertools import islice

import numpy as np

from explainers.story import picture, probed
from kernels.core import reference
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError
from kernels.run.results import Run


@dataclass(frozen=True, eq=False)
class RowTruth:
    """A row.

    scores: of the keys that it sees, float64.
    o: the kernel's output [head_dim], float32.
    o_true: float64.
    """

    scores: np.ndarray
    o: np.ndarray
    o_true: np.ndarray


def names_heads(spec: KernelSpec) -> bool:
    """Whether a plain kernel's marks give the head of each score, and its items are no query tiles."""
    return spec.plain and "head" in probed.values(spec).get("score", ()) and not picture.by_tiles(probed.sample(spec))


def refusal(request: Request) -> str:
    """The reason against a problem without a list of its heads, or an empty text."""
    if next(iter(request.problem.heads()), None) is None:
        return f"{request.kernel.problem_type.__name__} gives no scores of its heads."
    return picture.without_parts(request)


def of_row(run: Run, head: int, row: int) -> RowTruth:
    """The truth of a row. head: counted over the batch. ProblemError for a row without keys."""
    return _in_tile(run, head, row) if picture.by_tiles(run.request) else _of_head(run, head, row)


def _in_tile(run: Run, head: int, row: int) -> RowTruth:
    """The truth by the rows of Q and K."""
    request, problem = run.request, run.request.problem
    q, k, v, o = (picture.matrix(run, place, head) for place in "QKVO")
    sees = row + picture.mask_offset(request) + 1 if problem.causal else len(k)
    if sees < 1:
        raise ProblemError(
            f"Row {row} sees no key: its last would be {sees - 1}. Choose row {row - sees + 1} or later."
        )
    scores = reference.scores(q[row : row + 1], k, problem.sizes["scale"], False)[0][:sees]
    return RowTruth(scores, o[row], reference.softmax(scores) @ v[:sees].astype(np.float64))


def _of_head(run: Run, head: int, row: int) -> RowTruth:
    """The truth by the problem's own heads, in whatever order its memory has the keys."""
    problem = run.request.problem
    one = next(islice(problem.heads(), head, None))
    seen = one.seen[row]
    if not seen.any():
        raise ProblemError(f"Row {row} sees no key. Choose another row.")
    scores = one.scores[row, seen]
    made = problem.logical(run.arrays[one.output])[one.at].reshape(len(one.scores), -1)[row]
    return RowTruth(scores, made.astype(np.float32), reference.softmax(scores) @ one.values[seen])
