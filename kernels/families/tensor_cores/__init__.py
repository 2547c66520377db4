"""Dense attention over 16-bit numbers on tensor cores: the upper rungs of the ladder. The lower rungs are in
families/dense."""

from kernels.families.tensor_cores.problem import SixteenBitProblem

PROBLEMS = {"attention": SixteenBitProblem}
