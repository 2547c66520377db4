"""Planted wrong results are named by their signatures, and right ones get no reason.

Real kernels: an instance of planted/wrong.cu for each mistake. NumPy stands in for kernels of other shapes.
"""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from kernels.build import Mode
from kernels.catalog import find, load_kernel
from kernels.core.problem import Case
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.core.tolerance import OutputError, max_abs_error
from kernels.run import execute
from kernels.run.check import check_case
from kernels.run.plain import launches
from kernels.run.plain.faults import Fault
from kernels.run.wrong.explain import _rounding, explain
from kernels.run.wrong.found import softmax

WRONG = Path(__file__).parents[2] / "plain" / "planted" / "wrong.cu"
ALLOWED = 1e-5
MISTAKES = {
    "SCALE": "scale",
    "NO_RESCALE": "rescale",
    "OLD_O": "rescale",
    "OLD_L": "rescale",
    "LAST_TILE": "bound",
    "ZEROS_COUNT": "bound",
    "LATE_MASK": "mask",
    "EARLY_MASK": "mask",
    "LANE_MAP": "lanes",
    "REDUCTION": "sum",
    "STRIDE": "stride",
    "VALUES": "stride",
    "BARRIER": "barrier",
    "TANH": "weights",
    "M_STAYS": "max",
    "UNDIVIDED": "sum",
    "UNWRITTEN": "unwritten",
}
NUMBERS = {name: number for number, name in enumerate(["RIGHT", *MISTAKES])}
FIELDS = {
    "LATE_MASK": {"causal": True},
    "EARLY_MASK": {"causal": True},
    "LANE_MAP": {"head_dim": 64},
    "M_STAYS": {"score_scale": 200.0},
}


@lru_cache
def _built():
    kernel = load_kernel(WRONG)
    return kernel, execute.prepare(_request(kernel), Mode.PROBED)[0]


def _only(name):
    """The kernel with the launch of one mistake, in a folder of its own. It has the files of all, and so their
    build."""
    kernel, built = _built()
    entry = f"attention<{NUMBERS[name]}>"
    texts = tuple(text for text in kernel.launch_texts if text.entry == entry)
    return replace(kernel, path=WRONG.parent / name / WRONG.name, launch_texts=texts), built


def _request(kernel, **fields):
    return Request(kernel, kernel.problem_type(**{"seq_len": 70, **fields}), (), Scope(), "cpu")


def _explained(name):
    kernel, built = _only(name)
    request = _request(kernel, **FIELDS.get(name, {}))
    arrays = execute.start_arrays(request)
    found = launches.launch(built, request.plan, arrays, Scope(), [1 << 16], False)
    return explain(request, arrays, _errors(request, arrays), found.faults)


def _errors(request, arrays):
    return [OutputError("o", max_abs_error(arrays["o"], request.problem.truth()["o"]), ALLOWED / 2, ALLOWED)]


@pytest.mark.parametrize(("name", "kind"), MISTAKES.items())
def test_a_planted_mistake_is_named(name, kind):
    reason = _explained(name)
    assert reason and reason.kind == kind, reason


def test_right_kernels_bounds_barriers_and_factors_are_told_apart_from_rounding():
    assert _explained("RIGHT") is None
    assert explain(_request(find("03_flash")), {}, [], [], "o differs").kind == "barrier"
    reason = _of_numpy(_request(find("03_flash")), lambda h: (1 + 4e-5) * softmax(h.scores, h.seen) @ h.values)
    assert reason.kind == "scale" and "1.00004 times" in reason.text
    request = Request(find("paged_v1"), find("paged_v1").problem_type(context_lens=(40, 19, 70)), (), Scope(), "cpu")
    reason = _of_numpy(request, lambda h: _of_pages(h))
    assert reason.kind == "bound"
    found = _rounding([OutputError("o", 2e-6, 4e-7, 1e-6)])
    assert found.kind == "rounding" and "2 times the limit" in found.text
    assert not _rounding([OutputError("o", 2e-5, 4e-7, 1e-6)])
    assert not _rounding([OutputError("o", 0.2, 4e-2, 0.1)])


