"""The work list by the kernel of plan_decode, against the work list of the host."""

import numpy as np
import pytest

from kernels.build import CPU, Mode, build
from kernels.catalog import load_kernel
from kernels.core.scope import Scope
from kernels.families.paged.plan import PlanProblem
from kernels.kv_cache.work_list import padded, work_list
from kernels.ops.paged import PLANNER
from kernels.run.backends import cpu


@pytest.fixture(scope="module")
def made():
    spec = load_kernel(PLANNER)
    return spec, build(spec, {}, Mode.TIMED, CPU)


@pytest.mark.parametrize("case", PlanProblem.check_cases(load_kernel(PLANNER)), ids=lambda case: case.problem.size)
def test_the_kernel_writes_the_list_of_the_host(made, case):
    spec, built = made
    problem = case.problem
    arrays = {**problem.inputs(), "units": np.full((problem.rows, 8), -77, np.int32)}
    cpu.launch(built, spec.plan(problem, {}), arrays, Scope())
    assert np.array_equal(arrays["units"], problem.truth()["units"])


def test_the_padded_list_has_every_unit_of_the_list_and_its_order():
    lengths = np.array([700, 3, 81, 16])
    host = work_list(np.zeros(4, int), -(-lengths // 16), lengths, 3)
    list_of = padded(host, 5, 4)

    def chains(units, ranges):
        found = []
        for row in range(ranges):
            while row >= 0:
                found.append((*units[row, :3], *units[row, 4:]))
                row = units[row, 3]
        return found

    assert chains(list_of, 3) == chains(host.units, 3)
    assert (list_of[3:5, [2, 7]] == 0).all() and list_of.shape == (9, 8)


def test_a_plan_of_no_sequence_is_refused():
    from kernels.errors import ProblemError

    with pytest.raises(ProblemError, match="context_lens is empty"):
        PlanProblem(())
