"""`check` in words and as JSON (formats.md). Scripts, agents and CI rely on each key."""

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kernels.core.tolerance import worst
from kernels.run.check import TOO_FEW, Verdict
from kernels.run.facts import NOT_COMPARED, NOTHING_LOGGED, of_errors
from kernels.run.wrong.telling import evidence_of, once

FORMAT = 1
GPU_CANNOT = (
    "On a GPU, check cannot see a local that starts unset, nor a race that the order of threads hides. "
    "python -m kernels check --backend cpu looks for both."
)


def as_json(backend: str, device: str, summaries: Iterable[dict[str, Any]], verdicts: list[Verdict]) -> dict[str, Any]:
    """The whole report. A number that is no number, such as the error of a NaN, is null."""
    rows = list(summaries)
    faults, first = [], list[dict[str, Any]]()
    for row in rows:
        own = [verdict for verdict in verdicts if verdict.kernel == row["kernel"]]
        faults += list(_faults(own))
        first += [of_verdict(verdict) for verdict in own if not verdict.ok][:1]
    said: dict[str, Any] = {
        "format": FORMAT,
        "backend": backend,
        "device": device,
        "ok": is_ok(rows, verdicts),
        "named": sum(row["named"] for row in rows),
        "tried": sum(row["problems"] for row in rows),
        "wrong": sum(row["wrong"] for row in rows),
        "faults": faults,
        "first_wrong": first,
        "summary": rows,
        "verdicts": [of_verdict(verdict) for verdict in verdicts],
    }
    return {key: _finite(value) for key, value in said.items()}


def _finite(said: object) -> object:
    """JSON has no NaN and no infinity. Each is null."""
    if isinstance(said, dict):
        return {key: _finite(value) for key, value in said.items()}
    if isinstance(said, (list, tuple)):
        return [_finite(value) for value in said]
    return None if isinstance(said, float) and not math.isfinite(said) else said


def steadily(draw: Callable[[int, int, str], None], seconds: float = 20.0) -> Callable[[int, int], None]:
    """The progress of a check: by `draw` on a terminal, elsewhere a line after so many seconds."""
    last = time.monotonic()

    def progress(done: int, of: int) -> None:
        nonlocal last
        draw(done, of, "problems")
        if not sys.stderr.isatty() and time.monotonic() - last >= seconds:
            last = time.monotonic()
            print(f"{done} of {of} problems", file=sys.stderr, flush=True)

    return progress


def show(said: Iterable[str]) -> None:
    """Prints lines in place of the line of the progress."""
    print("\r\033[K" if sys.stderr.isatty() else "", end="", file=sys.stderr, flush=True)
    print("\n".join(said), flush=True)


def is_ok(summaries: Iterable[dict[str, Any]], verdicts: Iterable[Verdict]) -> bool:
    """Whether no problem is wrong, and enough problems of each kernel were tried."""
    return all(verdict.ok for verdict in verdicts) and all(row["enough"] for row in summaries)


def _faults(verdicts: Iterable[Verdict]) -> Iterator[dict[str, Any]]:
    """Each fault once: of several problems, the first one's. problems: how many have it."""
    kept: dict[object, dict[str, Any]] = {}
    for verdict in verdicts:
        for fault in verdict.faults:
            key = fault.kind, fault.level, fault.file, fault.lines
            line = fault.lines[0] if fault.lines else None
            first = {"kernel": verdict.kernel, **fault.as_json(), "line": line, "problems": 0}
            kept.setdefault(key, first)["problems"] += 1
    yield from kept.values()


def of_verdict(verdict: Verdict) -> dict[str, object]:
    return {
        "kernel": verdict.kernel,
        "build": verdict.build,
        "problem": verdict.problem.values() if verdict.problem else None,
        "settings": dict(verdict.settings),
        "max_abs_error": verdict.max_abs_error,
        "baseline_max_abs_error": verdict.baseline_max_abs_error,
        "worst_output": worst(verdict.errors).output if verdict.errors else None,
        "errors": of_errors(verdict.errors),
        "ok": verdict.ok,
        "message": verdict.message,
        "faults": [fault.as_json() for fault in verdict.faults],
        "reason": verdict.reason.as_json() if verdict.reason else None,
    }


