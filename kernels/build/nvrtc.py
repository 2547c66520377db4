"""NVRTC, the CUDA compiler as a library: it makes a cubin and PTX for one architecture, without a GPU."""

import re
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import ModuleType

from kernels.build import confined, linking, nvrtc_program, packages
from kernels.build.log import first_error
from kernels.build.nvrtc_program import Program, checked
from kernels.build.plain import nvidia
from kernels.build.product import EntryFacts
from kernels.core.spec import GPU_OPTIONS, KernelSpec
from kernels.errors import BackendUnavailable, BuildError, ProblemError

HAS_CACHE = (12, 9)  # the first NVRTC with a cache of its own
_ERROR = re.compile(r"(?<![^\s:])([^\s:]+\.cuh?)\((\d+)\): (?:catastrophic )?error: (.*)")


@lru_cache
def _nvrtc() -> ModuleType:
    try:
        from cuda.bindings import nvrtc

        checked(nvrtc, nvrtc.nvrtcVersion())
    except (ImportError, RuntimeError, OSError, AttributeError) as error:
        raise BackendUnavailable(
            f"NVRTC, the CUDA compiler, could not be loaded ({error}). Run: {packages.command()}"
        ) from None
    return nvrtc


def version() -> tuple[int, int]:
    """NVRTC's CUDA version. Raises BackendUnavailable."""
    nvrtc = _nvrtc()
    major, minor = checked(nvrtc, nvrtc.nvrtcVersion())
    return major, minor


@lru_cache
def architectures() -> tuple[str, ...]:
    """This NVRTC's targets: the plain ones, and from sm_90 on the arch-specific "a" ones."""
    nvrtc = _nvrtc()
    numbers = checked(nvrtc, nvrtc.nvrtcGetSupportedArchs())
    return tuple(f"sm_{n}{suffix}" for n in numbers for suffix in (("", "a") if n >= 90 else ("",)))


class Toolchain:
    """The compiler for one architecture such as sm_90a (product.Toolchain).

    plain: whether for plain kernels.
    links: whether for kernels that launch kernels. Their code is relocatable, and nvJitLink links it.
    """

    suffix = ".cubin"

    def __init__(self, arch: str, plain: bool = False, links: bool = False) -> None:
        self.nvrtc, self.plain = _nvrtc(), plain
        if arch not in architectures():
            raise ProblemError(f"arch is {arch!r}. This NVRTC knows {', '.join(architectures())}.")
        self.version = "NVRTC {}.{}".format(*version())
        self.arch = arch
        self.options = [*GPU_OPTIONS, f"--gpu-architecture={arch}", "--ptxas-options=-v"]
        if version() >= HAS_CACHE:
            # a product of NVRTC's own cache lacks the log with registers and spills
            self.options.append("--no-cache")
        self.links = links
        if links:
            self.version += f", {linking.version()}"
            self.options.append(linking.RELOCATABLE)

    def headers(self) -> tuple[tuple[str, str], ...]:
        """(name, text) of the additional headers."""
        return nvidia.headers() if self.plain else ()

    def compile(self, spec: KernelSpec, options: list[str], folder: Path) -> tuple[str, tuple[EntryFacts, ...]]:
        """Writes cubin and PTX into the folder. NVRTC gets the headers as text. Raises BuildError."""
        (name, source), *headers = nvidia.files_of(spec) if spec.plain else spec.files
        options = [*options, *nvidia.include_options()] if spec.plain else options
        instances = nvidia.instances(spec, options)
        asked = Program(name, source, tuple(headers), tuple(options), tuple(instances))
        ask = nvrtc_program.compiled_in_jail if confined.is_wanted() else nvrtc_program.compiled
        made = ask(self.nvrtc, asked)
        if not made.cubin:
            raise BuildError(first_error(spec, made.log, _ERROR))
        cubin = linking.linked(name, self.arch, made.cubin) if self.links else made.cubin
        (folder / f"{spec.name}.cubin").write_bytes(cubin)
        (folder / f"{spec.name}.ptx").write_bytes(made.ptx)
        lowered = dict(zip(made.lowered, instances.values()))
        facts = tuple(
            replace(fact, entry=lowered.get(fact.entry, fact.entry), symbol=fact.entry)
            for fact in ptxas_facts(made.log)
        )
        if not facts:
            raise BuildError(
                f"{name} was compiled for {self.arch}, but ptxas reported no registers. Its log: {made.log[:500]!r}"
            )
        return made.log, facts


def ptxas_facts(log: str) -> tuple[EntryFacts, ...]:
    """An EntryFacts for each kernel in the log of ptxas -v."""
    facts = []
    for part in re.split(r"Compiling entry function '", log)[1:]:

        def number(pattern: str, part: str = part) -> int:
            found = re.search(pattern, part)
            return int(found[1]) if found else 0

        spilled = number(r"(\d+) bytes spill stores") + number(r"(\d+) bytes spill loads")
        registers, shared = number(r"Used (\d+) registers"), number(r"(\d+) bytes smem")
        facts.append(EntryFacts(part.split("'")[0], registers, shared, spilled, number(r"(\d+) bytes stack frame")))
    return tuple(facts)
