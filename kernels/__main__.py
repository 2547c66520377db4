"""python -m kernels list | run | check | inspect | record | calibrate | counters | measure

Exit codes: 0 ok, 1 failed, 2 bad usage or impossible problem, 3 no GPU where one was asked for.
"""

import argparse
import json
import os
import sys
from dataclasses import asdict, fields

import numpy as np

from kernels import build, calibration, catalog, check, counters, execute, inspection, measurements, tables, workers
from kernels.errors import BackendUnavailable, ProblemError, WarpglassError
from kernels.execute import Request, Scope

OK, FAILED, USAGE, NO_GPU = 0, 1, 2, 3
CLI_TIME_LIMIT = 600.0


def main(argv=None):
    args = _parser().parse_args(argv)
    try:
        return args.command(args)
    except ProblemError as error:
        return _complain(error, USAGE)
    except BackendUnavailable as error:
        return _complain(error, NO_GPU if getattr(args, "backend", "") == "gpu" else FAILED)
    except WarpglassError as error:
        return _complain(error, FAILED)
    except BrokenPipeError:  # the reader, such as head, has closed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        return _complain("stopped", FAILED)
    finally:
        workers.stop()


def _complain(error, code):
    print(f"{type(error).__name__}: {error}" if isinstance(error, Exception) else error, file=sys.stderr)
    return code


def _parser():
    parser = argparse.ArgumentParser(prog="python -m kernels", description="Warpglass's CUDA attention kernels, without a browser.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name, function, text, kernels=None):
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(command=function)
        if kernels:
            sub.add_argument("kernel" if kernels == "one" else "kernels", metavar="NAME", nargs=None if kernels == "one" else "*",
                             help="a kernel of `list`" + ("" if kernels == "one" else "; all if none is given"))
        if name not in ("record", "calibrate", "measure"):
            sub.add_argument("--json", action="store_true", help="print JSON")
        return sub

    command("list", _list, "The kernels, their problem fields and constants, and the usable backends.")
    run = command("run", _run, "Run a kernel's probed build once, compare with float64, and keep its trace and arrays.", "one")
    run.add_argument("--backend", default="auto", help="auto (default), gpu, cpu or recorded")
    run.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="a problem field or a compile-time constant of `list`")
    run.add_argument("--scope", default="0", metavar="FIRST[:COUNT]|all",
                     help="which query tiles (paged: query heads) write the trace (default 0, the first)")
    run.add_argument("--trace", metavar="FILE.parquet", help="write the trace here")
    run.add_argument("--arrays", metavar="FILE.npz", help="write inputs and outputs here")
    checks = command("check", _check, "Compare kernels with float64 over a grid of problems, in both builds.", "many")
    checks.add_argument("--backend", default="auto", help="auto (default), gpu or cpu")
    checks.add_argument("--every", type=int, default=1, metavar="K", help="only every K-th problem of the grid, for slow tools (default 1)")
    inspect = command("inspect", _inspect, "Registers, shared bytes and spills of both builds, PTX and SASS sizes. Needs no GPU.", "one")
    inspect.add_argument("--arch", default=build.DEFAULT_ARCH, help=f"such as sm_80, sm_90a (default {build.DEFAULT_ARCH})")
    inspect.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="head_dim or a compile-time constant")
    record = command("record", _record, "Write kernels/recordings/ from runs on this GPU.", "many")
    record.set_defaults(backend="gpu")
    calibrate = command("calibrate", _calibrate, "Compare kernels/memory.py with Nsight Compute access by access, and write "
                        "recordings/calibration.csv. Needs a GPU and ncu.")
    calibrate.add_argument("--op", action="append", default=[], metavar="OP", help="only these, such as shared_load; the other rows of the table stay")
    calibrate.set_defaults(backend="gpu")
    counts = command("counters", _counters, "Wavefronts and sectors as derived from traces and as counted by ncu on the timed builds, side by side. "
                     "Needs a GPU and ncu.", "many")
    counts.add_argument("--occupancy", action="store_true", help="instead, blocks per multiprocessor as derived and as the driver says; "
                        "writes recordings/occupancy.csv")
    counts.set_defaults(backend="gpu")
    measure = command("measure", _measure, "Write the recordings of the memory lab from this GPU: hierarchy, cycles, timelines.")
    measure.add_argument("tables", nargs="*", metavar="TABLE", help="hierarchy, cycles or timelines; all if none is given")
    measure.set_defaults(backend="gpu")
    return parser


def _assignments(kernel, texts):
    """The problem and the settings that `--set` asks for."""
    problem, settings = {}, {}
    fields_there = {f.name for f in fields(kernel.problem_type)}
    constants = {c.name for c in kernel.constants}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise ProblemError(f"--set takes FIELD=VALUE; got {text!r}.")
        if name not in fields_there | constants:
            raise ProblemError(f"{kernel.name} has no field or constant {name!r}; it has {', '.join([*sorted(fields_there), *sorted(constants)])}.")
        (problem if name in fields_there else settings)[name] = value
    return kernel.problem_type(**problem), tuple(kernel.settings(settings).items())


