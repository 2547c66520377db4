"""The picture `bars`: the needs and the time of two kernels, a pair of bars a row, on one scale."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from explainers.models import tiling
from explainers.stories.compare import pair_times
from explainers.stories.compare.build_needs import uncounted
from explainers.stories.compare.pair_times import PairRow
from explainers.story import picture
from explainers.story.glossary import figure, microseconds
from explainers.story.stage import View
from kernels.core.request import Request
from kernels.run.results import Run
from kernels.trace.memory import traced


@dataclass(frozen=True)
class Bars:
    """A row of the picture.

    id: bytes, wavefronts or time. title: in words.
    values: of both sides. said: the same in words.
    parts: whether the value of a side is only a part of its need. The picture then draws no bar for that side.
    """

    id: str
    title: str
    values: tuple[float, float]
    said: tuple[str, str]
    parts: tuple[bool, bool] = (False, False)


def views(runs: Sequence[Run], row: PairRow | None) -> list[View]:
    """The view of both sides. None for sides that cannot be compared.

    row: their times, None without a time.
    """
    rows = [vars(bars) for bars in of(runs, row)]
    names = [run.request.kernel.name for run in runs]
    return [View("bars", "bars", "Needs and time", {"rows": rows, "names": names})] if rows else []


def of(runs: Sequence[Run], row: PairRow | None) -> list[Bars]:
    """Bytes and wavefronts for as much work, and the times."""
    (a, per), (b, per_b) = (work(run.request) for run in runs)
    found: list[Bars] = []
    if per == per_b and a and b and runs[0].request.problem == runs[1].request.problem:
        here = f"for each {per}, in this run" + _size_of(runs[0].request)
        found.append(_bars("bytes", f"Bytes to and from global memory {here}", [moved(run) for run in runs], (a, b)))
        turns = [wavefronts(run) for run in runs]
        if all(turns):
            bars = _bars("wavefronts", f"Turns of shared memory (wavefronts) {here}", turns, (a, b))
            left = [uncounted(run.request) for run in runs]
            said_a, said_b = (f"{s} + {', '.join(u)} (not counted)" if u else s for s, u in zip(bars.said, left))
            found.append(replace(bars, said=(said_a, said_b), parts=(bool(left[0]), bool(left[1]))))
    if row is not None:
        times = float(row.median_us), float(row.median_us_b)
        said = microseconds(times[0]), microseconds(times[1])
        found.append(Bars("time", f"Time at {pair_times.problem_said(row)}, on {row.device}, {row.date}", times, said))
    return found


def _bars(id: str, title: str, amounts: Sequence[float], by: tuple[int, int]) -> Bars:
    values = amounts[0] / by[0], amounts[1] / by[1]
    return Bars(id, title, values, (figure(values[0]), figure(values[1])))


def _size_of(request: Request) -> str:
    """The size of a traced problem, for a title. Empty for a problem without tokens."""
    size, head = (request.problem.bench_columns.get(name) for name in ("seq_len", "head_dim"))
    heads = f", heads of {head}" if head else ""
    return f" of {size:,} tokens{heads}" if isinstance(size, int) else ""


def work(request: Request) -> tuple[int, str]:
    """The amount of work in a trace, and its unit: queries, or pairs of query and key with a causal mask, or the plan's
    items for other kernels. With a causal mask a later query has more keys."""
    if not tiling.accepts(request.kernel):
        item = request.plan.item
        return request.scope.count, f"block of {item}" if item.endswith("s") else item
    if request.problem.causal:
        return tiling.pairs(request, False), "pair of query and key"
    _, first, end = picture.query_rows(request)
    return end - first, "query"


def moved(run: Run) -> int:
    """Bytes of global memory in the run's trace."""
    table = run.trace.frame("space", "bytes", "event")
    return int(table[table.space == "global"].bytes.sum())


def wavefronts(run: Run) -> int:
    """Wavefronts of shared memory in the run's trace."""
    return int(traced.requests(run.trace, space="shared").costs.wavefronts.sum())
