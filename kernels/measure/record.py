"""Records runs on a GPU for machines without one: the cases of Problem.recorded_cases."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from kernels.core.cases import cases_of
from kernels.core.spec import KernelSpec
from kernels.errors import BackendUnavailable
from kernels.measure import bench, hierarchy, pattern_cycles, timelines
from kernels.recordings import run_index
from kernels.recordings.tables import Progress, silent
from kernels.run import execute, workers
from kernels.run.backends import Device, recorded

TIME_LIMIT = 600.0  # seconds for one run


def record(
    kernels: Sequence[KernelSpec], device: Device, anew: bool = False, progress: Progress = silent
) -> Iterator[Path]:
    """Writes a recording for each case without one of the kernel's present code on this GPU, or for all with `anew`.
    Yields the files one by one. It leaves out cases that this GPU cannot run. A second call goes on after the last
    file."""
    asked = run_index.cases(kernels) if anew else run_index.missing(kernels, device.name)
    for number, (spec, case) in enumerate(asked):
        progress(number, len(asked), spec.name)
        request = run_index.request_of(spec, case, device.backend)
        if spec.cannot_run(case.problem, request.constants, device):
            continue
        run, traffic, yardsticks = (
            workers.submit(task, request, backend=device.backend, title=spec.name, time_limit=TIME_LIMIT).result()
            for task in (execute.run, execute.traffic, execute.yardstick)
        )
        yield recorded.save(run, traffic, yardsticks)
    run_index.share_values()


def missing(kernels: Sequence[KernelSpec], with_tables: bool) -> list[str]:
    """The gaps in the recordings of the kernels' present code on any GPU, a line for each: missing runs, unreadable
    recordings, and missing tables of times."""
    lines = [
        f"{spec.name} has no recording of its present code of {case.problem} {dict(case.settings)}"
        for spec, case in run_index.missing(kernels)
    ]
    lines += [fault for spec in kernels if (fault := cases_of(spec, "recorded_cases").fault)]
    lines += run_index.left_out()
    if not with_tables:
        return lines
    for kind in (hierarchy.HIERARCHY, hierarchy.CYCLES):
        try:
            hierarchy.recorded(kind=kind)
        except BackendUnavailable as reason:
            lines.append(str(reason))
    return lines + pattern_cycles.missing() + timelines.RECORDINGS.left_out() + bench.not_recorded()
