"""Questions about the bytes, wavefronts and times of two kernels."""

from collections.abc import Iterable, Sequence

from explainers.stories.compare import pair_bars, pair_times
from explainers.stories.compare.pair_times import PairRow
from explainers.story.glossary import figure, microseconds
from explainers.story.questions import Where, idea
from explainers.story.stage import Question, Stage
from kernels.run.results import Run


def two_kernels(runs: Sequence[Run], made: Stage, row: PairRow | None = None) -> list[Question]:
    """Questions about bytes, wavefronts and times of the two sides.

    row: a row of pair_times.times, None without a time.

    The sides can trace different amounts of work, so each count is divided by its work.
    """
    found: list[Question] = []
    each: list[float] = []
    names = [run.request.kernel.name for run in runs]
    sides = {"A": f"A: {names[0]}", "B": f"B: {names[1]}", "even": "Both the same"}
    where: Where = {"step": len(made.frames) - 1, "view": "bars", "veils": ("strip", "headline", "tabs")}
    (a, per), (b, _) = (pair_bars.work(run.request) for run in runs)
    bars = {one.id: one for one in pair_bars.of(runs, row)}
    if "bytes" in bars:
        moved = [pair_bars.moved(run) for run in runs]
        found.append(_more_bytes(moved, (a, b), per, sides, _covered(where, "bytes", bars)))
    if "wavefronts" in bars and not any(bars["wavefronts"].parts):
        each = [*bars["wavefronts"].values]
        found.append(_more_wavefronts(each, per, sides, _covered(where, "wavefronts", bars)))
    if row is not None:
        found.append(_faster(row, each, per, sides, _covered(where, "time", bars)))
    return found


def _covered(where: Where, row: str, bars: Iterable[str]) -> Where:
    """The place of a question. It covers its own row of the picture, and the rows of later questions.

    bars: the rows in their order.
    """
    listed = [*bars]
    return {**where, "covers": [{"row": id} for id in listed[listed.index(row) :]], "shows": {"row": row}}


def _more_wavefronts(each: Sequence[float], per: str, sides: dict[str, str], where: Where) -> Question:
    """Which side needs more wavefronts of shared memory. each: of both sides, for as much work."""
    side = "even" if each[0] == each[1] else "AB"[each[1] > each[0]]
    figures = f"A needs {figure(each[0])} wavefronts for each {per}, B {figure(each[1])}"
    why = f"{figures}. Each wavefront is one turn of the shared memory."
    wrong = {said: f"{figures}." for key, said in sides.items() if key != side}
    text = f"Which side needs more turns of the shared memory for each {per}?"
    return idea("wavefronts", text, sides[side], wrong, why, ordered=list(sides.values()), **where)


def _faster(row: PairRow, each: Sequence[float], per: str, sides: dict[str, str], where: Where) -> Question:
    """Which side is faster, by the recorded times. each: the wavefronts of both sides, or nothing."""
    side = "even" if pair_times.is_even(row) else "AB"[row.ratio > 1]
    said = f"A takes {microseconds(row.median_us)}, B {microseconds(row.median_us_b)}."
    wrong = {text: said for key, text in sides.items() if key != side}
    times = f"{figure(max(row.ratio, 1 / row.ratio), 3)} times as fast"
    ratio = "The difference is within the spread." if side == "even" else f"{side} is {times}."
    less = "AB"[each[1] < each[0]] if each else ""
    turns = f" It needs fewer turns of the shared memory for each {per}." if side == less else ""
    why = f"{said} {ratio}{turns} The problem: {pair_times.problem_said(row)}."
    text = f"Which side is faster at {pair_times.problem_said(row)}?"
    return idea("faster", text, sides[side], wrong, why, ordered=list(sides.values()), **where)


def _more_bytes(
    moved: Sequence[int], traced: tuple[int, int], per: str, sides: dict[str, str], where: Where
) -> Question:
    """Which side moves more bytes, read and written, for as much work. moved, traced: of both."""
    a, b = moved[0] * traced[1], moved[1] * traced[0]  # the bytes of each for the work of the other
    right = "even" if a == b else "AB"[b > a]
    each = [n / by for n, by in zip(moved, traced)]
    text = f"Which side moves more bytes from and to global memory for each {per}?"
    moves = f"A reads and writes {figure(each[0])} bytes for each {per}, and B {figure(each[1])}."
    why = against = moves
    if per == "query" and a != b and traced[0] != traced[1]:
        against = f"A loads each tile of K and V for {traced[0]} queries, and B for {traced[1]}."
        why = f"{moves} {against}"
    wrong = dict.fromkeys(sides.values(), against)
    del wrong[sides[right]]
    return idea("bytes", text, sides[right], wrong, why, list(sides.values()), **where)
