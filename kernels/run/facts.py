"""The command line's reports on kernels and runs, with their JSON keys. Scripts rely on each key."""

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kernels.core.cases import sample
from kernels.core.fields import fields_of
from kernels.core.spec import KernelSpec
from kernels.core.tolerance import OutputError, worst
from kernels.run import execute
from kernels.run.plain import launches
from kernels.run.plain.tables import traffic
from kernels.run.results import Run
from kernels.trace.memory.traced import requests

NOTHING_LOGGED = (
    "no probe logged anything. Add probes (device/probe.cuh), or choose --backend cpu for a kernel in CUDA's own "
    "names. Otherwise a page shows only the tensors."
)
NOT_COMPARED = (
    "No truth is known, so nobody compared its values. A truth is a line of NumPy in its comment, such as "
    'truth = "x @ y".'
)
SECTOR = 32  # bytes
ROOT = Path(__file__).parents[2]


def of_kernel(spec: KernelSpec) -> dict[str, object]:
    """`list`'s report on a kernel. tensors: of its sample (core/cases.py)."""
    shown = sample(spec)
    known = {
        name: {"default": f.default, **{key: value for key, value in f.metadata.items() if value not in (None, "")}}
        for name, f in fields_of(spec.problem_type).items()
    }
    return {
        "name": spec.name,
        "title": spec.title,
        "idea": spec.idea,
        "family": spec.family,
        "source": spec.literature,
        "file": str(spec.path.relative_to(ROOT) if spec.path.is_relative_to(ROOT) else spec.path),
        "problem": known,
        "constants": {
            c.name: {"default": c.default, "allowed": c.values, "meaning": c.meaning, "what_if": c.what_if}
            for c in spec.constants
        },
        "tensors": [
            {**asdict(t), "role": t.role.value, "initial": t.initial.value}
            for t in spec.plan(shown.problem, shown.settings).tensors
        ],
        "launches": [{"entry": text.entry, "item": text.item} for text in spec.launch_texts],
        "requires": spec.requires,
        "code_hash": spec.code_hash,
    }


def of_run(run: Run, yardsticks: dict[str, float], race: str = "") -> dict[str, object]:
    """`run`'s report. race: the difference between the thread orders. A run with one is wrong.

    Keys max_abs_error, baseline_max_abs_error: of the output closest to its limit, or None for a problem without a
    truth. Key errors: of each output."""
    request = run.request
    errors = execute.judge(run.max_abs_errors, yardsticks, request.problem, request.kernel.plain)
    return {
        "kernel": request.kernel.name,
        "backend": request.backend,
        "provenance": run.provenance,
        "device": run.device,
        "compiler": run.compiler,
        "date": run.date,
        "code_hash": request.kernel.code_hash,
        "problem": request.problem.values(),
        "settings": request.constants,
        "scope": asdict(request.scope),
        "max_abs_error": worst(errors).largest if errors else None,
        "baseline_max_abs_error": worst(errors).yardstick if errors else None,
        "worst_output": worst(errors).output if errors else None,
        "errors": of_errors(errors),
        "correct": all(e.ok for e in errors) and not race and not launches.errors(run.faults),
        "race": race,
        "faults": [fault.as_json() for fault in run.faults],
        "records": run.trace.table.num_rows,
        "lost": run.trace.lost,
    }


def run_lines(run: Run, said: dict[str, Any]) -> list[str]:
    """`run` in words: the problem, the verdict, the requests to both memories, and the bytes of each tensor.

    said: of_run's report."""
    request, plan = run.request, run.request.plan
    fields = {**request.problem.texts(), **request.constants}
    told = ", ".join(f"{name} {text}" for name, text in fields.items() if text != "")
    misses = "; ".join(
        f"{name} is off by {e['largest']:.3g} (torch by {e['yardstick']:.3g}, allowed {e['allowed']:.3g})"
        for name, e in said["errors"].items()
    )
    lines = [
        f"{request.kernel.name}: {told}",
        f"{run.provenance} on {run.device}, {run.date}, code {request.kernel.code_hash}",
        f"{'right' if said['correct'] else 'wrong'}: {misses}" if misses or not said["correct"] else "no fault found",
        *([str(said["race"])] if said["race"] else []),
        *launches.errors(run.faults),
    ]
    if not run.trace.table.num_rows:
        return lines
    of = plan.items_of(plan.item)
    lines.append(f"{plan.item} {request.scope.first} of {of:,}:" if request.scope.count == 1 else f"{plan.item}s:")
    counted = requests(run.trace).by_line
    shared, others = counted[counted.space == "shared"], counted[counted.space == "global"]
    if len(shared):
        one = shared.loc[shared.conflicts.idxmax()]
        lines += [
            f"  shared memory: {shared.requests.sum():,} requests of warps, {shared.wavefronts.sum():,} wavefronts, at "
            f"best {shared.ideal.sum():,}",
            f"    {_place(one)}: {one.wavefronts / one.requests:.3g} a request, at best {one.ideal / one.requests:.3g}",
        ]
    if len(others):
        one = others.loc[(SECTOR * others.sectors - others.bytes_used).idxmax()]
        used = one.bytes_used / (SECTOR * one.sectors)
        lines += [
            f"  global memory: {others.requests.sum():,} requests of warps, {others.sectors.sum():,} sectors",
            f"    {_place(one)}: {one.sectors / one.requests:.3g} a request, {used:.0%} of their bytes used",
        ]
    moved = traffic(run.trace)
    for (space, kind), part in moved.groupby(["space", "kind"], sort=False):
        each = ", ".join(f"{row.tensor} {row.bytes:,.0f}" for row in part.itertuples())
        lines.append(f"  bytes, {space} {kind}: {each}")
    return lines


def _place(row: Any) -> str:
    """row: of Requests.by_line."""
    return f"{row.file} line {row.line} ({row.kind} {row.tensor})"


def of_errors(errors: Iterable[OutputError]) -> dict[str, dict[str, object]]:
    """output -> its largest error, torch's error, the limit, and whether it is within the limit."""
    return {
        e.output: {"largest": e.largest, "yardstick": e.yardstick, "allowed": e.allowed, "ok": e.ok} for e in errors
    }


def inspect_lines(facts: dict[str, Any]) -> list[str]:
    """build.inspection in words: a line for each build, entry and launch."""
    lines = []
    for mode, build in facts["builds"].items():
        lines.append(
            f"{facts['kernel']} {mode} build for {facts['arch']} ({build['compiler']}): PTX {build['ptx_bytes']:,} "
            f"bytes, SASS {build['sass_bytes']:,} bytes, {build['sass_instructions']:,} instructions"
        )
        lines += [
            f"  {entry['entry']:8s} {entry['registers']} registers, {entry['shared_bytes']:,} bytes shared, "
            f"{entry['stack_bytes']:,} bytes of local memory a thread ({entry['spill_bytes']:,} bytes spilled)"
            for entry in build["entries"]
        ]
    lines += [
        f"{launch['entry']}: {launch['blocks']} blocks, {launch['warps']} warps per multiprocessor "
        f"({launch['percent']:.0f} %), limited by {launch['limited_by']}. {launch['grid_blocks']:,} blocks are "
        f"{launch['waves']:.2f} waves"
        for launch in facts["occupancy"] or ()
        if launch["blocks"]
    ]
    return [*lines, *facts["opt_in"], *facts["cannot_run"]]
