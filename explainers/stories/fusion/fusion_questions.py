"""The questions of the story of fusion, with the numbers of the run and of the recorded times."""

from collections.abc import Sequence

from explainers.stories.fusion.clock import Times, gap_share, gaps, in_graph, saved, source
from explainers.stories.fusion.frames import MoveFrame
from explainers.stories.fusion.ledger import NEVER, Ledger
from explainers.story import questions
from explainers.story.stage import Question


def asked(ledger: Ledger, frames: Sequence[MoveFrame], times: Times | None) -> list[Question]:
    found, last = [*saved_tensor(ledger, frames), *fewer_bytes(ledger, frames)], len(frames) - 1
    return [*found, *([*why_faster(times, last), *graph_gain(times, last)] if times else [])]


def saved_tensor(ledger: Ledger, frames: Sequence[MoveFrame]) -> list[Question]:
    """The tensor with the most bytes saved."""
    if not ledger.saved:
        return []
    right = next(iter(ledger.saved))
    never = ledger.kept(right) == NEVER
    why = f"The separate launches move {ledger.bytes(0, right):,} bytes of {right}, and the fused one "
    why += f"none: it stays {ledger.place}." if never else f"{ledger.bytes(1, right):,}: it writes {right} and goes on."
    text = "Which tensor does the fused kernel neither read from memory nor write to it?"
    if not never:
        text = "Which tensor does the fused kernel move fewer bytes of?"
    places = ledger.tensors
    first = len(ledger.entries[0])
    hides = [{"launch": first + n} for n in range(len(ledger.entries[1]))]  # the whole fused kernel
    wrong = sorted((t for t in places if t not in ledger.saved), key=lambda t: -ledger.bytes(1, t))
    step = len(frames) - 1
    return questions.options(
        "saved_tensor", text, right, wrong, why, step=step, view="ledger", covers=hides, veils=["sentence", "headline"]
    )


def fewer_bytes(ledger: Ledger, frames: Sequence[MoveFrame]) -> list[Question]:
    """The saved bytes."""
    before, after = ledger.totals
    if before <= after:
        return []
    largest = next(iter(ledger.saved))
    one_way = ledger.bytes(0, largest, "load")
    why = f"The sums are {before:,} and {after:,} bytes. {largest} makes the largest part of the difference."
    return questions.amounts(
        "fewer_bytes",
        "How many bytes fewer does the fused kernel move?",
        before - after,
        [one_way if one_way != before - after else 2 * one_way, after, 3 * one_way, before],
        why,
        unit="bytes",
        step=len(frames) - 1,
        view="ledger",
        covers=[{"total": 0}, {"total": 1}],
        veils=["sentence", "strip", "headline"],
    )


def why_faster(times: Times, step: int) -> list[Question]:
    """The cause of most of the saved time, if the gaps between launches are most of it."""
    if not gap_share(times) > 0.5:
        return []
    launch = "The saved launch" if len(gaps(times)) == 1 else "The saved launches"
    others = ["Fewer bytes", "Fewer computations"]
    why = f"Fusion saves {saved(times):.2f} µs. In a timeline of the separate launches, no kernel runs for "
    why += f"{sum(gaps(times)):.2f} µs between them. One launch has no such gap. Both: {source(times)}."
    text = f"Fused, it takes {in_graph(times, 'fused'):.2f} µs in place of {in_graph(times, 'separate'):.2f} µs. "
    return questions.options(
        "why_faster",
        f"{text}What saves most of this time?",
        launch,
        others,
        why,
        [launch, *others],
        step=step,
        view="ledger",
        covers=[{"note": 1}],
        veils=["headline", "sentence"],
    )


def graph_gain(times: Times, step: int) -> list[Question]:
    """The gain of one CUDA graph without fusion."""
    stream, graph, fused = times.us("separate", "stream"), times.us("separate", "graph"), times.us("fused", "graph")
    if not (stream > 0 and graph > 0 and fused > 0):
        return []
    gains = {"graph": stream / graph, "fusion": graph / fused, "both": stream / fused}
    said = {name: f"{gain:.2f} times" for name, gain in gains.items()}
    why = f"One chain takes {stream:.2f} µs launch by launch and {graph:.2f} µs in a graph. The bytes are equal. "
    why += f"Fusion makes it {fused:.2f} µs. The graphs are sustained, the launches rested. All: {source(times)}."
    order = [text for _, text in sorted((gain, said[name]) for name, gain in gains.items())]
    wrong = [said["fusion"], said["both"]]
    text = "How many times as fast are the separate launches in one CUDA graph?"
    return questions.options(
        "graph_gain",
        text,
        said["graph"],
        wrong,
        why,
        order,
        step=step,
        view="clock",
        veils=["picture", "tabs", "headline"],
    )
