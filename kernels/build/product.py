"""The types of a build: its mode, its product, the facts about its entries, and the compilers' interface."""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol

from kernels.core.spec import KernelSpec

CPU = "cpu"
DEFAULT_ARCH = "sm_90a"


class Mode(Enum):
    """TIMED compiles the probes to nothing; PROBED writes a trace; TIMELINE notes only when and on which
    multiprocessor each block ran; MARKS when each step of its warps began. A kernel's time comes only from TIMED."""

    TIMED = "timed"
    PROBED = "probed"
    TIMELINE = "timeline"
    MARKS = "marks"


@dataclass(frozen=True)
class EntryFacts:
    """What ptxas said of one kernel in a cubin. Shared bytes are static ones; a launch adds its dynamic ones."""

    entry: str
    registers: int
    shared_bytes: int
    spill_bytes: int
    stack_bytes: int


@dataclass(frozen=True)
class Build:
    """A compiled kernel: `path` is a cubin or a shared library, `facts` is empty for the CPU. log: what the compiler
    said."""

    kernel: str
    mode: Mode
    target: str
    path: Path
    compiler: str
    log: str
    facts: tuple[EntryFacts, ...] = ()

    @property
    def ptx_path(self) -> Path:
        return self.path.with_suffix(".ptx")


class Toolchain(Protocol):
    """What makes a product of a kernel's files: cpp.Toolchain and nvrtc.Toolchain."""

    suffix: str
    version: str
    options: list[str]

    def headers(self) -> tuple[tuple[str, str], ...]:
        """(name, text) of the headers that it adds to the kernel's own."""

    def compile(self, spec: KernelSpec, options: list[str], folder: Path) -> tuple[str, tuple[EntryFacts, ...]]:
        """Writes the product, named as the kernel, into the folder; the log and the facts. Raises BuildError."""
