"""Builds in parallel what a session on a GPU needs, so that its time goes into runs: 200 builds take 16 processors
a minute, one after the other ten.

    seq 0 15 | PYTHONPATH=. xargs -P 16 -I{} python tests/prebuild.py record {}/16

In the place of `record`: pipelines, launch_times, duels, choice, bench or check. Names of kernels may follow.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from kernels import catalog
from kernels.build import Mode, builds
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import WarpglassError
from kernels.families.tensor_cores.problem import SixteenBitProblem
from kernels.measure import bench, choices, duels, launch_times, pipelines
from kernels.measure.sweeps import Skipped
from kernels.recordings import run_index
from kernels.run import check
from kernels.run.backends import gpu

EntriesOf = Callable[[SixteenBitProblem], Iterable[tuple[str, Any]]]
ENTRIES: Mapping[str, tuple[Callable[[], list[SixteenBitProblem]], EntriesOf]] = {
    "duels": (duels.problems, duels.entries),
    "choice": (choices.problems, choices.participants),
}


def wanted(what: str, names: list[str]) -> Iterator[tuple[Request, Mode]]:
    """The builds of what is missing, of these kernels; of all if none is named."""
    specs = [catalog.find(name) for name in names] or list(catalog.KERNELS.values())
    both = (Mode.PROBED, Mode.TIMED)
    if what == "record":
        for spec, case in run_index.missing(specs):
            yield from ((run_index.request_of(spec, case, "gpu"), mode) for mode in both)
    if what == "check":
        for spec in specs:
            for case in check.cases(spec, gpu.device())[0]:
                request = Request(spec, case.problem, tuple(case.settings), Scope(), "gpu")
                yield from ((request, mode) for mode in both)
    if what == "pipelines":
        yield from (
            (made, mode)
            for made in pipelines.RECORDINGS.asked()
            if made.kernel in specs
            for mode in (Mode.MARKS, Mode.TIMED)
        )
    if what == "launch_times":
        yield from ((made, mode) for made in launch_times.RECORDINGS.asked() for mode in (Mode.TIMELINE, Mode.TIMED))
    if what in ENTRIES:
        problems, entries = ENTRIES[what]
        for problem in problems():
            for name, chosen in entries(problem):
                spec = catalog.KERNELS[name]
                settings = tuple(spec.settings_for(problem, chosen).items())
                yield Request(spec, problem, settings, backend="gpu"), Mode.TIMED
    if what == "bench":
        for point in bench.recorded_points():
            if not isinstance(point, Skipped) and not point.is_peer and point.kernel in specs:
                yield Request(point.kernel, point.problem, point.settings, backend="gpu"), Mode.TIMED


def main(what: str, part: str, *names: str) -> None:
    number, parts = map(int, part.split("/"))
    builds_of = {(r.kernel.name, str(r.defines), mode): (r, mode) for r, mode in wanted(what, list(names))}
    target = gpu.device().target
    for request, mode in list(builds_of.values())[number::parts]:
        try:
            builds.build(request.kernel, request.defines, mode, target)
        except WarpglassError as error:
            print(f"{request.kernel.name}, {mode.value}: {error.brief}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
