"""python -m kernels COMMAND: list | open | watch | report | run | check | inspect | exercise, or one for a GPU

Exit codes: 0 ok, 1 failed, 2 bad usage or impossible problem, 3 no GPU where one was asked for.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

from kernels import arguments, catalog
from kernels.build import inspection
from kernels.build.occupancy import MACHINES
from kernels.core.dtypes import widened
from kernels.core.fields import fields_of, nearest, write_value
from kernels.core.request import Request
from kernels.core.sources import read_text
from kernels.core.spec import KernelSpec
from kernels.errors import BackendUnavailable, ProblemError, WarpglassError
from kernels.exercises import Grade, find, grade, listed
from kernels.measure import (
    bench,
    calibration,
    chains,
    choices,
    conflicts,
    counters,
    duels,
    gradient_duels,
    hierarchy,
    launch_times,
    pattern_cycles,
    perfetto,
    pipeline_bars,
    pipelines,
    record,
    reports,
    rings,
    sweeps,
    timelines,
)
from kernels.opening import command as opening
from kernels.recordings import tables
from kernels.recordings.tables import Progress
from kernels.run import check, check_report, execute, facts, options, races, workers
from kernels.run.backends import Device
from kernels.watching import command as watching

Result = TypeVar("Result")
OK, FAILED, USAGE, NO_GPU = 0, 1, 2, 3
CLI_TIME_LIMIT = 600.0  # seconds a run may take, unless WARPGLASS_TIME_LIMIT says otherwise


def _operators(device: Device, progress: Progress, anew: bool) -> list[Path]:
    """Imports torch only for this table."""
    from kernels.ops import operator_duels

    return operator_duels.TABLE.record(device, progress, anew)


TABLES: dict[str, Callable[[Device, Progress, bool], list[Path]]] = {
    "hierarchy": hierarchy.TABLES[hierarchy.HIERARCHY].record,
    "cycles": hierarchy.TABLES[hierarchy.CYCLES].record,
    "patterns": pattern_cycles.TABLE.record,
    "timelines": timelines.RECORDINGS.record,
    "launch_times": launch_times.RECORDINGS.record,
    "pipelines": pipelines.RECORDINGS.record,
    "bench": bench.TABLE.record,
    "duels": duels.TABLE.record,
    "gradient_duels": gradient_duels.TABLE.record,
    "choice": choices.TABLE.record,
    "conflicts": conflicts.TABLE.record,
    "operators": _operators,
    "rings": rings.record,
    "chains": chains.TABLE.record,
}


def main(argv: list[str] | None = None) -> int:
    args = arguments.parser(_COMMANDS, TABLES).parse_args(argv)
    try:
        return args.command(args)
    except ProblemError as error:
        return _complain(error, USAGE)
    except BackendUnavailable as error:
        kept = " --recorded prints the times of real GPUs." if hasattr(args, "recorded") else ""
        return _complain(
            f"{type(error).__name__}: {error}{kept}", NO_GPU if getattr(args, "backend", "") == "gpu" else FAILED
        )
    except WarpglassError as error:
        return _complain(error, FAILED)
    except BrokenPipeError:  # the reader, such as head, has closed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        return _complain("stopped", FAILED)
    finally:
        workers.stop()


def _complain(error: object, code: int) -> int:
    print(f"{type(error).__name__}: {error}" if isinstance(error, Exception) else error, file=sys.stderr)
    return code


def _progress(done: int, of: int, what: str = "") -> None:
    if sys.stderr.isatty():
        filled = 30 * done // of if of else 30
        bar, end = "#" * filled + "." * (30 - filled), "\n" if done == of else ""
        print(f"\r[{bar}] {done} of {of}  {what:24s}", end=end, file=sys.stderr, flush=True)


def _time_limit() -> float:
    """The seconds that a run may take: WARPGLASS_TIME_LIMIT, else CLI_TIME_LIMIT."""
    workers.check_limit()
    return workers.TIME_LIMIT if "WARPGLASS_TIME_LIMIT" in os.environ else CLI_TIME_LIMIT


def _print_json(said: object) -> None:
    print(json.dumps(said, indent=1))


def _specs(names: list[str]) -> list[KernelSpec]:
    return [catalog.find(name) for name in names] or list(catalog.current().kernels.values())


# ---- the commands ----


def _list(args: argparse.Namespace) -> int:
    survey, found = workers.survey(), catalog.current()
    for fault in found.faults:
        print(f"left out: {fault}", file=sys.stderr)
    if args.json:
        kernels = [{**facts.of_kernel(spec), "backends": list(survey.devices)} for spec in found.kernels.values()]
        devices = {name: device.name for name, device in survey.devices.items()}
        _print_json({"kernels": kernels, "devices": devices, "unavailable": survey.reasons})
        return OK
    for spec in found.kernels.values():
        problem = (f"{name}={write_value(f.default)}" for name, f in fields_of(spec.problem_type).items())
        constants = (f"{c.name}={c.default} of {list(c.values)}" for c in spec.constants)
        print(f"{spec.name:10s} {spec.title:16s} {spec.idea}")
        print(f"{'':10s} problem: {', '.join(problem)}")
        print(f"{'':10s} constants: {', '.join(constants) or 'none'}")
    for name, device in survey.devices.items():
        print(f"backend {name}: {device.name}")
    for name, reason in survey.reasons.items():
        print(f"backend {name} is not usable: {reason}")
    return OK


def _run(args: argparse.Namespace) -> int:
    options.check_output("--trace", args.trace, ".parquet")
    options.check_output("--arrays", args.arrays, ".npz")
    kernel = catalog.find(args.kernel)
    device = workers.survey().pick(args.backend, kernel.plain)
    problem, settings = options.assignments(kernel, args.set, device.shared_bytes_per_block)
    request = Request(
        kernel, problem, settings, options.scope(args.scope, kernel.plan(problem, settings)), device.backend
    )
    execute.check_possible(request, device)

    def submitted(task: Callable[[Request], Result]) -> Result:
        job = workers.submit(task, request, backend=device.backend, title=kernel.name, time_limit=_time_limit())
        return job.result()

    run, yardsticks = submitted(execute.run), submitted(execute.yardstick)
    race = submitted(races.look_for_race) if device.backend == "cpu" else ""
    if args.trace:
        options.write(args.trace, lambda: run.trace.save(args.trace))
    if args.arrays:
        arrays = {name: widened(array) for name, array in run.arrays.items()}
        options.write(args.arrays, lambda: np.savez(args.arrays, **arrays))  # type: ignore[arg-type]
    said = facts.of_run(run, yardsticks, race)
    if args.json:
        _print_json(said)
    else:
        print("\n".join(facts.run_lines(run, said)))
    if run.trace.lost:
        remedy = "Choose a smaller scope or a smaller problem."
        print(f"The trace was cut: {run.trace.lost:,} records did not fit. {remedy}", file=sys.stderr)
    if not said["records"]:
        print(f"{kernel.name}: {facts.NOTHING_LOGGED}", file=sys.stderr)
    return OK if said["correct"] else FAILED


def _check(args: argparse.Namespace) -> int:
    if args.every < 1:
        raise ProblemError(f"--every is {args.every}. It must be a whole number from 1.")
    kernels, survey = _specs(args.kernels), workers.survey()
    device = survey.pick(args.backend)
    if device.backend == "recorded":
        reasons = " ".join(survey.reasons.values())
        raise BackendUnavailable(f"check runs kernels: it needs a GPU or a C++ compiler. {reasons}")

    def finished(row: check.Summary, own: list[check.Verdict]) -> None:
        """A kernel's lines at once, as a check of all kernels takes long."""
        check_report.show(check_report.lines(row, [v for v in own if not v.ok], device.name, args.all))

    told, progress = {} if args.json else {"finished": finished}, check_report.steadily(_progress)
    verdicts, summary = check.check(kernels, device, args.every, _time_limit(), progress, args.set, **told)
    if args.json:
        _print_json(check_report.as_json(device.backend, device.name, summary, verdicts))
    else:
        if len(kernels) > 1:
            wrong = {v.kernel for v in verdicts if not v.ok}
            print(f"{len(kernels)} kernels, {len(wrong)} wrong{': ' * bool(wrong)}{', '.join(sorted(wrong))}")
        if device.backend == "gpu":
            print(check_report.GPU_CANNOT)
    return OK if check_report.is_ok(summary, verdicts) else FAILED


