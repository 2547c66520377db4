"""The needs and the time of two kernels: a pair of bars on a scale of its own for each, with questions."""

from collections.abc import Sequence

from explainers.models import tiling
from explainers.stories.compare import pair_times
from explainers.stories.compare.pair_times import SIDES, WORDS, PairRow
from explainers.stories.compare.reasons import uncounted
from explainers.story import picture, scene
from explainers.story.glossary import figure, microseconds
from explainers.story.stage import View
from explainers.story.words import Row
from kernels.core.request import Request
from kernels.run.results import Run
from kernels.trace.memory import traced

COLOURS = {"bytes": "read", "wavefronts": "K", "time": "O"}


def of(runs: Sequence[Run], row: PairRow | None) -> list[Row]:
    """Bytes and wavefronts for as much work, and the times.

    id: bytes, wavefronts or time. title: in words.
    values: of both sides. said: the same in words.
    parts: whether the value of a side is only a part of its need. That side has no bar then, as it would look small.
    equal: whether both needs are equal.
    """
    (a, per), (b, per_b) = (work(run.request) for run in runs)
    found, requests = list[Row](), [run.request for run in runs]
    if per == per_b and a and b and requests[0].problem == requests[1].problem:
        size, head = (requests[0].problem.bench_columns.get(name) for name in ("seq_len", "head_dim"))
        heads = f", heads of {head}" if head else ""
        here = {"per": per, "size": f" of {size:,} tokens{heads}" if isinstance(size, int) else ""}
        left = [uncounted(request) for request in requests]
        for id, amounts in (("bytes", [moved(run) for run in runs]), ("wavefronts", [wavefronts(run) for run in runs])):
            values = amounts[0] / a, amounts[1] / b
            said, parts = [figure(value) for value in values], [False, False]
            if id == "wavefronts":
                said = [f"{s} + {', '.join(u)} (not counted)" if u else s for s, u in zip(said, left)]
                parts = [bool(one) for one in left]
            if id == "bytes" or all(amounts):
                bar = {"id": id, "title": WORDS.say(f"title_{id}", here), "values": values, "said": said}
                found.append(bar | {"parts": parts, "equal": amounts[0] * b == amounts[1] * a})  # whole numbers
    if row is not None:
        times = float(row.median_us), float(row.median_us_b)
        here = {"where": pair_times.problem_said(row), "device": row.device, "date": row.date}
        bar = {"id": "time", "title": WORDS.say("title_time", here), "values": times, "parts": [False, False]}
        found.append(bar | {"said": [*map(microseconds, times)], "equal": pair_times.is_even(row)})
    return found


def views(runs: Sequence[Run], row: PairRow | None) -> list[View]:
    """The view of both sides. None for sides that cannot be compared. row: their times, None without a time."""
    panels = []
    for one in of(runs, row):
        bars = [
            scene.Bar(
                datum={"row": one["id"], "side": side},
                name=f"{side}: {run.request.kernel.name}",
                value=0.0 if part else value,
                text=said,
                tip=f"{one['title']}\nA {one['said'][0]}, B {one['said'][1]}",
                colour=COLOURS[one["id"]],
                strong=side == "A",
            )
            for side, run, value, said, part in zip(SIDES, runs, one["values"], one["said"], one["parts"])
        ]
        short = one["title"].partition(", in this run")[0].partition(", on ")[0]
        panels.append([scene.Bars(title=(one["title"], short), bars=bars, tall=True)])
    return [scene.view("bars", "Needs and time", panels)] if panels else []


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
