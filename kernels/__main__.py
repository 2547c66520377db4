"""python -m kernels list | run | check | inspect | bench | record | calibrate | counters | measure

Exit codes: 0 ok, 1 failed, 2 bad usage or impossible problem, 3 no GPU where one was asked for.
"""

import argparse
import json
import os
import sys
from dataclasses import asdict, fields

import numpy as np
import pandas as pd

from kernels import bench, build, calibration, catalog, check, counters, execute, inspection, measure, measurements, tables, workers
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
    benches = command("bench", _bench, "Time kernels on this GPU, each after its output passed against float64.", "many")
    benches.add_argument("--sweep", action="append", default=[], metavar="FIELD=V1,V2,...",
                         help="a problem field, a compile-time constant, width (of the model), or batch and seq_len of paged problems; several make a product")
    benches.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="holds for every point")
    benches.add_argument("--peers", action="store_true", help="also torch's SDPA: math, memory-efficient, flash, cuDNN")
    benches.add_argument("--baseline", metavar="NAME", help="what speed-ups are against (default the first in the table)")
    benches.add_argument("--warm", action="store_true", help="the same arrays in every run, instead of an L2 that holds none of them")
    benches.add_argument("--out", metavar="FILE.csv|FILE.json", help="write the table, with its provenance, here")
    benches.set_defaults(backend="gpu")
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
    measures = command("measure", _measure, "Write recorded tables from this GPU: the memory lab's hierarchy, cycles and timelines, and the bench's times.")
    measures.add_argument("tables", nargs="*", metavar="TABLE", help="hierarchy, cycles, timelines or bench; all if none is given")
    measures.set_defaults(backend="gpu")
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


def _bench(args):
    if args.out and not args.out.endswith((".csv", ".json")):
        raise ProblemError(f"--out is {args.out!r}; it must end in .csv or .json.")
    chosen = [bench.set_field(text) for text in args.set]
    points = bench.points(args.kernels or list(catalog.ATTENTION), [bench.sweep_field(text) for text in args.sweep], chosen, args.peers, not args.warm)
    device = workers.survey().pick("gpu")
    made, roofs = _time_points(points)
    where = bench.provenance(device, roofs, made)
    shown = bench.labelled(made)
    labels = [label for label in dict.fromkeys(shown.label) if (shown[shown.label == label].status == "ok").any()]
    baseline = args.baseline or (labels[0] if labels else "")
    if args.baseline and args.baseline not in labels:
        print(f"--baseline {args.baseline!r} has no time here; those that have: {', '.join(labels) or 'none'}.", file=sys.stderr)
    compared = bench.speedups(shown, baseline)
    if args.out:
        _write(lambda: _save_bench(made, where, args.out), args.out)
    if args.json:
        rows = bench.records(compared) + bench.records(shown[shown.status != "ok"])
        print(json.dumps({"provenance": where, "baseline": baseline, "rows": rows}, indent=1))
    else:
        _print_bench(shown, compared, baseline, where)
    return FAILED if len(made) < len(points) or made.status.isin(["wrong", "failed"]).any() else OK


def _save_bench(made, where, path):
    if path.endswith(".csv"):
        tables.save(made, path, where)
    else:
        with open(path, "w") as file:
            json.dump({"provenance": where, "rows": bench.records(made)}, file, indent=1)


def _time_points(points):
    """(table of their rows, the machine's roofs). Ctrl-C ends it; what is done by then is kept, and the table is shorter than the points."""
    rows, roofs = [], workers.submit(measure.roofs, backend="gpu", what="Measuring the roofs", time_limit=CLI_TIME_LIMIT).result()
    try:
        for number, point in enumerate(points):
            if sys.stderr.isatty():
                filled = 30 * number // len(points)
                print(f"\r[{'#' * filled}{'.' * (30 - filled)}] {number} of {len(points)}  {point.name:24s}", end="", file=sys.stderr, flush=True)
            rows.append(_time_point(point, roofs))
        if sys.stderr.isatty():
            print(f"\r[{'#' * 30}] {len(points)} of {len(points)}  {'':24s}", file=sys.stderr)
    except KeyboardInterrupt:
        print(f"\nstopped: {len(rows)} of {len(points)} points are kept", file=sys.stderr)
    return bench.table(rows), roofs


def _time_point(point, roofs):
    if isinstance(point, bench.Skipped):
        return bench.skipped_row(point)
    try:
        timing = workers.submit(measure.measure, point, backend="gpu", what=point.name, time_limit=CLI_TIME_LIMIT).result()
    except WarpglassError as error:  # its worker died or ran out of time: the others go on
        timing = measure.Timing(point, "failed", str(error))
    return bench.row(timing, roofs)


def _print_bench(shown, compared, baseline, where):
    """One line per point, problem by problem, then what has no time and why."""
    print(f"{where['device']}, driver {where['driver']}, torch {where['torch']}, {where['date']}; roofs: {bench.roofs_said(where['roofs'])}; speed-up "
          f"against {baseline or 'nothing'} (p10 to p90)")
    for _, part in compared.groupby(bench.problem_key(compared), sort=False):
        first = part.iloc[0]
        print(", ".join(f"{name} {first[name]:g}" if isinstance(first[name], float) else f"{name} {first[name]}" for name in bench.SIZES
                        if pd.notna(first[name])) or first["problem"][:120], f"({first.l2} L2)")
        for r in part.itertuples():
            print(f"  {r.label:32s} {r.median_us:12,.2f} us ({r.p10_us:,.2f} to {r.p90_us:,.2f})" + (f" {r.tflops:9.3f} TFLOP/s" if pd.notna(r.tflops) else "")
                  + (f" {r.gb_per_s:9,.1f} GB/s {r.roof_percent:5.1f} % of {r.roof}" if pd.notna(r.gb_per_s) else "")
                  + (f"  x {r.speedup:.3f} ({r.speedup_low:.3f} to {r.speedup_high:.3f})" if pd.notna(r.speedup) else ""))
    for (label, status, reason), part in shown[shown.status != "ok"].groupby(["label", "status", "reason"], sort=False):
        print(f"  {label}: {status}{f' at {len(part)} problems' if len(part) > 1 else ''}. {reason}")


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
    names = ("hierarchy", "cycles", "timelines", "bench")
    unknown = [name for name in args.tables if name not in names]
    if unknown:
        raise ProblemError(f"There is no table {unknown[0]!r}; there are {', '.join(names)}.")
    for name in args.tables or names:
        if name == "bench":
            made, roofs = _time_points(bench.recorded_points())
            print(tables.save(made, bench.path_of(device.name), bench.provenance(device, roofs, made)))
            continue
        tell = (lambda done, of: print(f"\r{done} of {of}", end="", file=sys.stderr)) if sys.stderr.isatty() else (lambda done, of: None)
        for path in measurements.measure(name, device, tell):
            print(path)
    return OK


if __name__ == "__main__":
    sys.exit(main())