@pytest.mark.parametrize(("kind", "word"), [("block race", "atomic"), ("race", "barrier"), ("warp race", "barrier")])
def test_a_race_names_a_missing_atomic_or_barrier(kind, word):
    request = _request(find("03_flash"))
    fault = Fault(kind, "error", "line 3 writes o[0], and so does another.", "k.cu", (3,))
    assert explain(request, {}, [], [fault]).kind == word


@pytest.mark.parametrize("factor", [0.5, 5.656854, 0.6931472, 1.25])
def test_a_factor_on_the_scores_is_measured(factor):
    request = _request(find("03_flash"))
    reason = _of_numpy(request, lambda h: softmax(factor * h.scores, h.seen) @ h.values)
    assert reason.kind == "scale" and f"{factor:.3g}" in reason.text


@pytest.mark.parametrize(
    ("mistake", "kind"),
    [
        (lambda h: 2 * softmax(h.scores, h.seen) @ h.values, "scale"),
        (
            lambda h: softmax(h.scores, h.seen & (np.arange(h.scores.shape[1]) < h.scores.shape[1] - 1)) @ h.values,
            "bound",
        ),
        (lambda h: _after(h, rows=slice(64, None)), "bound"),
        (lambda h: _after(h, columns=slice(7, None, 8)), "lanes"),
        (lambda h: _after(h, rows=slice(1, None, 4)), "lanes"),
        (lambda h: _after(h, rows=[3, 8, 50]), None),
    ],
)
def test_a_mistake_in_numpy_is_named(mistake, kind):
    reason = _of_numpy(_request(find("03_flash")), mistake)
    assert (reason and reason.kind) == kind


@pytest.mark.parametrize(
    ("places", "kind"),
    [
        ({"columns": slice(7, None, 8)}, "lanes"),
        ({"rows": slice(1, None, 4)}, "lanes"),
        ({"rows": [3], "columns": [5]}, "rounding"),
        ({}, "rounding"),
    ],
)
def test_small_errors_are_rounding_only_without_a_pattern(places, kind):
    request = _request(find("03_flash"))
    assert _of_numpy(request, lambda h: _after(h, **places, size=6 * ALLOWED)).kind == kind


def test_check_gives_the_reason_and_the_first_wrong_probe(tmp_path):
    path = tmp_path / "old_o.cu"
    path.write_text(Path(find("03_flash").path).read_text().replace("O_rmem[j] *= rescale", "O_rmem[j] *= 1.f"))
    kernel = load_kernel(path)
    verdicts = check_case(kernel, Case(kernel.problem_type(seq_len=40)), "cpu")
    for verdict in verdicts:
        reason = verdict.reason
        assert reason.kind == "rescale" and reason.first.name == "O"
        assert "PROBE_VALUE(o, row, tile, dim" in path.read_text().splitlines()[reason.first.line - 1]
        assert reason.first.tile == 1 and reason.as_json()["first"]["value"] == reason.first.value


def _of_pages(head):
    keys = head.scores.shape[1]
    seen = head.seen & (np.arange(keys) < max(16, keys // 16 * 16))
    return softmax(head.scores, seen) @ head.values


def _after(head, rows=slice(None), columns=slice(None), size=None):
    """Attention with noise at some places. size: of all noise, else it is normal."""
    o = softmax(head.scores, head.seen) @ head.values
    noise = np.random.default_rng(1).standard_normal(o.shape)
    noise = size * np.sign(noise) if size else noise
    grid = np.zeros(o.shape, bool)
    grid[np.ix_(np.arange(len(o))[rows], np.arange(o.shape[1])[columns])] = True
    return np.where(grid, o + noise, o)


def _of_numpy(request, mistake):
    arrays = execute.start_arrays(request)
    for head in request.problem.heads():
        arrays["o"][head.at] = mistake(head).reshape(arrays["o"][head.at].shape)
    request = replace(request, backend="recorded")  # so that no kernel runs for its probes
    return explain(request, arrays, _errors(request, arrays))
