"""The grid of problems on which every kernel, in both builds, is compared with float64."""

from dataclasses import dataclass
from itertools import product

import numpy as np

from kernels import execute, reference
from kernels.execute import Request
from kernels.problem import AttentionProblem

LENGTHS = (1, 2, 17, 31, 33, 63, 65, 100, 129, 257)
SCALES = (1.0, 0.1, 5.0, 30.0)


@dataclass(frozen=True)
class Verdict:
    """One build on one problem. ok: max_abs_error <= 2 x baseline_max_abs_error; message: why a run failed, if it did."""

    kernel: str
    build: str
    problem: AttentionProblem
    settings: tuple[tuple[str, int], ...]
    max_abs_error: float
    baseline_max_abs_error: float
    ok: bool
    message: str = ""


def grid(kernel):
    """(problem, settings) pairs: every length, head_dim and mask, batch 1-3, heads 1-4, scores up to 30; then every tile size."""
    pairs = []
    for number, (n, d, causal) in enumerate(product(LENGTHS, (32, 64, 128), (False, True))):
        small = n <= 100
        pairs.append((AttentionProblem(seq_len=n, head_dim=d, causal=causal, batch=number % 3 + 1 if small else 1,
                                       heads=number % 4 + 1 if small else number % 2 + 1, score_scale=SCALES[number % 4], seed=number), ()))
    tiles = [(c.name, v) for c in kernel.constants if c.name.startswith("BLOCK") for v in c.values if v != c.default]
    for number, (constant, value) in enumerate(tiles):
        for n, causal in ((65, False), (100, True)):
            pairs.append((AttentionProblem(seq_len=n, head_dim=(32, 64, 128)[number % 3], heads=2, causal=causal, seed=number), ((constant, value),)))
    return pairs


def check_problem(kernel, problem, settings, backend):
    """A Verdict for the probed and the timed build. Runs in a worker."""
    request = Request(kernel, problem, settings, backend=backend)
    probed, timed = execute.run(request), execute.run_timed_build(request)
    baseline = execute.baseline(request)
    error = reference.max_abs_error(timed["o"], execute.truth(problem, backend))
    same = np.array_equal(probed.arrays["o"], timed["o"])
    return (Verdict(kernel.name, "probed", problem, settings, probed.max_abs_error, baseline, execute.is_correct(probed.max_abs_error, baseline)),
            Verdict(kernel.name, "timed", problem, settings, error, baseline, execute.is_correct(error, baseline) and same,
                    "" if same else "the timed build's output differs from the probed build's"))
