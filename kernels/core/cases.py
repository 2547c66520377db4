"""A problem's cases for a kernel: shared parts of their lists, and the cases without the refused ones."""

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kernels.core.fitting import fitted
from kernels.core.problem import Case, Problem
from kernels.core.scope import Scope
from kernels.errors import FrontMatterError, ProblemError

if TYPE_CHECKING:
    from kernels.core.spec import KernelSpec


@dataclass(frozen=True)
class Cases:
    """Cases of one kernel.

    possible: the allowed cases, in order.
    refused: the sentence of a refusal -> its number of cases.
    left: the cases that the conditions refuse.
    fault: the reason, with the kernel's file, if the problem cannot list its cases, else ""."""

    possible: list[Case]
    refused: Counter[str] = field(default_factory=Counter)
    fault: str = ""
    left: tuple[Case, ...] = ()

    @property
    def named(self) -> int:
        """All cases of the list, refused ones too."""
        return len(self.possible) + self.refused.total()


def cases_of(
    kernel: "KernelSpec",
    kind: str,
    fields: Mapping[str, object] | None = None,
    settings: Mapping[str, int] | None = None,
) -> Cases:
    """The cases of a kind, such as check_cases, from the kernel's problem.

    fields, settings: values in place of each case's own. Equal cases then count once."""
    try:  # a problem plans some of its cases, and without conditions no plan is refused
        named = list(getattr(kernel.problem_type, kind)(replace(kernel, conditions=())))
    except Exception as error:  # any fault of a user's own family
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        return Cases([], fault=f"{kernel.path.name}: {kind} of family {kernel.family} fails ({reason}). Mend it.")
    refused, changed = Counter[str](), []
    for case in named:
        try:
            problem = case.problem.with_fields(**fields) if fields else case.problem
            chosen = tuple({**dict(case.settings), **settings}.items()) if settings else case.settings
            changed.append(replace(case, problem=problem, settings=chosen))
        except ProblemError as error:
            refused[str(error)] += 1
    found = allowed(kernel, dict.fromkeys(changed) if fields or settings else changed)
    return Cases(found.possible, refused + found.refused, left=found.left)


def fitting_cases(
    kernel: "KernelSpec", fields: Mapping[str, object] | None = None, settings: Mapping[str, int] | None = None
) -> Cases:
    """cases_of check_cases. The nearest fitting case replaces a refused one: first of another size, and with another
    value of a list, such as dtype, while most cases are refused. fields: stay as they are."""
    found = cases_of(kernel, "check_cases", fields, settings)
    for sizes_only in (True, False):
        if not found.left or (not sizes_only and 2 * len(found.possible) >= found.named):
            continue
        held, known, kept = fields or {}, dict.fromkeys(found.possible), list[Case]()
        for case in found.left:
            other = next(fitted(kernel, [case], held, sizes_only), None)
            if other is None or other in known:
                kept.append(case)
            else:
                known[other] = None
        of_fields = found.refused - allowed(kernel, found.left).refused
        found = Cases([*known], of_fields + allowed(kernel, kept).refused, left=tuple(kept))
    return found


def allowed(kernel: "KernelSpec", cases: Iterable[Case]) -> Cases:
    """Divides cases by the kernel's conditions. A case with invalid conditions is possible, and its run fails."""
    possible, left, refused = [], list[Case](), Counter[str]()
    for case in cases:
        try:
            kernel.check_conditions(case.problem, kernel.settings(case.settings))
        except FrontMatterError:
            possible.append(case)
        except ProblemError as error:
            refused[str(error)] += 1
            left.append(case)
        else:
            possible.append(case)
    return Cases(possible, refused, left=tuple(left))


def sample(kernel: "KernelSpec") -> Case:
    """The kernel's default problem and constants, or its first possible check case. Raises FrontMatterError."""
    default = Case(kernel.problem_type())
    refused = allowed(kernel, [default]).refused
    if not refused:
        return default
    found = fitting_cases(kernel)
    if found.fault:
        raise FrontMatterError(found.fault)
    if not found.possible:
        raise FrontMatterError(
            f"{kernel.path.name}: its conditions refuse every check problem of family {kernel.family} "
            f"({next(iter(refused))}). Loosen [[conditions]]."
        )
    return found.possible[0]


# ---- parts of the lists of families ----

Settings = tuple[tuple[str, int], ...]


def values(kernel: "KernelSpec", defaults: bool = False) -> list[tuple[str, int]]:
    """Each value of each constant, without what-if constants, which break the kernel. defaults: with the defaults."""
    constants = [constant for constant in kernel.constants if not constant.what_if]
    return [(c.name, value) for c in constants for value in c.values if defaults or value != c.default]


def what_ifs(kernel: "KernelSpec", problem: Problem, settings: Settings = ()) -> list[Case]:
    """Every what-if build, on the problem with the scores at which its fault shows."""
    return [
        Case(problem.with_fields(score_scale=constant.shows_at), (*settings, (constant.name, value)))
        for constant in kernel.what_ifs
        for value in constant.values
        if value != constant.default
    ]


def small_tiles(kernel: "KernelSpec") -> Settings:
    """The smallest tile sizes of the kernel, unless they are its defaults."""
    constants = kernel.constants_of("query_rows", "key_rows")
    return tuple((c.name, min(c.values)) for c in constants if min(c.values) != c.default)


def tuned(kernel: "KernelSpec", cases: Iterable[Case]) -> list[Case]:
    """The cases with a plan. Constants without a value take the tuned one."""
    found = []
    for case in cases:
        settings = tuple(kernel.settings_for(case.problem, case.settings).items())
        with suppress(ProblemError):
            kernel.plan(case.problem, settings)
            found.append(replace(case, settings=settings))
    return found


def traced(kernel: "KernelSpec", cases: Iterable[Case]) -> list[Case]:
    """The cases, each with the scope of all its items."""
    return [replace(case, scope=Scope.everything(kernel.plan(case.problem, case.settings))) for case in cases]
