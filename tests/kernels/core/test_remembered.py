"""A cache that keeps no more than a bounded question holds."""

from kernels.catalog import KERNELS
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
