"""A family that nothing else knows: tensors, axes, types and values of its own. Tests drop it into an empty folder."""

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from kernels.core.fields import problem_field
from kernels.core.problem import Case, Problem
from kernels.core.tensors import Initial, Role, Tensor


@dataclass(frozen=True)
class OddProblem(Problem):
    """Plots of sun: every sample of a plot is multiplied by the plot's gain, and each plot's light is added up."""

    plots: int = problem_field(3, "rows of samples", low=1, high=1000)
    samples: int = problem_field(40, "samples of a plot", low=1, high=10000)
    seed: int = problem_field(0, "seed of the random inputs", low=0, high=2**32 - 1)

    title = "Odd"
    remedy = "Choose fewer plots or samples."

    def tensors(self):
        return (
            Tensor("sun", (self.plots, self.samples), "bfloat16", ("plot", "sample")),
            Tensor("gains", (self.plots,), "bfloat16", ("plot",)),
            Tensor("glow", (self.plots, self.samples), "bfloat16", ("plot", "sample"), Role.OUTPUT),
            Tensor("light", (self.plots,), "float32", ("plot",), Role.OUTPUT, Initial.ZERO),
        )

    def inputs(self):
        """sun [plots, samples] and gains [plots], bfloat16."""
        rng = np.random.default_rng(self.seed)
        shapes = {"sun": (self.plots, self.samples), "gains": (self.plots,)}
        return {name: rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for name, shape in shapes.items()}

    def _answer(self, kind):
        sun, gains = (array.astype(kind) for array in self.inputs().values())
        glow = sun * gains[:, None]
        return {"glow": glow, "light": glow.sum(axis=1)}

    def truth(self, on_gpu=False):
        return self._answer(np.float64)

    def yardstick(self, device="cpu"):
        made = self._answer(np.float32)
        return {"glow": made["glow"].astype(ml_dtypes.bfloat16), "light": made["light"]}

    def largest_terms(self):
        largest = float(np.abs(self.truth()["glow"]).max())
        return {"glow": largest, "light": self.samples * largest}

    @property
    def cpu_steps(self):
        return self.plots * self.samples

    @property
    def size(self):
        return f"{self.plots} plots of {self.samples} samples"

    @classmethod
    def check_cases(cls, kernel):
        return [Case(cls(plots, samples, seed)) for seed, (plots, samples) in enumerate(((1, 1), (3, 40), (5, 33)))]


PROBLEMS = {"odd": OddProblem}
