"""Counts of a run that an exercise limits. They come from the logged accesses, so they need no GPU."""

from dataclasses import replace

from kernels import catalog
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.run import execute
from kernels.trace.memory import traced

CONFLICTS, SECTORS = "bank_conflicts", "sectors"


def broken(request: Request, name: str, most: float) -> str:
    """A sentence for a count above its limit, or "".

    name: bank_conflicts, or sectors/KERNEL for the sectors of global memory over those of one of our kernels.
    most: the limit.
    """
    kind, _, rung = name.partition("/")
    if kind == CONFLICTS:
        return _conflicts(request, most)
    own, other = _sectors(request), _sectors(replace(request, kernel=catalog.find(rung), settings=()))
    said = f"{request.kernel.title} moves {own:,} sectors of global memory, and {rung} {other:,}."
    return "" if own <= most * other else f"{said} At most {most:.0%} of them are allowed."


def _conflicts(request: Request, most: float) -> str:
    """The line with the most wavefronts for one request to shared memory."""
    table = _requests(request, "shared").by_line
    if table.empty:
        return ""
    table = table.assign(times=table.wavefronts / table.ideal)
    worst = table.loc[table.times.idxmax()]
    if worst.times <= most:
        return ""
    said = f"A request of line {worst.line} takes {worst.times:.3g} times as many wavefronts as without bank conflicts."
    return f"{said} At most {most:g} times is allowed."


def _sectors(request: Request) -> int:
    return int(_requests(request, "global").by_line.sectors.sum())


def _requests(request: Request, space: str) -> traced.Requests:
    """All accesses of a run to a memory."""
    everything = replace(request, scope=Scope.everything(request.plan))
    return traced.requests(execute.run(everything).trace, space)
