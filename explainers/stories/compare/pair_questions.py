"""Questions about the bytes, wavefronts and times of two kernels."""

from collections.abc import Sequence

from explainers.stories.compare import pair_times, time_verdict
from explainers.stories.compare.pair_times import PairRow
from explainers.stories.tiling import tiling as tiled
from explainers.stories.tiling import traffic
from explainers.story import picture
from explainers.story.glossary import figure
from explainers.story.questions import More, Where, options
from explainers.story.stage import MEASURED, Question, Stage
from kernels.core.request import Request
from kernels.run.results import Run
from kernels.trace.memory import traced


def two_kernels(runs: Sequence[Run], made: Stage, row: PairRow | None = None) -> list[Question]:
    """Questions about bytes, wavefronts and times of the two sides.

    row: a row of pair_times.times, None without a time.

    The sides can trace different amounts of work, so each count is divided by its work.
    """
    found: list[Question] = []
    names = [run.request.kernel.name for run in runs]
    sides = {"A": f"A: {names[0]}", "B": f"B: {names[1]}", "even": "Both the same"}
    where: Where = {"step": len(made.frames) - 1, "veils": ("strip", "headline", "tabs")}
    (a, per), (b, per_b) = (_traced(run.request) for run in runs)
    if per == per_b and a and b and runs[0].request.problem == runs[1].request.problem:
        found += _more_bytes([_moved(run) for run in runs], (a, b), per, sides, where)
        costs = [int(traced.requests(run.trace, space="shared").costs.wavefronts.sum()) for run in runs]
        if all(costs):
            each = costs[0] / a, costs[1] / b
            text = (
                f"A's accesses of shared memory take {figure(each[0])} wavefronts for each {per}. How many do B's take?"
            )
            why = (
                f"Derived from the logged addresses: A {costs[0]:,} for {a:,}, B {costs[1]:,} for {b:,}. For each "
                f"{per} that is {figure(each[0])} and {figure(each[1])}, {figure(each[1] / each[0])} times as many."
            )
            key = float(figure(each[1]).replace(",", ""))
            more: More = {**where, "unit": "wavefronts", "tolerance": MEASURED}
            found.append(Question("wavefronts", text, "number", key, why, **more))
    if row is not None and not pair_times.is_even(row):
        faster, slower, times = ("B", "A", row.ratio) if row.ratio > 1 else ("A", "B", 1 / row.ratio)
        builds = [
            time_verdict.build_text(run.request.kernel, pair_times.settings_of(row, side))
            for side, run in enumerate(runs)
        ]
        text = (
            f"Timed were A as {builds[0]} and B as {builds[1]}, at {pair_times.problem_said(row)}, with "
            f"{row.l2} L2. How many times as fast as {slower} is {faster}?"
        )
        more = {**where, "veils": ("headline", "tabs"), "unit": "times", "tolerance": MEASURED}
        why = time_verdict.ratio_sentence(row)
        found.append(Question("faster", text, "number", round(float(times), 2), why, **more))
    return found


def _traced(request: Request) -> tuple[int, str]:
    """The amount of work in a trace, and its unit: queries, or pairs of query and key with a causal mask, or the plan's
    items for other kernels. With a causal mask a later query has more keys."""
    if not tiled.accepts(request.kernel):
        return request.scope.count, request.plan.item
    if request.problem.causal:
        return traffic.pairs(request, False), "pair of query and key"
    _, first, end = picture.query_rows(request)
    return end - first, "query"


def _more_bytes(
    moved: Sequence[int], traced: tuple[int, int], per: str, sides: dict[str, str], where: Where
) -> list[Question]:
    """Which side moves more bytes for as much work. moved, traced: of both."""
    a, b = moved[0] * traced[1], moved[1] * traced[0]  # the bytes of each for the work of the other
    right = "even" if a == b else "AB"[b > a]
    each = [n / by for n, by in zip(moved, traced)]
    text = f"Which side moves more bytes to and from global memory for each {per}?"
    why = (
        f"As logged, A moves {moved[0]:,} bytes for {traced[0]:,} and B {moved[1]:,} for {traced[1]:,}. For each {per} "
        f"that is {figure(each[0])} and {figure(each[1])}"
    )
    why += "." if right == "even" else f": {right} moves {figure(max(a, b) / max(1, min(a, b)))} times as many."
    order = list(sides.values())
    return options("bytes", text, sides[right], order, why, order, **where)


def _moved(run: Run) -> int:
    """Bytes of global memory in the run's trace."""
    table = run.trace.frame("space", "bytes", "event")
    return int(table[table.space == "global"].bytes.sum())
