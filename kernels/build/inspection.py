"""Registers, shared bytes, spills, and sizes of PTX and SASS of a kernel's builds. Needs no GPU."""

from dataclasses import asdict
from typing import Any

from kernels.build.builds import build
from kernels.build.occupancy import Settings, occupancy
from kernels.build.product import DEFAULT_ARCH, Mode
from kernels.build.sass import instructions, sass, sections_of
from kernels.core.problem import Problem
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError


def inspect(kernel: KernelSpec, problem: Problem, settings: Settings, arch: str = DEFAULT_ARCH) -> dict[str, Any]:
    """A dict of kernel, arch, settings, builds and occupancy.

    builds: timed and probed -> compiler, sizes, and an entry for each launch with static and dynamic shared bytes.
    Raises ProblemError for an unknown arch, BuildError, or BackendUnavailable without NVRTC or nvdisasm.
    """
    request = Request(kernel, problem, tuple(kernel.settings(settings).items()))
    shared = {step.entry: step.shared_bytes for step in request.plan.launches}
    builds = {}
    for mode in (Mode.TIMED, Mode.PROBED):
        built = build(kernel, request.defines, mode, arch)
        count = len(instructions(sections_of(sass(built.path), built.symbols)))
        entries = {f.entry: {**asdict(f), "shared_bytes": f.shared_bytes + shared.get(f.entry, 0)} for f in built.facts}
        builds[mode.value] = {
            "compiler": built.compiler,
            "ptx_bytes": built.ptx_path.stat().st_size,
            "sass_instructions": count,
            "sass_bytes": 16 * count,
            "entries": [entries[entry] for entry in shared],
        }
    return {
        "kernel": kernel.name,
        "arch": arch,
        "settings": request.constants,
        "builds": builds,
        "occupancy": _occupancy(request, arch),
    }


def _occupancy(request: Request, arch: str) -> list[dict[str, Any]] | None:
    """The timed build's occupancy as dicts, or None for an architecture with unknown limits."""
    try:
        return [asdict(found) for found in occupancy(request.kernel, request.problem, request.constants, arch)]
    except ProblemError:
        return None
