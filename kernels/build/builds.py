"""Source + mode + target -> Build. NVRTC makes a cubin for one architecture (no GPU needed), the system's C++
compiler a shared library of the same source over kernels/device/simt. The text that is hashed is the text that is
compiled: KernelSpec.files, never the disk again."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from kernels.build import cache, cpp, nvrtc
from kernels.build.product import CPU, Build, EntryFacts, Mode, Toolchain
from kernels.core.spec import KernelSpec

DEVICE = Path(__file__).parents[1] / "device"


def build(spec: KernelSpec, defines: Mapping[str, int], mode: Mode, target: str) -> Build:
    """The Build of a kernel for "cpu" or an architecture such as sm_90a, made or taken from the cache.

    Raises BuildError with file and line, BackendUnavailable where there is no compiler, ProblemError for an unknown
    target.
    """
    toolchain = _toolchain(target)
    options = [f"-D{name}={value}" for name, value in sorted(defines.items())]
    if mode is Mode.MARKS:
        spec = _marked(spec)
    options += _OPTIONS[mode](spec) + toolchain.options
    files = (*spec.files, *toolchain.headers())
    key = cache.key_of(spec.name, toolchain.version, target, *options, *(part for file in files for part in file))
    product = f"{spec.name}{toolchain.suffix}"

    def make(folder: Path) -> dict[str, Any]:
        log, facts = toolchain.compile(spec, options, folder)
        return {"log": log, "facts": [asdict(fact) for fact in facts]}

    folder, made = cache.get(key, product, make)
    facts = tuple(EntryFacts(**fact) for fact in made["facts"])
    return Build(spec.name, mode, target, folder / product, toolchain.version, made["log"], facts)


_OPTIONS: dict[Mode, Callable[[KernelSpec], list[str]]] = {
    Mode.TIMED: lambda spec: [],
    Mode.PROBED: lambda spec: ["-DPROBED"],
    Mode.TIMELINE: lambda spec: ["-DTIMELINE"],
    Mode.MARKS: lambda spec: [f"-DMARK_EVERY={mark_every(spec)}"],
}


def mark_every(spec: KernelSpec) -> int:
    """How many threads share a writer of marks: a warpgroup's where these multiply together (PROBE_PRODUCT), else a
    warp's."""
    return 128 if "PROBE_PRODUCT(" in spec.source else 32


def _marked(spec: KernelSpec) -> KernelSpec:
    """The kernel with marks.cuh in the place of probe.cuh, under its name. It is no header of the kernel's own, so that
    it does not change the hash by which times and recordings are known."""
    text = (DEVICE / "marks.cuh").read_text()
    return replace(spec, files=tuple((name, text if name == "probe.cuh" else own) for name, own in spec.files))


def _toolchain(target: str) -> Toolchain:
    return cpp.Toolchain() if target == CPU else nvrtc.Toolchain(target)