def _inspect(args: argparse.Namespace) -> int:
    kernel = catalog.find(args.kernel)
    known = MACHINES.get(args.arch.rstrip("af"))
    problem, settings = options.assignments(kernel, args.set, known.shared_bytes_per_block if known else None)
    found = inspection.inspect(kernel, problem, settings, args.arch)
    if args.json:
        _print_json(found)
    else:
        print("\n".join(facts.inspect_lines(found)))
    return OK


def _exercise(args: argparse.Namespace) -> int:
    if not args.name:
        print("\n".join(f"{one.number:2d} {one.name:20s} {one.title}" for one in listed().values()))
        return OK
    exercise = find(args.name)
    if not args.file:
        file = Path(f"{exercise.name}.cu")
        try:
            with file.open("x") as opened:
                opened.write(exercise.start)
        except OSError as error:
            raise ProblemError(f"{file} cannot be written: {error.strerror}. Grade it, or remove it.") from None
        grading = f"Then run: python -m kernels exercise {exercise.name} {file}"
        print(f"{exercise.title}\n\n{exercise.task}\n\n{file} has the text to begin with. {grading}")
        return OK
    text, limit = read_text(Path(args.file)), _time_limit()
    job = workers.submit(grade, exercise.name, text, backend="cpu", title=exercise.name, time_limit=limit)
    found: Grade = job.result()
    if args.json:
        _print_json(found.as_json())
        return OK if found.accepted else FAILED
    print("accepted" if found.accepted else "not accepted", found.said, sep="\n")
    for case in found.cases:
        fields = ", ".join(f"{name}={value}" for name, value in case.problem.items())
        print(f"  {'right' if case.ok else 'wrong'}: {fields}: {case.said}")
    for one in found.evidence:
        print(f"  {one.kind}: {one.text}")
    if not found.jailed:
        print("This machine has no jail. The answer ran with your own rights.")
    return OK if found.accepted else FAILED


