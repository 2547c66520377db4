"""One step of a server, a prompt's attention next to decoding, started in several ways."""

from kernels.families.launches.problem import StepProblem

AFTER = "fusion"
PROBLEMS = {"step": StepProblem}
