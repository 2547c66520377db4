"""python -m kernels watch FILE.cu, and report A.cu B.cu."""

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

from kernels import catalog
from kernels.build import Mode
from kernels.core.request import Request
from kernels.core.sources import read_text
from kernels.errors import WarpglassError
from kernels.run import backends, execute, options, workers
from kernels.watching import version
from kernels.watching.comparison import compare, compare_whole, lines, markdown
from kernels.watching.version import Source, Version

OK, FAILED = 0, 1
LOOK_EVERY = 0.05  # seconds
TIME_LIMIT = 60.0  # seconds of a run
TIMED_RUNS = 20
Stamp = tuple[tuple[str, int, int], ...]


def watch(args: argparse.Namespace) -> int:
    """Shows each saved version of a file, until Ctrl-C."""
    workers.survey()
    for said in seen(Path(args.file), args.set, saves(Path(args.file))):
        print(said, flush=True)
    return OK


def seen(path: Path, fields: list[str], versions: Iterator[None]) -> Iterator[str]:
    """The text about each version: its changes from the last good one, or its diagnostics."""
    good: Version | None = None
    for _ in versions:
        started = time.monotonic()
        try:
            kernel = catalog.load_kernel(path)
            found = look(path.name, version.request_of(kernel, fields))
        except WarpglassError as error:
            yield f"{path.name}: {error}"
            continue
        if found.error:
            yield f"{path.name}: {found.error}"
            continue
        said = _first(found) if good is None else lines(compare(good, found).rows)
        took = f"{path.name}, {time.monotonic() - started:.2f} s after its save:"
        yield "\n".join([took, *(f"  {line}" for line in said), *(f"  fault: {reason}" for reason in found.reasons)])
        if found.is_right:
            good = found


def _first(found: Version) -> list[str]:
    said = [f"verdict: {found.verdict}"]
    for facts in found.entries:
        local = f"{facts.stack_bytes:,} bytes of local memory a thread ({facts.spill_bytes:,} bytes spilled)"
        said.append(f"{facts.entry}: {facts.registers} registers, {local}")
    if not found.run:
        return said
    moved = f"{int(found.costs.sectors.sum()):,} sectors, {sum(found.bytes.values()):,} bytes"
    return [*said, f"{int(found.costs.wavefronts.sum()):,} wavefronts, {moved} in the first item"]


def look(name: str, request: Request) -> Version:
    """A version by a worker, with its time if a GPU is there and its result is right."""
    found = version.in_worker(name, request, TIME_LIMIT)
    if not found.is_right or "gpu" not in workers.survey().devices:
        return found
    timed = replace(request, backend="gpu")
    job = workers.submit(_timed, timed, backend="gpu", title=request.kernel.name, time_limit=TIME_LIMIT)
    return replace(found, time_us=job.result())


def _timed(request: Request) -> float:
    from kernels.run.backends import gpu

    built, plan, arrays = execute.prepare(request, Mode.TIMED)
    assert backends.module("gpu") is gpu
    return float(median(gpu.launch_repeatedly(built, plan, arrays, TIMED_RUNS)))


def saves(path: Path, sleep: Callable[[float], None] = time.sleep) -> Iterator[None]:
    """Yields at the start and after each save of the file or a header next to it."""
    last = _stamp(path)
    yield
    while True:
        sleep(LOOK_EVERY)
        now = _stamp(path)
        if now and now != last:
            last = now
            yield


def _stamp(path: Path) -> Stamp:
    """Names, times and sizes of the file and the headers in its folder, or () while the file is gone."""
    try:
        held = [path, *sorted(path.resolve().parent.glob("*.cuh"))]
        found = [(one.name, one.stat()) for one in held]
    except OSError:
        return ()
    return tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in found)


def report(args: argparse.Namespace) -> int:
    """Prints or writes the table of two versions. It fails if a version has no run."""
    workers.survey()
    paths = [Path(args.before), Path(args.after)]
    names = [str(path) if paths[0].name == paths[1].name else path.name for path in paths]
    sources = [Source(name, read_text(path), partial(catalog.load_kernel, path)) for name, path in zip(names, paths)]
    before, after = version.versions(sources, look, args.set)
    if before.error and not before.request and not after.request:
        raise before.error
    trace = partial(workers.submit, version.traced, backend="cpu", title="report", time_limit=TIME_LIMIT)
    text = markdown(compare_whole(before, after, lambda request: trace(request).result()))
    if args.out:
        options.write(args.out, lambda: Path(args.out).write_text(text))
        print(args.out)
    else:
        print(text, end="")
    return OK if before.run and after.run else FAILED