def _bench(args: argparse.Namespace) -> int:
    options.check_output("--out", args.out, ".csv", ".json")
    kept = reports.load_kept(args.against) if args.against else None
    chosen, swept = [sweeps.set_field(text) for text in args.set], [sweeps.sweep_field(text) for text in args.sweep]
    names = args.kernels or list(catalog.current().of_family(catalog.current().families[0]))
    if args.recorded:
        return _bench_recorded(args, names, [*swept, *((field, [value]) for field, value in chosen)])
    points = sweeps.points(names, swept, chosen, args.peers)
    device = workers.survey().pick("gpu")
    made, roofs = bench.time_points(points, _progress)
    if len(made) < len(points):
        print(f"\nstopped: {len(made)} of {len(points)} points are kept", file=sys.stderr)
    where = bench.provenance(device, roofs, made)
    report = reports.report(made, where, kept)
    if args.out:
        options.write(args.out, lambda: reports.save(made, where, args.out))
    if args.json:
        _print_json(reports.report_json(report))
    else:
        print("\n".join(reports.report_lines(report)))
    return FAILED if len(made) < len(points) or made.status.isin(["wrong", "failed"]).any() else OK


def _bench_recorded(args: argparse.Namespace, names: list[str], fields: list[tuple[str, list[str]]]) -> int:
    found = bench.recorded_of([catalog.find(name) for name in names], fields, args.peers)
    if args.json:
        _print_json([reports.report_json(report) for report in found])
    else:
        print("\n\n".join("\n".join(reports.report_lines(report)) for report in found))
    return OK


def _recorded_pipeline(request: Request, chosen: bool) -> pipelines.Pipeline:
    """The recording of a request, or the kernel's first one if no field was chosen."""
    kept = pipelines.recorded()
    own = [entry for entry in kept if entry.request.kernel == request.kernel]
    return (pipelines.find(request) if chosen or not own else own[0]).load()


