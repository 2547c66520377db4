"""The errors of a kernel's or a peer's outputs against float64, for outputs of a gigabyte."""

import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np

from kernels.core.problem import Problem
from kernels.core.request import Request
from kernels.core.tolerance import OutputError, max_abs_error, output_errors, worst
from kernels.errors import RunError
from kernels.measure import peers
from kernels.run import execute

PART = 2**20  # numbers in one comparison
ROUNDING_TIMES = 10  # times the allowance: a smaller error is called rounding, a larger one plainly wrong


@lru_cache(maxsize=1)
def _truth(problem: Problem) -> tuple[dict[str, np.ndarray], dict[str, float], dict[str, float]]:
    """output -> float64, its largest error in torch's own answer, and its largest term: the same for every kernel and
    peer."""
    true, torchs = problem.truth(on_gpu=True), problem.yardstick("cuda")
    yardsticks = {name: _largest_error(torchs[name], array) for name, array in true.items()}
    return true, yardsticks, problem.largest_terms()


def judged(problem: Problem, outputs: Mapping[str, np.ndarray]) -> tuple[OutputError, ...]:
    true, yardsticks, terms = _truth(problem)
    errors = {name: _largest_error(array, true[name]) for name, array in outputs.items()}
    return output_errors(errors, yardsticks, terms, problem.terms)


def _largest_error(array: np.ndarray, true: np.ndarray) -> float:
    """tolerance.max_abs_error, in parts and on all processors: 268 million numbers take seconds instead of a minute."""
    if array.shape != true.shape or array.size <= PART:
        return max_abs_error(array, true)
    flat, due = array.reshape(-1), true.reshape(-1)
    parts = [slice(first, first + PART) for first in range(0, flat.size, PART)]
    with ThreadPoolExecutor() as pool:
        errors = list(pool.map(lambda part: max_abs_error(flat[part], due[part]), parts))
    return float(np.max(errors))  # NaN if any part has one, because max() may drop it


def rms_error(problem: Problem, output: str, array: np.ndarray) -> float:
    """The root mean square of |output - float64|."""
    flat, due = array.reshape(-1), _truth(problem)[0][output].reshape(-1)
    parts = [slice(first, first + PART) for first in range(0, flat.size, PART)]
    with ThreadPoolExecutor() as pool:
        squares = pool.map(lambda part: float(np.square(flat[part].astype(np.float64) - due[part]).sum()), parts)
        return math.sqrt(sum(squares) / flat.size)


def check_right(request: Request, arrays: Mapping[str, np.ndarray], what: str) -> None:
    """RunError if an output of a run on the GPU is wrong. what: the refused figures, such as "A timeline is"."""
    errors = execute.largest_errors(request.problem, arrays, "gpu")
    error = worst(execute.judge(errors, execute.yardstick(request), request.problem))
    if not error.ok:
        raise RunError(f"{what} refused. {missed(request.kernel.name, error)}")


def check_exact(problem: Problem, arrays: Mapping[str, np.ndarray]) -> None:
    """RunError if an output differs from the truth of a problem without rounding."""
    for name, true in problem.truth().items():
        if not np.array_equal(arrays[name], true):
            raise RunError(f"{problem} has no figure, because its output {name} is wrong.")


def verdict(name: str, error: OutputError) -> tuple[str, str]:
    """(status, reason) of the output with the largest share of its allowance. Only a peer may miss by rounding and be
    timed."""
    if error.ok:
        return "ok", ""
    reason = missed(name, error)
    if name in peers.NAMES and error.share <= ROUNDING_TIMES:
        return "less accurate", reason
    return "wrong", f"A wrong kernel gets no time. {reason}"


def missed(name: str, error: OutputError) -> str:
    """The error of a wrong output in words, and from only its size, whether it may be rounding."""
    said = f"{name} misses float64 by {error.largest:.3g} in {error.output}"
    rule = f"torch misses it by {error.yardstick:.3g} and {error.allowed:.3g} is allowed"
    if error.ok:
        return f"{said}; {rule}."
    if error.share <= ROUNDING_TIMES:
        return f"{said}: {rule}. So small an error is rounding, {error.share:.2g} times the limit."
    return f"{said}: {rule}. That is no rounding: the result is plainly wrong."
