"""The rows of a duel: the entries of a kernel, the job of a problem, and the rows that a table has already."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import pandas as pd

from kernels.core.problem import Problem
from kernels.core.spec import KernelSpec
from kernels.errors import WarpglassError
from kernels.measure.bench_rows import Row, problem_text, settings_text
from kernels.measure.meeting import meet

Entry = tuple[str, dict[str, int]]
One = TypeVar("One", bound=Problem)
TIME_LIMIT = 300.0  # seconds for one problem


def tried(name: str, spec: KernelSpec, problem: Problem, constants: Iterable[str]) -> list[Entry]:
    """(kernel, its constants): as tuned to the problem, and with every other value of each of these constants."""
    tuned = spec.settings_for(problem)
    others = [c for c in spec.constants if c.name in constants]
    return [(name, tuned), *((name, tuned | {c.name: v}) for c in others for v in c.values if v != tuned[c.name])]


def met(problem: Problem, entries: Sequence[Entry], rivals: Sequence[str], failed: list[str]) -> dict[str, list[Row]]:
    """The rows of a problem, by its text. A failure goes to `failed`, and the other problems follow."""
    from kernels.run import workers

    job = workers.submit(meet, problem, entries, rivals, backend="gpu", title="Duels", time_limit=TIME_LIMIT)
    try:
        return {problem_text(problem): job.result()}
    except WarpglassError as error:
        failed.append(f"{problem.size}: {str(error).rstrip('.')}")
        return {}


def kept(
    present: pd.DataFrame, asked: Iterable[One], due: Callable[[One], tuple[Sequence[Entry], Sequence[str]]]
) -> dict[str, list[Row]]:
    """The rows of each problem with all its rows, by its text. due: the entries and rivals of a problem."""
    found = {}
    for problem in asked:
        rows = present[present.problem == problem_text(problem)]
        entries, rivals = due(problem)
        wanted = {(name, settings_text(chosen.items()), rival) for name, chosen in entries for rival in rivals}
        if wanted <= set(zip(rows["name"], rows.settings, rows.peer)):
            found[problem_text(problem)] = rows.to_dict("records")
    return found
