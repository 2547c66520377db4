"""Questions about the ways of a pattern: the fastest one, the threads at work, and the reasons for their cycles."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from explainers.stories.patterns.moves import Walk
from explainers.story.glossary import count, figure
from explainers.story.questions import amounts, idea
from explainers.story.stage import Question
from kernels.measure.pattern_cycles import Cycles
from kernels.trace.memory.model import LANES

Ways = Sequence[tuple[str, Walk, Cycles | None]]


def questions(ways: Ways, chosen: str, starts: Mapping[str, int], reasons: Sequence[str] = ()) -> list[Question]:
    """The questions of the shown ways.

    chosen: the name of the first shown way.
    starts: the frame of the first step of each way.
    reasons: the sentences on the costs of the ways. An open question hides them.
    """
    made = [*_chain(ways, starts), *_fastest(ways), *_working(ways, chosen, starts), *_conflicts(ways), *_most(ways)]
    return [replace(question, hides=[*question.hides, *reasons]) for question in made]


def _fastest(ways: Ways) -> list[Question]:
    known = {name: cycles for name, _, cycles in ways if cycles}
    if len(known) < 2:
        return []
    order = sorted(known, key=lambda name: known[name].cycles)
    best, worst = order[0], order[-1]
    times = known[worst].cycles / known[best].cycles
    why = f"It takes {figure(known[best].cycles)} cycles. The slowest way takes {times:.1f} times as many: “{worst}”."
    wrong = {name: f"It takes {figure(known[name].cycles)} cycles." for name in (order[1], order[-2], worst)}
    wrong.pop(best, None)
    hides = [f"{figure(cycles.cycles)} cycles" for cycles in known.values()]
    return [
        idea(
            "fastest", "Which way takes the fewest cycles?", best, wrong, why, hides=hides, veils=["strip", "headline"]
        )
    ]


def _chain(ways: Ways, starts: Mapping[str, int]) -> list[Question]:
    """Why a way is slower than one with as many wavefronts, barriers and adds."""
    for name, walk, cycles in ways:
        for other, more, slower in ways:
            alike = [(w.wavefronts, w.barriers, [m["working"] for m in w.moves]) for w in (walk, more)]
            known = cycles and slower and cycles.cycles < slower.cycles and walk.longest < more.longest
            if walk.stages or not known or alike[0] != alike[1]:
                continue
            wrong = {
                "It has more barriers": f"Both have {count(walk.barriers, 'barrier')}.",
                "It adds more numbers": "In each step, as many threads add in both.",
                "It needs more wavefronts in all": f"Both need {count(walk.wavefronts, 'wavefront')}.",
            }
            why = f"{more.longest} wavefronts follow one another, in place of {walk.longest}: fewer warps share them."
            text = f"Why is “{other}” slower than “{name}”?"
            right = "As many wavefronts in all, but fewer warps share them, one after another"
            hides = [f"{more.longest} wavefronts in turn"]
            return [idea("chain", text, right, wrong, why, step=starts[other], hides=hides, veils=["strip"])]
    return []


def _working(ways: Ways, chosen: str, starts: Mapping[str, int]) -> list[Question]:
    """The threads at work in the second step of the chosen way, or in the step of a way with the fewest, if these are
    not all threads."""
    own = {name: walk.moves for name, walk, _ in ways}
    fewest = min(own, key=lambda name: min(move["working"] for move in own[name]))
    step = min(range(len(own[fewest])), key=lambda n: own[fewest][n]["working"])
    threads = len(own[chosen][0]["threads"])
    name = fewest
    if len(own[chosen]) > 1 and own[chosen][1]["working"] < threads:
        name, step = chosen, 1
    right, said = own[name][step]["working"], own[name][step]["title"]
    if right == threads:
        return []
    why = f"In step {step + 1}, {said}."
    text = f"{name}: how many of the {threads} threads work in step {step + 1}?"
    near = [threads, threads // 2, 32, 1]
    veils = ["sentence", "strip", "picture"]
    return amounts("working", text, right, near, why, "threads", step=starts[name] + step, veils=veils)


def _conflicts(ways: Ways) -> list[Question]:
    """Two ways with as many threads at work in every step, and other wavefronts."""
    for name, walk, _ in ways:
        for other, more, _ in ways:
            alike = [m["working"] for m in walk.moves] == [m["working"] for m in more.moves]
            if not alike or walk.stages or not walk.wavefronts < more.wavefronts:
                continue
            text = (
                f"{name} needs {walk.wavefronts} wavefronts. {other} has as many threads at work in every step. "
                "How many wavefronts does it need?"
            )
            near = [walk.wavefronts, 2 * walk.wavefronts, walk.wavefronts // 2, 8 * walk.wavefronts]
            why = f"{other} needs {more.wavefronts}: {_reason(walk, more)}."
            hides = [f"{more.wavefronts} wavefronts"]
            return amounts("conflicts", text, more.wavefronts, near, why, "wavefronts", hides=hides, veils=["strip"])
    return []


def _reason(walk: Walk, more: Walk) -> str:
    """The reason for more wavefronts with as many threads."""
    few, many = _warps(walk), _warps(more)
    if many > few:
        return f"over all steps, {many} warps work in place of {few}, each with fewer lanes"
    return "its words share banks, so they take turns"


def _warps(walk: Walk) -> int:
    """The warps at work, added up over all steps."""
    rows = [move["threads"][n : n + LANES] for move in walk.moves for n in range(0, len(move["threads"]), LANES)]
    return sum("1" in row for row in rows)


def _most(ways: Ways) -> list[Question]:
    """The way with the most wavefronts, requests or sums alone, if the ways differ."""
    for id, words, of in (
        ("wavefronts", "wavefronts of shared memory", lambda walk: 0 if walk.stages else walk.wavefronts),
        ("alone", "tiles added while no copy runs", lambda walk: walk.alone if walk.stages else 0),
        ("requests", "requests of global memory", lambda walk: walk.requests),
    ):
        found = {name: of(walk) for name, walk, _ in ways}
        order = sorted(found, key=lambda name: -found[name])
        top, rest = order[0], [name for name in order[1:] if found[name] < found[order[0]]]
        if len(rest) < len(order) - 1 or not rest:
            continue
        wrong = {name: f"It has {found[name]:,}." for name in (rest[0], rest[len(rest) // 2], rest[-1])}
        why = f"{top} has {found[top]:,} {words}, {rest[-1]} {found[rest[-1]]:,}."
        hides = [text for value in found.values() for text in (f"{value:,}", f"{value}")]
        text = f"Which way has the most {words}?"
        return [idea(id, text, top, wrong, why, hides=hides, veils=["sentence", "strip"])]
    return []
