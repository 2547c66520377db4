"""What compute-sanitizer watches (sanitize.sh): both builds of kernels on every K-th of their cases, the marks build on
the first of these, and nothing else: no torch, whose kernels it would watch too. Plain kernels have only a timed build.

    python tests/sanitize.py K [NAME ...]    names of the catalogue or paths of .cu files; all kernels if none is given
"""

import os
import sys

from kernels import catalog
from kernels.build import Mode, builds
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.core.spec import KernelSpec
from kernels.errors import BuildError
from kernels.measure import pipelines
from kernels.run import check, execute
from kernels.run.backends import gpu


def main(every: str, *names: str) -> None:
    tool = os.environ.get("SANITIZER", "memcheck")
    for spec in [catalog.find(name) for name in names] or catalog.KERNELS.values():
        if tool != "memcheck" and any(launch.children for launch in spec.launch_texts):
            print(f"{spec.name}: left out, as {tool} does not support launches from kernels", flush=True)
            continue
        try:
            print(f"{spec.name}: {_watched(spec, int(every))}", flush=True)
        except BuildError as error:
            print(f"{spec.name}: left out, as it does not build here: {error.brief}", flush=True)


def _watched(spec: KernelSpec, every: int) -> str:
    cases, _ = check.cases(spec, gpu.device(), every)
    for case in cases:
        request = Request(spec, case.problem, tuple(case.settings), Scope(), "gpu")
        for mode in (Mode.TIMED,) if spec.plain else (Mode.TIMED, Mode.PROBED):
            made, plan, arrays = execute.prepare(request, mode)
            capacities = [execute.FIRST_CAPACITY] * len(plan.launches) if mode is Mode.PROBED else None
            gpu.launch(made, plan, arrays, request.scope, capacities)
    for case in [] if spec.plain else cases[:1]:
        request = Request(spec, case.problem, tuple(case.settings), Scope(), "gpu")
        made, plan, arrays = execute.prepare(request, Mode.MARKS)
        threads = builds.mark_every(spec)
        gpu.launch_marks(made, plan, arrays, threads, pipelines.capacity(plan, threads), runs=1)
    return f"{len(cases)} problems in {'the timed build' if spec.plain else 'both builds'}"


if __name__ == "__main__":
    main(*sys.argv[1:])
