"""Kernels that are wrong on purpose, to see what the runtime says. Importable by worker processes."""

from pathlib import Path

from kernels.catalog import KernelSpec
from kernels.plan import Launch, Plan


def one_block(problem, settings):
    """One block of 64 threads over o."""
    return Plan((Launch("broken", (1, 1, 1), (64, 1, 1), 0, ("o",), 1),), {"o": problem.shape}, 1)


def spec(name):
    return KernelSpec(name, name, "faulty", 0, (), one_block, folder=Path(__file__).parent)
