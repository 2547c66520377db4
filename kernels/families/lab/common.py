"""The common parts of the lab's problems: exact answers, counted accesses, and cases."""

from collections.abc import Iterable, Sequence

import numpy as np

from kernels.core.cases import traced
from kernels.core.problem import Case, Problem
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Initial

WARP = 32  # lanes


class LabProblem(Problem):
    """A problem of the lab, with small whole numbers and therefore exact sums in any order. Any error is a miss. The
    truth is its own yardstick, and the problem has no largest term."""

    seed: int

    @property
    def accesses(self) -> int:
        """The reads and writes of numbers in every memory and pass, or the arithmetic operations if they are more."""
        raise NotImplementedError

    @property
    def cpu_steps(self) -> int:
        """The accesses, and one step for each 4 bytes of the inputs. The CPU takes as long to make them as to read
        them."""
        return self.input_bytes // 4 + self.accesses

    def inputs(self) -> dict[str, np.ndarray]:
        """x: small whole numbers, for a problem with only this input and a seed."""
        (x,) = (tensor for tensor in self.tensors() if tensor.initial is Initial.GIVEN)
        rng = np.random.default_rng(self.seed)
        return {"x": rng.integers(-8, 9, x.shape).astype(np.float32)}

    @property
    def x(self) -> np.ndarray:
        return self.inputs()["x"].astype(np.float64)

    @classmethod
    def cases(cls) -> Iterable[Case]:
        raise NotImplementedError

    @classmethod
    def recorded(cls) -> Iterable[Case]:
        return [Case(cls())]

    @classmethod
    def counted(cls) -> Iterable[Case]:
        """The cases for Nsight Compute. Empty for a problem that calibrate compares access by access, or that has only
        times."""
        return []

    @classmethod
    def check_cases(cls, kernel: KernelSpec) -> list[Case]:
        return fitting(cls.cases(), kernel)

    @classmethod
    def recorded_cases(cls, kernel: KernelSpec) -> list[Case]:
        return traced(kernel, fitting(cls.recorded(), kernel))

    @classmethod
    def counter_cases(cls, kernel: KernelSpec) -> list[Case]:
        return fitting(cls.counted(), kernel)


def fitting(cases: Iterable[Case], kernel: KernelSpec) -> list[Case]:
    """The cases whose settings are constants of the kernel. Another kernel of a problem may have fewer constants."""
    constants = {constant.name for constant in kernel.constants}
    return [case for case in cases if {name for name, _ in case.settings} <= constants]


def tiled(problem: Problem, tile: dict[str, int]) -> Case:
    """A case of a problem that reads its tile in one of the ways of TILES."""
    return Case(problem, tuple(tile.items()))


def numbered(name: str, choices: Sequence[str], chosen: str) -> dict[str, int]:
    """A choice as constants of a build. NAME is the number of `chosen`, and NAME_CHOICE the number of each choice. A
    .cu then says `SPACE == SPACE_SHARED`, and the list of choices exists once."""
    places = {f"{name}_{choice}".upper(): place for place, choice in enumerate(choices)}
    return {name.upper(): choices.index(chosen), **places}
