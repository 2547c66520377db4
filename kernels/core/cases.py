"""The cases that a problem names for a kernel, without those that the kernel's conditions refuse."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernels.core.problem import Case
from kernels.errors import FrontMatterError, ProblemError

if TYPE_CHECKING:
    from kernels.core.spec import KernelSpec


@dataclass(frozen=True)
class Cases:
    """Cases of one kernel.

    possible: the cases that its conditions allow, in order.
    refused: the sentence of a condition -> how many cases it refuses.
    """

    possible: list[Case]
    refused: Counter[str]


def allowed(kernel: "KernelSpec", cases: Iterable[Case]) -> Cases:
    """These cases, sorted by the kernel's conditions. A case whose conditions cannot be evaluated counts as possible:
    its run then says what is wrong."""
    possible, refused = [], Counter[str]()
    for case in cases:
        try:
            kernel.check_conditions(case.problem, kernel.settings(case.settings))
        except FrontMatterError:
            possible.append(case)
        except ProblemError as error:
            refused[str(error)] += 1
        else:
            possible.append(case)
    return Cases(possible, refused)


def cases_of(kernel: "KernelSpec", kind: str) -> Cases:
    """The cases of a kind such as check_cases that the kernel's problem names. Raises FrontMatterError, with the file,
    if the problem cannot name them."""
    try:
        return allowed(kernel, getattr(kernel.problem_type, kind)(kernel))
    except FrontMatterError:
        raise
    except Exception as error:  # whatever a user's own family raises
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        raise FrontMatterError(
            f"{kernel.path.name}: {kind} of family {kernel.family} fails ({said}). Mend it, or the kernel's constants."
        ) from None


def sample(kernel: "KernelSpec") -> Case:
    """The kernel's default problem and constants, or if its conditions refuse these, its first possible check case.
    Raises FrontMatterError if there is none."""
    default = Case(kernel.problem_type())
    refused = allowed(kernel, [default]).refused
    if not refused:
        return default
    possible = cases_of(kernel, "check_cases").possible
    if not possible:
        raise FrontMatterError(
            f"{kernel.path.name}: its conditions refuse every problem that family {kernel.family} checks "
            f"({next(iter(refused))}). Loosen [[conditions]]."
        )
    return possible[0]
