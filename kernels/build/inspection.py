"""Registers, shared bytes, spills, and sizes of PTX and SASS of a kernel's builds. Needs no GPU."""

from dataclasses import asdict
from typing import Any

from kernels.build import nvrtc
from kernels.build.builds import build
from kernels.build.occupancy import Settings, occupancy
from kernels.build.plain import opt_in
from kernels.build.product import DEFAULT_ARCH, Mode
from kernels.build.sass import code_bytes
from kernels.core.problem import Problem
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError


def inspect(kernel: KernelSpec, problem: Problem, settings: Settings, arch: str = DEFAULT_ARCH) -> dict[str, Any]:
    """A dict of kernel, arch, settings, builds, occupancy, opt_in and cannot_run.

    builds: timed and probed -> compiler, sizes, and an entry for each launch with static and dynamic shared bytes.
    opt_in: sentences on launches of the text with more shared memory than a GPU gives without cudaFuncSetAttribute.
    cannot_run: sentences on the missing resources of this architecture. Empty if the timed build can run.
    Raises ProblemError for an unknown arch and for one without the kernel's instructions, BuildError, or
    BackendUnavailable without NVRTC or nvdisasm."""
    nvrtc.Toolchain(arch)  # refuses an unknown one
    kernel.check_architecture(problem, arch)
    request = Request(kernel, problem, tuple(kernel.settings(settings).items()))
    shared = {step.entry: step.shared_bytes for step in request.plan.launches}
    builds = {}
    for mode in (Mode.TIMED, Mode.PROBED):
        built = build(kernel, request.defines, mode, arch)
        size = code_bytes(built.path, built.symbols)
        entries = {f.entry: {**asdict(f), "shared_bytes": f.shared_bytes + shared.get(f.entry, 0)} for f in built.facts}
        builds[mode.value] = {
            "compiler": built.compiler,
            "ptx_bytes": built.ptx_path.stat().st_size,
            "sass_instructions": size // 16,
            "sass_bytes": size,
            "entries": [entries[entry] for entry in shared],
        }
    try:
        held = occupancy(kernel, problem, request.constants, arch)
    except ProblemError:  # the limits of the architecture are unknown
        held = None
    lacks = dict.fromkeys(one.lacks(arch) for one in held or ())
    opt_ins = [f"{said[0].upper()}{said[1:]}" for said, *_ in opt_in.needs(kernel, request.plan)]
    return {
        "kernel": kernel.name,
        "arch": arch,
        "settings": request.constants,
        "builds": builds,
        "occupancy": None if held is None else [asdict(found) for found in held],
        "opt_in": opt_ins,
        "cannot_run": [f"{kernel.name} needs {what}." for what in lacks if what],
    }
