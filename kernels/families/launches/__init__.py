"""One step of a server, a prompt's attention next to decoding, started in several ways, and a ragged batch."""

from kernels.families.launches.problem import RaggedProblem, StepProblem

AFTER = "fusion"
PROBLEMS = {"step": StepProblem, "ragged": RaggedProblem}
