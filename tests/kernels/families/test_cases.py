"""The cases that dense and paged attention name: to record, to sweep, to compare with counters, to draw timelines of.

What the cases of a check must cover is asserted where they are run, in run/test_check.py.
"""

import re
from itertools import product

import pytest

from kernels.catalog import KERNELS, current
from kernels.core.cases import allowed as of_conditions
from kernels.core.cases import sample
from kernels.core.fields import fields_of
from kernels.core.problem import Case
from kernels.families.dense import DenseProblem
from kernels.families.dense.problem import MOST_BLOCKS
from kernels.families.paged import PagedProblem
from kernels.kv_cache.scenarios import PRESETS
from kernels.measure.bench import recorded_points
from kernels.measure.protocol import Point
from kernels.measure.sweeps import can_sweep

DENSE, PAGED = current().of_problem(DenseProblem), current().of_problem(PagedProblem)
OURS = current().of_family("dense", "paged")
KINDS = {spec.problem_type.__name__: spec.problem_type for spec in OURS.values()}


@pytest.mark.parametrize("kernel", OURS.values(), ids=OURS)
@pytest.mark.parametrize("which", ["check_cases", "recorded_cases", "counter_cases", "timeline_cases"])
def test_every_case_is_a_problem_of_the_kernel_and_has_a_plan(kernel, which):
    cases = list(getattr(kernel.problem_type, which)(kernel))
    assert len({(case.problem, case.settings) for case in cases}) == len(cases)
    for case in cases:
        plan = kernel.plan(case.problem, case.settings)
        assert isinstance(case.problem, kernel.problem_type) and plan.items > 0
        if case.scope:
            case.scope.check(plan)


@pytest.mark.parametrize("kernel", DENSE.values(), ids=DENSE)
def test_what_is_recorded_of_a_dense_kernel(kernel):
    """The default, causal, a ragged one, every what-if value and every padding, each over its first head."""
    cases = list(kernel.problem_type.recorded_cases(kernel))
    problems = [case.problem for case in cases]
    assert {p.causal for p in problems} == {False, True} and {p.seq_len for p in problems} == {50, 64}
    chosen = [dict(case.settings) for case in cases]
    for constant in kernel.constants:
        wanted = (
            set(constant.values) - {constant.default} if constant.what_if or constant.name.startswith("PAD") else set()
        )
        assert wanted <= {settings.get(constant.name) for settings in chosen}
    for case in cases:
        tiles = kernel.plan(case.problem, case.settings).items
        assert case.scope.first == 0 and case.scope.count * case.problem.batch * case.problem.num_heads == tiles
    assert all(c.shows_at in {p.score_scale for p in problems} for c in kernel.what_ifs)


@pytest.mark.parametrize("kernel", PAGED.values(), ids=PAGED)
def test_each_scenarios_end_is_recorded_as_allocated_and_shuffled(kernel):
    cases = list(kernel.problem_type.recorded_cases(kernel))
    ends = [scenario.states(16)[-1][0] for scenario in PRESETS.values()]
    for lens in {tuple(len(s.tokens) for s in cache.sequences) for cache in ends}:
        assert len({c.problem.block_tables for c in cases if c.problem.context_lens == lens}) >= 2
    assert all(case.scope.count == kernel.plan(case.problem, case.settings).items for case in cases)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_point_of_a_recorded_sweep_is_a_problem_of_a_kernel(kind):
    fields = {*fields_of(kind), *kind.derived_fields}
    for sweeps, held in kind.bench_sweeps():
        names = [name for name, _ in sweeps] + list(held)
        assert len(set(names)) == len(names) and set(held) <= fields
        assert any(can_sweep(kernel, sweeps) for kernel in current().of_problem(kind).values()), names
        of_the_problem = [(name, values) for name, values in sweeps if name in fields]
        for values in product(*(values for _, values in of_the_problem)):
            problem = kind.bench_default()
            for name, value in {**held, **dict(zip((name for name, _ in of_the_problem), values))}.items():
                derive = kind.derived_fields.get(name)
                problem = problem.with_fields(**(derive(problem, value) if derive else {name: value}))
            assert isinstance(problem, kind)


def test_a_padded_kernel_is_counted_with_every_padding_and_one_without_once():
    for kernel in DENSE.values():
        padding = [(c.name, v) for c in kernel.constants if c.name.startswith("PAD") for v in c.values]
        counted = [case.settings for case in DenseProblem.counter_cases(kernel)]
        assert set(counted) == {(pair,) for pair in padding} if padding else counted == [()]


def test_a_padded_kernel_is_timed_at_every_padding():
    """So that a bank conflict has its price in microseconds."""
    timed = {(p.name, s) for p in recorded_points() if isinstance(p, Point) for s in p.settings}
    for name, kernel in DENSE.items():
        assert {(name, (c.name, v)) for c in kernel.constants if c.name.startswith("PAD") for v in c.values} <= timed


def test_a_recorded_timeline_has_a_row_for_each_block_and_not_too_many():
    for kernel in DENSE.values():
        for case in DenseProblem.timeline_cases(kernel):
            assert sum(launch.blocks for launch in kernel.plan(case.problem).launches) <= MOST_BLOCKS
    assert [case.problem.seq_len for case in DenseProblem.timeline_cases(KERNELS["03_flash"])][-1] == 4096


STATED = {
    name: found
    for name, spec in KERNELS.items()
    if (found := re.search(r"HEAD_DIM (\d+)((?:, \d+)*) (or|to) (\d+)", spec.limits))
}


@pytest.mark.parametrize("name", STATED)
def test_a_kernel_accepts_the_head_dims_that_its_limits_state_and_no_other(name):
    kernel, (first, others, join, last) = KERNELS[name], STATED[name].groups()
    allowed = fields_of(kernel.problem_type)["head_dim"].metadata["allowed"]
    stated = {int(first), *map(int, others.split(", ")[1:]), int(last)}
    if join == "to":
        stated = {dim for dim in allowed if int(first) <= dim <= int(last)}
    begin = sample(kernel).problem
    cases = [Case(begin.with_fields(head_dim=dim)) for dim in allowed]
    cases = [Case(case.problem, tuple(kernel.settings_for(case.problem).items())) for case in cases]
    assert {case.problem.head_dim for case in of_conditions(kernel, cases).possible} == stated