def lines(row: dict[str, Any], missed: Iterable[Verdict], device: str, everything: bool = False) -> list[str]:
    """A kernel's check in words: its line, each reason of a refusal, its first wrong problem with the likely cause.

    missed: the wrong builds of the kernel. everything: each wrong problem, not only the first."""
    wrong: dict[object, list[Verdict]] = {}  # the builds of each problem
    for v in missed:
        wrong.setdefault((v.problem, v.settings), []).append(v)
    failed = sum(not any(v.errors for v in builds) for builds in wrong.values())
    tried = f"{row['kernel']}: {row['problems']} of {row['named']} problems tried"
    if wrong:
        found = [f"{tried}, {len(wrong)} wrong, in both builds on {device}"]
    elif not row["enough"]:
        found = [f"{tried}, so {TOO_FEW}"]
    elif not row["compared"]:
        found = [f"{tried}, no fault found, in both builds on {device}. {NOT_COMPARED}"]
    else:
        found = [f"{tried}, all agree, in both builds on {device}. {_largest(row)}"]
    found += [f"  {row['main']}"] if row["main"] else []
    found += [f"  {NOTHING_LOGGED}"] if row["problems"] > failed and not row["records"] else []
    found += [f"  {count} refused: {reason}" for reason, count in row["refused"].items()]
    found += [f"  not run: {reason}" for reason in row["cannot_run"]]
    shown: dict[object, list[list[Verdict]]] = {}  # a lasting message, such as of a compiler, appears once
    for number, builds in enumerate(wrong.values()):
        shown.setdefault(number if builds[0].errors else builds[0].message, []).append(builds)
    groups = list(shown.values())
    likely = once(one for builds in wrong.values() for v in builds for one in evidence_of((), v.reason))
    if likely and not everything:  # the first problem with the most telling cause
        groups.sort(key=lambda group: not any(v.reason and v.reason.kind == likely[0].kind for v in group[0]))
    for group in groups if everything else groups[:1]:
        found += _wrong_lines(group)
    rest = len(wrong) - len(groups[0]) if groups and not everything else 0
    return found + ([f"  and {rest} more of {len(wrong)} (--all)"] if rest else [])


def _largest(row: dict[str, Any]) -> str:
    """The largest errors of a right kernel."""
    if not row["worst_share"]:
        return "No value is off."
    of_torch = f"{row['worst_ratio']:.2f} times torch's, and " if row["worst_ratio"] else ""
    return f"The largest error is {of_torch}{row['worst_share']:.0%} of the limit"


def _wrong_lines(group: list[list[Verdict]]) -> list[str]:
    """The builds of a wrong problem, and the likely cause. Other problems of the group have the same message."""
    first = group[0][0]
    fields = first.problem.texts() if first.problem else {}
    told = ", ".join(f"{name}={text}" for name, text in {**fields, **dict(first.settings)}.items() if text != "")
    also = f" ({len(group) - 1} more problems with this message)" if len(group) > 1 else ""
    found, said = [f"  wrong: {told}"] if told else [], set[str]()
    for v in group[0]:
        misses = (
            f"{e.output}: {e.said}, torch {e.yardstick:.3g}, allowed {e.allowed:.3g}" for e in v.errors if not e.ok
        )
        text = v.message or "; ".join(misses)
        found += [f"    {v.build}: {text}{also}"] if text not in said else []
        said.add(text)
    if reason := next((v.reason for v in group[0] if v.reason), None):
        at = f" (line {reason.line})" if reason.line and f"ine {reason.line}" not in reason.sentence else ""
        likely = "" if reason.kind == "unknown" else "likely: "
        found.append(f"    {likely}{reason.sentence}{at}")
    return found