def _timeline(args: argparse.Namespace) -> int:
    options.check_output("--perfetto", args.perfetto, ".pftrace")
    kernel = catalog.find(args.kernel)
    problem, settings = options.assignments(kernel, args.set)
    if args.recorded:
        made = _recorded_pipeline(Request(kernel, problem, settings, backend="recorded"), bool(args.set))
    else:
        request = Request(kernel, problem, settings, backend="gpu")
        workers.survey().pick("gpu")
        job = workers.submit(pipelines.pipeline, request, backend="gpu", title=kernel.name, time_limit=_time_limit())
        made = job.result()
    if args.perfetto:
        options.write(args.perfetto, lambda: Path(args.perfetto).write_bytes(perfetto.encode(made)))
    if args.json:
        _print_json(pipeline_bars.as_json(made))
    else:
        print(f"{made.provenance} on {made.date}: {made.request.problem.size}")
        print(pipeline_bars.sentence(made))
        print(pipeline_bars.shares(made, 0).to_string(index=False, float_format="%.3f"))
    return OK


def _record(args: argparse.Namespace) -> int:
    kernels = _specs(args.kernels)
    if args.missing:
        for line in record.missing(kernels, with_tables=not args.kernels):
            print(line)
        return OK
    device = workers.survey().pick("gpu")
    for path in record.record(kernels, device, args.again, _progress):
        print(path)
    for table in () if args.kernels else TABLES.values():
        for path in table(device, _progress, args.again):
            print(path)
    return OK


def _calibrate(args: argparse.Namespace) -> int:
    unknown = set(args.op) - set(calibration.METRICS)
    if unknown:
        known = f"{', '.join(calibration.METRICS)}.{nearest(min(unknown), calibration.METRICS)}"
        raise ProblemError(f"--op is {', '.join(sorted(unknown))}. It must be among {known}")
    device = workers.survey().pick("gpu")
    (path,) = calibration.TABLE.record(device, _progress, only=args.op or calibration.METRICS)
    table, _ = tables.load(path)
    missed = table[table.measured != table.modelled]
    differ = f"{len(missed)} where the model differs from Nsight Compute"
    print(f"{path}: {len(table)} accesses on {device.name}, {differ}")
    for row in missed.head(20).itertuples():
        print(f"  {row.op} of {row.width} bytes at {row.offsets}: measured {row.measured}, modelled {row.modelled}")
    return FAILED if len(missed) else OK


def _counters(args: argparse.Namespace) -> int:
    device = workers.survey().pick("gpu")
    if args.occupancy:
        table = counters.occupancies()
        path = tables.path_of(counters.OCCUPANCY, device.name)
        tables.save(table, path, tables.provenance(device, arch=device.target))
        differ = table[table.derived != table.driver]
        rule = "differ from the driver's occupancy"
    else:
        table = counters.side_by_side(counters.requests([catalog.find(name) for name in args.kernels]))
        differ = table[table.off_percent > counters.NOISE_PERCENT]
        rule = f"differ by more than {counters.NOISE_PERCENT} %"
    said = f"{len(table)} launches on {device.name}: {len(differ)} {rule}"
    print(table.to_json(orient="records", indent=1) if args.json else f"{table.to_string(index=False)}\n{said}")
    return FAILED if len(differ) else OK


def _measure(args: argparse.Namespace) -> int:
    unknown = [name for name in args.tables if name not in TABLES]
    if unknown:
        there = f"there are {', '.join(TABLES)}.{nearest(unknown[0], TABLES)}"
        raise ProblemError(f"There is no table {unknown[0]!r}; {there}")
    device = workers.survey().pick("gpu")
    for name in args.tables or TABLES:
        for path in TABLES[name](device, _progress, args.anew):
            print(path)
    return OK


_COMMANDS: dict[str, arguments.Command] = {
    "list": _list,
    "open": opening.open_file,
    "watch": watching.watch,
    "report": watching.report,
    "run": _run,
    "check": _check,
    "inspect": _inspect,
    "exercise": _exercise,
    "bench": _bench,
    "timeline": _timeline,
    "record": _record,
    "calibrate": _calibrate,
    "counters": _counters,
    "measure": _measure,
}

if __name__ == "__main__":
    sys.exit(main())
