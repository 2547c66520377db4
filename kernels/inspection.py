"""What the compiler made of a kernel: registers, shared bytes, spills, PTX and SASS sizes of both builds. Needs no GPU."""

from dataclasses import asdict

from kernels import build, occupancy
from kernels.build import Mode
from kernels.catalog import defines
from kernels.errors import ProblemError


def inspect(kernel, problem, settings, arch=build.DEFAULT_ARCH):
    """A dict of kernel, arch, settings, builds and occupancy; builds maps timed and probed to compiler, sizes and one entry per launch.

    Shared bytes are per block, static and dynamic together. Raises ProblemError for an unknown arch, BuildError,
    BackendUnavailable without NVRTC or nvdisasm.
    """
    settings = kernel.settings(settings)
    shared = {step.entry: step.shared_bytes for step in kernel.plan(problem, settings).launches}
    builds = {}
    for mode in (Mode.TIMED, Mode.PROBED):
        made = build.build(kernel, defines(problem, settings), mode, arch)
        count = len(build.instructions(build.sass(made.path)))
        entries = {fact.entry: {**asdict(fact), "shared_bytes": fact.shared_bytes + shared[fact.entry]} for fact in made.facts}
        builds[mode.value] = {"compiler": made.compiler, "ptx_bytes": made.ptx_path.stat().st_size, "sass_instructions": count,
                              "sass_bytes": 16 * count, "entries": [entries[entry] for entry in shared]}
    return {"kernel": kernel.name, "arch": arch, "settings": settings, "builds": builds, "occupancy": _occupancy(kernel, problem, settings, arch)}


def _occupancy(kernel, problem, settings, arch):
    """What occupancy.occupancy says of the timed build, as dicts; None for an architecture whose limits are not known."""
    try:
        return [asdict(found) for found in occupancy.occupancy(kernel, problem, settings, arch)]
    except ProblemError:
        return None