def _scope(text, items, item):
    if text == "all":
        return Scope(0, items)
    first, _, count = text.partition(":")
    if not first.isdigit() or (count and not count.isdigit()):
        raise ProblemError(f"--scope is {text!r}; it must be FIRST, FIRST:COUNT ({item}s, whole numbers) or all.")
    return Scope(int(first), int(count or 1))


def _list(args):
    survey = workers.survey()
    kernels = [{
        "name": spec.name, "title": spec.title, "idea": spec.idea, "family": spec.family, "source": spec.header["Source"],
        "file": str(spec.path.relative_to(build.HERE.parent)),
        "problem": {f.name: {"default": f.default, **{k: v for k, v in f.metadata.items() if v is not None}} for f in fields(spec.problem_type)},
        "constants": {c.name: {"default": c.default, "allowed": c.values, "meaning": c.meaning, "what_if": c.what_if} for c in spec.constants},
        "backends": list(survey.devices),
    } for spec in catalog.KERNELS.values()]
    if args.json:
        print(json.dumps({"kernels": kernels, "devices": {k: d.name for k, d in survey.devices.items()}, "unavailable": survey.reasons}, indent=1))
        return OK
    for kernel in kernels:
        print(f"{kernel['name']:10s} {kernel['title']:16s} {kernel['idea']}")
        print(f"{'':10s} problem: " + ", ".join(f"{n}={_plain(f['default'])}" for n, f in kernel["problem"].items()))
        print(f"{'':10s} constants: " + (", ".join(f"{n}={c['default']} of {c['allowed']}" for n, c in kernel["constants"].items()) or "none"))
    for name, device in survey.devices.items():
        print(f"backend {name}: {device.name}")
    for name, reason in survey.reasons.items():
        print(f"backend {name} is not usable: {reason}")
    return OK


