"""python -m kernels watch FILE.cu, and report A.cu B.cu."""

import argparse
import difflib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np

from kernels import catalog
from kernels.build import DEFAULT_ARCH, EntryFacts, Mode, build
from kernels.core.dtypes import widened
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.core.tolerance import OutputError, worst
from kernels.errors import BackendUnavailable, BuildError, ProblemError, WarpglassError
from kernels.run import backends, execute, options, workers
from kernels.run.plain import launches, tables
from kernels.run.results import Run
from kernels.trace.memory import traced

TIMED_RUNS = 20


@dataclass(frozen=True)
class Look:
    """One version of a kernel.

    run: on the CPU, of the request's scope.
    arrays: outputs and scratch memory after it, in the order of the launches' arguments.
    entries: ptxas's facts, or () without NVRTC. note: the reason.
    wavefronts, sectors: of shared and global memory in the scope.
    bytes: (tensor, space, kind) -> bytes in the scope.
    time_us: the median on a GPU, or None without one."""

    run: Run
    arrays: dict[str, np.ndarray]
    errors: tuple[OutputError, ...]
    entries: tuple[EntryFacts, ...]
    note: str
    wavefronts: int
    sectors: int
    bytes: dict[tuple[str, str, str], int]
    time_us: float | None = None

    @property
    def kernel(self) -> KernelSpec:
        return self.run.request.kernel

    @property
    def faults(self) -> list[str]:
        """The sentences of the faults that make the kernel wrong."""
        return launches.errors(self.run.faults)

    @property
    def is_correct(self) -> bool:
        return all(error.ok for error in self.errors) and not self.faults


def request_of(path: Path, fields: Sequence[str]) -> Request:
    """The request for a .cu as it is now. fields: FIELD=VALUE of the command line. Raises WarpglassError."""
    kernel = catalog.load_kernel(path)
    problem, settings = options.assignments(kernel, list(fields))
    return Request(kernel, problem, settings, backend="cpu")


def look(request: Request, time_limit: float) -> Look:
    """Builds and runs a version. Raises WarpglassError with the line of a fault."""
    with ThreadPoolExecutor(1) as pool:
        compiled = pool.submit(_compiled, request)
        job = workers.submit(_looked, request, backend="cpu", title=request.kernel.name, time_limit=time_limit)
        run, arrays, errors = job.result()
        entries, note = compiled.result()
    costs = traced.requests(run.trace).costs
    moved = tables.traffic(run.trace)
    return Look(
        run,
        arrays,
        errors,
        entries,
        note,
        int(costs.wavefronts.fillna(0).sum()),
        int(costs.sectors.fillna(0).sum()),
        {(str(r.tensor), str(r.space), str(r.kind)): int(r.bytes) for r in moved.itertuples()},
        _time_us(request, time_limit),
    )


def _compiled(request: Request) -> tuple[tuple[EntryFacts, ...], str]:
    try:
        return build(request.kernel, request.defines, Mode.TIMED, DEFAULT_ARCH).facts, ""
    except (BackendUnavailable, BuildError) as error:
        return (), str(error)


def _looked(request: Request) -> tuple[Run, dict[str, np.ndarray], tuple[OutputError, ...]]:
    if launches.is_automatic(request):
        built, plan, probed, arrays = execute.probe_plain(request)
        run = execute.run_of_probe(request, built, plan, probed, arrays)
    else:
        run = execute.run(request)
        arrays, plan = run.arrays, request.plan
    order = dict.fromkeys(name for step in plan.launches for name in step.tensors)
    written = {tensor.name for tensor in plan.tensors if tensor.is_written}
    kept = {name: arrays[name] for name in order if name in written and name in arrays}
    errors = execute.judge(run.max_abs_errors, execute.yardstick(request), request.problem, request.kernel.plain)
    return run, kept, tuple(errors)


def _time_us(request: Request, time_limit: float) -> float | None:
    if "gpu" not in workers.survey().devices:
        return None
    timed = replace(request, backend="gpu")
    return workers.submit(_timed, timed, backend="gpu", title=request.kernel.name, time_limit=time_limit).result()


