"""python -m kernels watch FILE.cu, and report A.cu B.cu."""

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from kernels.errors import ProblemError, WarpglassError
from kernels.run import options, workers
from kernels.watching.changes import changes, lines, markdown
from kernels.watching.look import Look, look, request_of

OK = 0
LOOK_EVERY = 0.05  # seconds
TIME_LIMIT = 60.0  # seconds of a run
Stamp = tuple[tuple[str, int, int], ...]


def watch(args: argparse.Namespace) -> int:
    """Shows each saved version of a file, until Ctrl-C."""
    workers.survey()
    for said in seen(Path(args.file), args.set, saves(Path(args.file), args.once)):
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
    said = [f"correct: {'yes' if found.is_correct else 'no'}"]
    for facts in found.entries:
        said.append(f"{facts.entry}: {facts.registers} registers, {facts.spill_bytes:,} bytes spilled")
    return [*said, f"{found.wavefronts:,} wavefronts, {sum(found.bytes.values()):,} bytes in the first item"]


def saves(path: Path, once: bool, sleep: Callable[[float], None] = time.sleep) -> Iterator[None]:
    """Yields at the start and after each save of the file or a header next to it. once: only at the start."""
    last = _stamp(path)
    yield
    while not once:
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
