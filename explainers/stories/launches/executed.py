"""The order of the launches and copies of a run on the CPU, and the bytes that each launch reads and writes."""

import pandas as pd

from explainers.story import stage
from explainers.story.base import Runner
from explainers.story.stage import Block
from kernels.core.request import Request
from kernels.core.streams import copied_bytes, steps
from kernels.measure.launch_times import names


def blocks(request: Request, runner: Runner) -> list[Block]:
    """The order and the bytes as a table, without any time."""
    run = runner.run(request)
    moved = bytes_of_launches(run.trace.frame("launch", "event", "space", "bytes"))
    rows = []
    for step, (name, stream) in zip(steps(request.plan), names(request)):
        parent = request.plan.launches[step.number].parent
        waits = [f"launched by {parent}"] if parent else [request.plan.launches[n].entry for n in step.waits]
        if step.tensor:
            rows.append([name, stream, "", None, len(copied_bytes(request.plan, step))])
        else:
            rows.append([name, stream, ", ".join(waits), *moved.get(step.number, (0, 0))])
    table = pd.DataFrame(rows, columns=["launch or copy", "stream", "waits for", "bytes read", "bytes written"])
    said = "The CPU runs the launches one after another, and gives no times. Bytes are those of global memory."
    return [stage.text(f"{said} Problem: {request.problem.size}.", run.provenance), stage.table(table)]


def bytes_of_launches(accesses: pd.DataFrame) -> dict[int, tuple[int, int]]:
    """Launch -> bytes read from and written to global memory."""
    own = accesses[accesses.space == "global"]
    found = own.assign(stored=own.event == "store").groupby(["launch", "stored"]).bytes.sum()
    launches = own.launch.unique()
    return {int(n): (int(found.get((n, False), 0)), int(found.get((n, True), 0))) for n in launches}
