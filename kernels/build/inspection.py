"""What the compiler made of a kernel: registers, shared bytes, spills, PTX and SASS sizes of both builds. Needs no
GPU."""

from dataclasses import asdict
from typing import Any

from kernels.build.builds import build
from kernels.build.occupancy import occupancy
from kernels.build.product import DEFAULT_ARCH, Mode
from kernels.build.sass import instructions, sass
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError


def inspect(kernel: KernelSpec, problem: Any, settings: Any, arch: str = DEFAULT_ARCH) -> dict[str, Any]:
    """A dict of kernel, arch, settings, builds and occupancy; builds maps timed and probed to compiler, sizes and one
    entry per launch.

    Shared bytes are per block, static and dynamic together. Raises ProblemError for an unknown arch, BuildError,
    BackendUnavailable without NVRTC or nvdisasm.
    """
    request = Request(kernel, problem, tuple(kernel.settings(settings).items()))
    shared = {step.entry: step.shared_bytes for step in request.plan.launches}
    builds = {}
    for mode in (Mode.TIMED, Mode.PROBED):
        made = build(kernel, request.defines, mode, arch)
        count = len(instructions(sass(made.path)))
        entries = {f.entry: {**asdict(f), "shared_bytes": f.shared_bytes + shared.get(f.entry, 0)} for f in made.facts}
        builds[mode.value] = {
            "compiler": made.compiler,
            "ptx_bytes": made.ptx_path.stat().st_size,
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
    """What occupancy says of the timed build, as dicts; None for an architecture whose limits are not known."""
    try:
        return [asdict(found) for found in occupancy(request.kernel, request.problem, request.constants, arch)]
    except ProblemError:
        return None