def _timed(request: Request) -> float:
    from kernels.run.backends import gpu

    built, plan, arrays = execute.prepare(request, Mode.TIMED)
    assert backends.module("gpu") is gpu
    return float(median(gpu.launch_repeatedly(built, plan, arrays, TIMED_RUNS)))


OK = 0
LOOK_EVERY = 0.05  # seconds
TIME_LIMIT = 60.0  # seconds of a run
Stamp = tuple[tuple[str, int, int], ...]


def watch(args: argparse.Namespace) -> int:
    """Shows each saved version of a file, until Ctrl-C."""
    workers.survey()
    for said in seen(Path(args.file), args.set, saves(Path(args.file))):
        print(said, flush=True)
    return OK


def seen(path: Path, fields: list[str], versions: Iterator[None]) -> Iterator[str]:
    """The text about each version: its changes from the last good one, or its diagnostics."""
    good: Look | None = None
    for _ in versions:
        started = time.monotonic()
        try:
            found = look(request_of(path, fields), TIME_LIMIT)
        except WarpglassError as error:
            yield f"{path.name}: {error}"
            continue
        said = _first(found) if good is None else lines(changes(good, found))
        took = f"{path.name}, {time.monotonic() - started:.2f} s after its save:"
        yield "\n".join([took, *(f"  {line}" for line in said), *(f"  fault: {fault}" for fault in found.faults)])
        if found.is_correct:
            good = found


def _first(found: Look) -> list[str]:
    said = [f"correct: {_correct(found)}"]
    for facts in found.entries:
        local = f"{facts.stack_bytes:,} bytes of local memory a thread ({facts.spill_bytes:,} bytes spilled)"
        said.append(f"{facts.entry}: {facts.registers} registers, {local}")
    return [*said, f"{found.wavefronts:,} wavefronts, {sum(found.bytes.values()):,} bytes in the first item"]


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
    workers.survey()
    before, after = (request_of(Path(file), args.set) for file in (args.before, args.after))
    one, other = before.kernel, after.kernel
    if not one.same_problems(other):
        raise ProblemError(
            f"{one.path.name} and {other.path.name} solve different problems ({one.problem_type.title}, "
            f"{other.problem_type.title}). Give two versions of one kernel."
        )
    text = markdown(look(before, TIME_LIMIT), look(after, TIME_LIMIT))
    if not args.out:
        print(text, end="")
        return OK
    options.write(args.out, lambda: Path(args.out).write_text(text))
    print(args.out)
    return OK


POSITION = ["launch", "block", "thread", "seq"]


@dataclass(frozen=True)
class Change:
    """A fact of both versions. before, after: as a person reads them. differs: whether they differ."""

    what: str
    before: str
    after: str
    differs: bool = True


def changes(before: Look, after: Look) -> list[Change]:
    """All facts of two versions: the first differing value, errors, registers, local memory, counts, bytes and time."""
    found = [
        (_first_logged(before, after) or _first_element(before, after) or Change("first value", "", "", False)),
        _of("correct", _correct(before), _correct(after)),
    ]
    if before.errors and after.errors:
        found.append(_of("largest error", *(f"{worst(look.errors).largest:.3g}" for look in (before, after))))
    for one, other in zip(before.entries, after.entries):
        name = "" if len(after.entries) == 1 else f" of {other.entry}"
        found += [
            _of(f"{label}{name}", *(f"{getattr(facts, key):,}" for facts in (one, other))) for label, key in FACTS
        ]
    found.append(_of("wavefronts", f"{before.wavefronts:,}", f"{after.wavefronts:,}"))
    found.append(_of("sectors", f"{before.sectors:,}", f"{after.sectors:,}"))
    for key in sorted({*before.bytes, *after.bytes}):
        tensor, space, kind = key
        moved = (f"{look.bytes.get(key, 0):,}" for look in (before, after))
        found.append(_of(f"bytes {kind} {tensor} ({space})", *moved))
    if before.time_us is not None and after.time_us is not None:
        found.append(_of("time on the GPU", f"{before.time_us:.2f} us", f"{after.time_us:.2f} us"))
    return found


