"""The types of a build: its mode, its product, the facts about its entries, and the compilers' interface."""

import re
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
    MARKS: the start of each step of its warps."""

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
    stack_bytes: local memory of a thread: its spills, and its arrays with indices that only a run knows.
    symbol: its name in the cubin. An instance of a template has another one than in the comment."""

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
    jailed: whether it is a stranger's and runs only in the jail."""

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


_EXPANDED = re.compile(r"(?<![^\s:])([^\s:]++):(\d++):\d++: note: in expansion of macro")
_UNDEFINED = re.compile(r"undefined (?:reference to|symbol:?) [`'\"]?(?:\w+::)*(\w+)")
_MISSING = {  # a variable of the probes -> the remedy
    "probe_writer": "a probe comes before PROBE_BEGIN(). Write PROBE_BEGIN(); first. A device function's parameters "
    "end with PROBE_REF, and its arguments with PROBE_PASS",
    "probe_records": "PROBE_BEGIN() needs PROBE_PARAM. End the kernel's parameters with it",
}


def first_error(spec: KernelSpec, log: str, pattern: re.Pattern[str]) -> str:
    """The first error of a log. pattern: with the groups file, line and error."""
    found = pattern.search(log)
    refused = re.search(r"^ptxas .*error\s*: (.*)$", log, re.M)
    if refused and not found:
        later = re.search(r"Feature '\.?(.*?)' requires \.target (\w+) or higher", refused[1])
        said = f"It needs {later[2]} or later for {later[1]}." if later else refused[1]
        return f"{spec.path.name} does not compile for this architecture: {said}"
    undefined = _UNDEFINED.search(log)
    if undefined and not found:
        used = re.compile(rf"\b{re.escape(undefined[1])}\b")
        lines = ((file, line) for file, text in spec.files for line in enumerate(text.splitlines(), 1))
        first = (f"{file} line {n}" for file, (n, line) in lines if used.search(line.partition("//")[0]))
        return (
            f"{next(first, spec.path.name)}: {undefined[1]} has no definition on the CPU. Use a function of the C "
            "library, such as expf, or of kernels/device/ptx.cuh."
        )
    if not found:
        return f"{spec.path.name} does not compile: {log.strip()[:2000]}"
    own, file, line = spec.files[0][0], Path(found[1]).name, found[2]
    if file != own:  # an error in a macro of a header has the line of the macro's use in the .cu
        end = log.find(" error: ", found.end())
        uses = _EXPANDED.findall(log, found.end(), end if end > 0 else len(log))
        file, line = next(((own, at) for use, at in uses if Path(use).name == own), (file, line))
    unknown = re.search(r"not declared|undeclared|undefined", found[3])
    remedies = [remedy for name, remedy in _MISSING.items() if unknown and name in found[3]]
    return f"{file} line {line}: {remedies[0] if remedies else found[3].strip()}"
