"""The types of a build: its mode, its product, the facts about its entries, and the compilers' interface."""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol

from kernels.core.spec import KernelSpec

CPU = "cpu"
DEFAULT_ARCH = "sm_90a"


class Mode(Enum):
    """The use of the probes. A kernel's time comes only from TIMED.

    TIMED: none.
    PROBED: a trace.
    TIMELINE: the time and SM of each block.
    MARKS: the start of each step of its warps.
    """

    TIMED = "timed"
    PROBED = "probed"
    TIMELINE = "timeline"
    MARKS = "marks"


@dataclass(frozen=True)
class EntryFacts:
    """ptxas's report on one kernel of a cubin.

    registers: of each thread.
    shared_bytes: static shared memory of a block. A launch adds its dynamic bytes.
    spill_bytes: spill stores and loads of a thread.
    stack_bytes: stack frame of a thread.
    symbol: its name in the cubin. An instance of a template has another one than in the comment.
    """

    entry: str
    registers: int
    shared_bytes: int
    spill_bytes: int
    stack_bytes: int
    symbol: str = ""


@dataclass(frozen=True)
class Build:
    """A compiled kernel.

    target: "cpu" or an architecture.
    path: a cubin or a shared library.
    facts: one for each kernel of a cubin, none for the CPU.
    jailed: whether it is a stranger's and runs only in the jail.
    """

    kernel: str
    mode: Mode
    target: str
    path: Path
    compiler: str
    log: str
    facts: tuple[EntryFacts, ...] = ()
    jailed: bool = False

    @property
    def symbols(self) -> set[str]:
        return {fact.symbol or fact.entry for fact in self.facts}

    def symbol_of(self, entry: str) -> str:
        return next((fact.symbol for fact in self.facts if fact.entry == entry and fact.symbol), entry)

    @property
    def ptx_path(self) -> Path:
        return self.path.with_suffix(".ptx")


class Toolchain(Protocol):
    """A compiler: cpp.Toolchain or nvrtc.Toolchain. suffix: of the product's file name."""

    suffix: str
    version: str
    options: list[str]

    def headers(self) -> tuple[tuple[str, str], ...]:
        """(name, text) of the additional headers."""

    def compile(self, spec: KernelSpec, options: list[str], folder: Path) -> tuple[str, tuple[EntryFacts, ...]]:
        """Writes the product into the folder, under the kernel's name. Returns log and facts. Raises BuildError."""
