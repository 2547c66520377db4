"""The backward of dense attention: from Q, K, V, O, lse and the gradient dO of O to the gradients dQ, dK and dV."""

from kernels.families.backward.problem import GradientProblem, SixteenBitGradientProblem

AFTER = "tensor_cores"  # readers meet the forward first
PROBLEMS = {"gradients": GradientProblem, "gradients_16": SixteenBitGradientProblem}
"""The problems of the backward kernels: gradients in fp32, and in 16 bits for tensor cores."""
