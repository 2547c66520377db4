"""A cache that keeps no more than a bounded question holds."""

import numpy as np
import pytest

from kernels.catalog import KERNELS
from kernels.core.distinct import distinct
from kernels.core.remembered import MOST_NUMBERS, numbers_in, remembered
from kernels.families.paged.problem import PagedProblem


def test_answers_are_kept_but_not_those_of_large_questions_such_as_plans_of_many_pages():
    asked = []

    @remembered(8)
    def length(numbers):
        asked.append(len(numbers))
        return len(numbers)

    small, large = (1, 2), tuple(range(MOST_NUMBERS + 1))
    assert [length(small), length(small), length(large), length(large)] == [2, 2, len(large), len(large)]
    assert asked == [2, len(large), len(large)]
    spec = KERNELS["paged_v1"]
    problem = PagedProblem(context_lens=(100,) * 2000)
    assert numbers_in((spec, problem, (("WARPS", 4),))) > MOST_NUMBERS > numbers_in((spec, PagedProblem(), ()))
    assert spec.plan(problem) is not spec.plan(problem)
    assert spec.plan(PagedProblem()) is spec.plan(PagedProblem())


# ---- distinct numbers are those of np.unique ----


@pytest.mark.parametrize("numbers", [[], [3], [2, 2, 2], [[5, -1], [5, 0]], [2**62, -(2**62), 2**62]])
def test_distinct_numbers_ascend_and_each_is_there_once(numbers):
    array = np.array(numbers, np.int64)
    assert distinct(array).tolist() == sorted({int(number) for number in array.ravel()})
