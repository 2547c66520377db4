"""What the lab's problems share: they have exact answers, they count their accesses, and their cases stand in
cases.py."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from kernels.core.fields import problem_field
from kernels.core.problem import Case, Problem

WARP = 32  # lanes


class LabProblem(Problem):
    """A problem of the lab. It holds small whole numbers, so that every sum is exact in any order: the smallest error
    is a miss. Its truth is therefore its own yardstick, and it has no largest term."""

    @property
    def accesses(self) -> int:
        """Numbers that the kernel reads or writes, in every memory and every pass, or the arithmetic if that is
        more."""
        raise NotImplementedError

    @property
    def cpu_steps(self) -> int:
        """The accesses, and one step for each 4 bytes of the inputs: on the CPU they take as long to make as to
        read."""
        return self.input_bytes // 4 + self.accesses

    @classmethod
    def check_cases(cls, kernel: Any) -> Iterable[Case]:
        from kernels.families.lab import cases

        return cases.check(cls, kernel)

    @classmethod
    def recorded_cases(cls, kernel: Any) -> Iterable[Case]:
        from kernels.families.lab import cases

        return cases.recorded(cls, kernel)

    @classmethod
    def counter_cases(cls, kernel: Any) -> Iterable[Case]:
        from kernels.families.lab import cases

        return cases.counted(cls, kernel)


def small_numbers(seed: int, *shape: int) -> np.ndarray:
    """Random whole numbers from -8 to 8 as float32, in an array of that shape."""
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(np.float32)


def seed_field() -> int:
    """The field `seed`."""
    return problem_field(0, "seed of the random inputs", low=0, high=2**32 - 1)


def numbered(name: str, choices: Sequence[str], chosen: str) -> dict[str, int]:
    """A choice as constants of a build: NAME is the place of `chosen`, and NAME_CHOICE the place of each choice, so
    that a .cu can say `SPACE == SPACE_SHARED` and nobody lists the choices twice."""
    places = {f"{name}_{choice}".upper(): place for place, choice in enumerate(choices)}
    return {name.upper(): choices.index(chosen), **places}
