"""Duels of the problems that declare them (Problem.duel_problems), in recordings/data/gradient_duels/.

Kernels and the peers of the problem take turns as in duels.py, rested and sustained. A problem declares its problems,
the first of its rungs, and constants whose other values are entries too.
"""

from kernels import catalog
from kernels.core.problem import Problem
from kernels.measure import peers
from kernels.measure.meeting import Entry, duel_table, tried

KIND = "gradient_duels"


def problems() -> list[Problem]:
    kinds = dict.fromkeys(spec.problem_type for spec in catalog.current().kernels.values())
    return [problem for kind in kinds for problem in kind.duel_problems()]


def entries(problem: Problem) -> list[Entry]:
    """The kernels from the class's duels_from on, as tuned, and with every other value of each of duel_constants."""
    kind = problem.problem_type
    names = [name for name, spec in catalog.current().of_problem(kind).items() if spec.rung >= kind.duels_from]
    return [entry for name in names for entry in tried(name, problem, problem.duel_constants)]


TABLE = duel_table(KIND, lambda: [(problem, entries(problem), peers.asked_of(problem)) for problem in problems()])
recorded = TABLE.newest