FACTS = (
    ("registers", "registers"),
    ("bytes of local memory a thread", "stack_bytes"),
    ("spilled bytes", "spill_bytes"),
    ("static shared bytes", "shared_bytes"),
)


def _of(what: str, before: str, after: str) -> Change:
    return Change(what, before, after, before != after)


def _correct(look: Look) -> str:
    known = "yes" if look.errors else "no fault found"
    return known if look.is_correct else f"no: {look.faults[0]}" if look.faults else "no"


def _first_logged(before: Look, after: Look) -> Change | None:
    one, other = (look.run.trace.frame(*POSITION, "line", "value") for look in (before, after))
    both = one.merge(other, on=POSITION, suffixes=("_before", "_after"))
    differ = both[both.value_before.ne(both.value_after) & ~(both.value_before.isna() & both.value_after.isna())]
    if differ.empty:
        return None
    row = differ.sort_values(["launch", "seq", "block", "thread"]).iloc[0]
    where = f"line {int(row.line_after)}, block {int(row.block)}, thread {int(row.thread)}"
    return Change(f"first value: {where}", f"{row.value_before:.6g}", f"{row.value_after:.6g}")


def _first_element(before: Look, after: Look) -> Change | None:
    for name, held in after.arrays.items():
        other = before.arrays.get(name)
        if other is None or other.shape != held.shape:
            continue
        one, two = widened(other), widened(held)
        same = (one == two) | ((one != one) & (two != two))
        if not same.all():
            at = tuple(int(i) for i in np.argwhere(~same)[0])
            return Change(f"first value: {name}[{', '.join(map(str, at))}]", f"{one[at]:.6g}", f"{two[at]:.6g}")
    return None


def lines(found: list[Change]) -> list[str]:
    shown = [change for change in found if change.differs]
    if not shown:
        return ["No count and no value changed."]
    width = max(len(change.what) for change in shown)
    return [f"{change.what:{width}}  {change.before} -> {change.after}" for change in shown]


DIFF_LINES = 200


def markdown(before: Look, after: Look) -> str:
    """The report: the problem, the facts of both versions, their faults, and the difference of the texts."""
    request = after.run.request
    names = before.kernel.path.name, after.kernel.path.name
    found = changes(before, after)
    rows = [f"| | {names[0]} | {names[1]} |", "| --- | --- | --- |"]
    for change in found:
        mark = "**" if change.differs else ""
        cells = (_cell(text) for text in (change.before, change.after))
        rows.append(f"| {mark}{_cell(change.what)}{mark} | {' | '.join(cells)} |")
    parts = [
        f"# {names[0]} and {names[1]}",
        f"Problem: {request.problem.size}. Counts cover the first {request.plan.launches[0].item}, run on the CPU.",
        "\n".join(rows),
    ]
    parts += [
        "\n".join([f"Faults of {look.kernel.path.name}:", *(f"- {fault}" for fault in look.faults)])
        for look in (before, after)
        if look.faults
    ]
    if after.note:
        parts.append(f"Registers are unknown: {after.note}")
    return "\n\n".join([*parts, _difference(before, after)]) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ") or "same"


def _difference(before: Look, after: Look) -> str:
    one, two = (look.kernel.source.splitlines() for look in (before, after))
    name, other = before.kernel.path.name, after.kernel.path.name
    shown = list(difflib.unified_diff(one, two, name, other, lineterm="", n=1))
    rest = [f"... {len(shown) - DIFF_LINES} more lines"] if len(shown) > DIFF_LINES else []
    fence = "`" * (max((line.count("`") for line in shown), default=0) + 3)
    return "\n".join([f"{fence}diff", *shown[:DIFF_LINES], *rest, fence])