def _plain(value):
    """A default as `--set` takes it."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else value


def _run(args):
    kernel = catalog.find(args.kernel)
    problem, settings = _assignments(kernel, args.set)
    device = workers.survey().pick(args.backend)
    request = Request(kernel, problem, settings, _scope(args.scope, kernel.plan(problem, dict(settings)).items, problem.item), device.backend)
    execute.check_possible(request, device)
    run, baseline = (workers.submit(task, request, backend=device.backend, what=kernel.name, time_limit=CLI_TIME_LIMIT).result()
                     for task in (execute.run, execute.baseline))
    if args.trace:
        _write(lambda: run.trace.save(args.trace), args.trace)
    if args.arrays:
        _write(lambda: np.savez(args.arrays, **run.arrays), args.arrays)
    facts = {"kernel": kernel.name, "backend": device.backend, "provenance": run.provenance, "device": run.device, "compiler": run.compiler,
             "date": run.date, "problem": asdict(problem), "settings": dict(settings), "scope": asdict(request.scope),
             "max_abs_error": run.max_abs_error, "baseline_max_abs_error": baseline, "correct": execute.is_correct(run.max_abs_error, baseline),
             "records": run.trace.table.num_rows, "lost": run.trace.lost}
    print(json.dumps(facts, indent=1) if args.json else "\n".join(f"{k:24s} {v}" for k, v in facts.items()))
    if run.trace.lost:
        print(f"The trace was cut: {run.trace.lost:,} records did not fit. Choose a smaller scope or a smaller problem.", file=sys.stderr)
    return OK


def _write(save, path):
    try:
        save()
    except OSError as error:
        raise ProblemError(f"cannot write {path}: {error.strerror or error}") from None


def _check(args):
    if args.every < 1:
        raise ProblemError(f"--every is {args.every}; it must be a whole number from 1.")
    kernels = [catalog.find(name) for name in args.kernels] or list(catalog.KERNELS.values())
    device = workers.survey().pick(args.backend)
    if device.backend == "recorded":
        raise BackendUnavailable("check runs kernels: it needs a GPU or a C++ compiler. " + " ".join(workers.survey().reasons.values()))
    jobs = [(kernel, problem, settings,
             workers.submit(check.check_problem, kernel, problem, settings, device.backend, backend=device.backend, what=kernel.name,
                            time_limit=CLI_TIME_LIMIT))
            for kernel in kernels for problem, settings in check.grid(kernel)[::args.every]]
    verdicts = []
    for kernel, problem, settings, job in jobs:
        try:
            verdicts += job.result()
        except WarpglassError as error:
            verdicts.append(check.Verdict(kernel.name, "both", problem, settings, float("inf"), 0.0, False, f"{type(error).__name__}: {error}"))
        if sys.stderr.isatty():
            print(f"\r{len(verdicts)} of {2 * len(jobs)} builds checked", end="", file=sys.stderr)
    missed = [v for v in verdicts if not v.ok]
    summary = [{"kernel": kernel.name, "problems": len(check.grid(kernel)[::args.every]), "missed": sum(v.kernel == kernel.name for v in missed),
                "worst_ratio": max((v.max_abs_error / v.baseline_max_abs_error for v in verdicts
                                    if v.kernel == kernel.name and v.baseline_max_abs_error), default=0.0)} for kernel in kernels]
    if args.json:
        print(json.dumps({"backend": device.backend, "device": device.name, "ok": not missed, "summary": summary,
                          "verdicts": [asdict(v) for v in verdicts]}, indent=1))
    else:
        for row in summary:
            print(f"{row['kernel']}: {row['problems']} problems in both builds on {device.name}, {row['missed']} missed; largest error "
                  f"{row['worst_ratio']:.2f} times torch's (2 allowed)")
        for v in missed:
            why = v.message or f"error {v.max_abs_error:.3g}, torch {v.baseline_max_abs_error:.3g}"
            print(f"  missed: {v.kernel} {v.build} {v.problem} {dict(v.settings)}: {why}")
    return FAILED if missed else OK


def _inspect(args):
    kernel = catalog.find(args.kernel)
    problem, settings = _assignments(kernel, args.set)
    facts = inspection.inspect(kernel, problem, settings, args.arch)
    if args.json:
        print(json.dumps(facts, indent=1))
        return OK
    for mode, made in facts["builds"].items():
        print(f"{kernel.name} {mode} build for {args.arch} ({made['compiler']}): PTX {made['ptx_bytes']:,} bytes, SASS {made['sass_bytes']:,} bytes, "
              f"{made['sass_instructions']:,} instructions")
        for entry in made["entries"]:
            print(f"  {entry['entry']:8s} {entry['registers']} registers, {entry['shared_bytes']:,} bytes shared, {entry['spill_bytes']} bytes spilled")
    for launch in facts["occupancy"] or ():
        print(f"{launch['entry']}: {launch['blocks']} blocks, {launch['warps']} warps per multiprocessor ({launch['percent']:.0f} %), limited by "
              f"{launch['limited_by']}; {launch['grid_blocks']:,} blocks are {launch['waves']:.2f} waves")
    return OK


def _record(args):
    from kernels.backends import recorded

    device = workers.survey().pick("gpu")
    for kernel in [catalog.find(name) for name in args.kernels] or catalog.KERNELS.values():
        for problem, settings, scope in check.recorded(kernel):
            request = Request(kernel, problem, settings, scope, device.backend)
            made = (workers.submit(task, request, backend="gpu", what=kernel.name).result()
                    for task in (execute.run, execute.traffic, execute.baseline))
            print(recorded.save(*made))
    return OK


def _calibrate(args):
    device = workers.survey().pick("gpu")
    unknown = set(args.op) - set(calibration.METRICS)
    if unknown:
        raise ProblemError(f"--op is {', '.join(sorted(unknown))}; it must be among {', '.join(calibration.METRICS)}.")
    table = calibration.update(device, args.op)
    missed = table[table.measured != table.modelled]
    print(f"{calibration.PATH}: {len(table)} accesses on {device.name}, {len(missed)} where the model differs from Nsight Compute")
    for row in missed.head(20).itertuples():
        print(f"  {row.op} of {row.width} bytes at {row.offsets}: measured {row.measured}, modelled {row.modelled}")
    return FAILED if len(missed) else OK


def _counters(args):
    device = workers.survey().pick("gpu")
    if args.occupancy:
        table = counters.occupancies()
        tables.save(table, counters.OCCUPANCY, tables.provenance(device, arch=device.target))
        differ = table[table.derived != table.driver]
        says = f"{len(table)} launches on {device.name}: {len(differ)} differ from the driver's occupancy"
    else:
        asked = counters.requests([catalog.find(name).name for name in args.kernels])
        table = counters.side_by_side(asked)
        differ = table[table.off_percent > counters.NOISE_PERCENT]
        says = f"{len(table)} launches on {device.name}: {len(differ)} differ by more than {counters.NOISE_PERCENT} %"
    print(table.to_json(orient="records", indent=1) if args.json else f"{table.to_string(index=False)}\n{says}")
    return FAILED if len(differ) else OK


def _measure(args):
    device = workers.survey().pick("gpu")
    names = ("hierarchy", "cycles", "timelines")
    for name in args.tables or names:
        if name not in names:
            raise ProblemError(f"There is no table {name!r}; there are {', '.join(names)}.")
        tell = (lambda done, of: print(f"\r{done} of {of}", end="", file=sys.stderr)) if sys.stderr.isatty() else (lambda done, of: None)
        for path in measurements.measure(name, device, tell):
            print(path)
    return OK


if __name__ == "__main__":
    sys.exit(main())
