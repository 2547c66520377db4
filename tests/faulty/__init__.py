"""Kernels that are wrong on purpose, to see what the runtime says. Importable by worker processes."""

from pathlib import Path

from kernels.catalog import load_kernel
from kernels.core.spec import KernelSpec


def spec(name: str) -> KernelSpec:
    """The faulty kernel of that name: one block of 64 threads over o, of a dense problem."""
    return load_kernel(Path(__file__).parent / f"{name}.cu")
