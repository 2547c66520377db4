"""Compiles a kernel for a mode and a target.

NVRTC makes a cubin for one architecture and needs no GPU. The system's C++ compiler makes a shared library of the same
source over kernels/device/simt. The hashed text is the compiled text: KernelSpec.files, never the disk again.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from kernels.build import cache, child, child_launches, cpp, nvrtc
from kernels.build.plain import toolchain as plain
from kernels.build.product import CPU, Build, EntryFacts, Mode, Toolchain
from kernels.core.spec import KernelSpec
from kernels.errors import BuildError
from kernels.jail import setting

MOST_BYTES = 2**22  # of a stranger's build. Ours have at most 1.3 MB
DEVICE = Path(__file__).parents[1] / "device"


def build(spec: KernelSpec, defines: Mapping[str, int], mode: Mode, target: str) -> Build:
    """The Build of a kernel, from the cache or new.

    defines: the macros of the problem and its constants.
    target: "cpu", or an architecture such as sm_90a.
    Raises BuildError with file and line, BackendUnavailable without a compiler, ProblemError for an unknown target."""
    jailed = setting.is_jailed(spec.path)
    if not spec.plain:
        child_launches.check(spec)
    if jailed and target != CPU and spec.launches_children:
        raise BuildError(
            f"{spec.path.name} launches kernels from a kernel. This server runs such kernels only on its CPU. Choose "
            "the cpu backend."
        )
    toolchain: Toolchain
    if target != CPU:
        toolchain = nvrtc.Toolchain(target, spec.plain, spec.launches_children)
    else:
        toolchain = plain.Toolchain(instrumented=mode is Mode.PROBED) if spec.plain else cpp.Toolchain()
    chosen = own_defines(spec, defines) if spec.plain else defines
    options = [f"-D{name}={value}" for name, value in sorted(chosen.items())]
    if mode is Mode.MARKS and not spec.plain:
        text = (DEVICE / "marks.cuh").read_text()
        spec = replace(spec, files=tuple((name, text if name == "probe.cuh" else own) for name, own in spec.files))
    options += _OPTIONS[mode](spec) + toolchain.options
    files = (*spec.files, *toolchain.headers())
    edits = _edits() if spec.plain or target == CPU else ""
    texts = (part for file in files for part in file)
    key = cache.key_of(spec.name, toolchain.version, target, edits, *options, *texts)
    key = f"{cache.STRANGERS}{key}" if jailed else key
    product = f"{spec.name}{toolchain.suffix}"

    def make(folder: Path) -> dict[str, Any]:
        with child.compiling(jailed):
            log, facts = toolchain.compile(spec, options, folder)
        size = sum(path.stat().st_size for path in folder.iterdir())
        if jailed and size > MOST_BYTES:
            raise BuildError(
                f"{spec.path.name}: its build has {size / 2**20:.1f} MB, and the server keeps at most "
                f"{MOST_BYTES >> 20}. Make its static arrays smaller."
            )
        return {"log": log, "facts": [asdict(fact) for fact in facts]}

    folder, held = cache.get(key, product, make)
    facts = tuple(EntryFacts(**fact) for fact in held["facts"])
    return Build(spec.name, mode, target, folder / product, toolchain.version, held["log"], facts, jailed)


@lru_cache(maxsize=1)
def _edits() -> str:
    """A digest of the modules that edit a text for its build, so that a later version of Warpglass builds it again."""
    folder = Path(__file__).parent
    modules = [*sorted((folder / "plain").glob("*.py")), folder / "unset.py", folder / "child_launches.py"]
    return cache.key_of(*(path.read_text() for path in modules))


_OPTIONS: dict[Mode, Callable[[KernelSpec], list[str]]] = {
    Mode.TIMED: lambda spec: [],
    Mode.PROBED: lambda spec: ["-DPROBED"],
    Mode.TIMELINE: lambda spec: ["-DTIMELINE"],
    Mode.MARKS: lambda spec: [f"-DMARK_EVERY={mark_every(spec)}"],
}


def mark_every(spec: KernelSpec) -> int:
    """The threads of a writer of marks: a warpgroup in a kernel with PROBE_PRODUCT, else a warp."""
    return 128 if "PROBE_PRODUCT(" in spec.source else 32


_KINDS = r"int|unsigned|size_t|auto|bool|float|double|long|short|uint32_t|int32_t|typename|class|enum|const"


def own_defines(spec: KernelSpec, defines: Mapping[str, int]) -> dict[str, int]:
    """The macros that the kernel's text leaves open. defines: of the problem, and the kernel's constants."""
    text = "\n".join(text for _, text in spec.files)
    entries = " ".join(launch.entry for launch in spec.launch_texts)
    return {
        name: value
        for name, value in defines.items()
        if re.search(rf"\b{name}\b", f"{text} {entries}")
        and not re.search(rf"(?:\b(?:{_KINDS})\s+|#[ \t]*define[ \t]+){re.escape(name)}\b", text)
    }
