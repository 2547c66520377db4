"""Why one build is faster than another: the needs of its run by weight, and the unexplained rest.

A reason's weight is the slower build's least time minus the faster one's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explainers.stories.compare.build_needs import Figures, Rates, least_times
from explainers.stories.compare.reason_words import SIDES, ReasonWords
from explainers.story.glossary import microseconds, short

NEEDS = {"wavefronts": "shared memory", "bytes": "bytes from L2", "arithmetic": "arithmetic"}
EQUAL = 1.05  # a smaller difference is no reason


@dataclass(frozen=True)
class Reason:
    """A reason for a difference.

    what: wavefronts, bytes, arithmetic, multiprocessors, warps or launches.
    brief: one line with the figures of both sides.
    said: the reason in full.
    weight: microseconds, None for a reason without a time.
    ratio: the slower side's need over the faster one's.
    """

    what: str
    brief: str
    said: str
    weight: float | None
    ratio: float


def reasons(figures: Sequence[Figures], rates: Rates, times_us: Sequence[float]) -> tuple[list[Reason], list[Reason]]:
    """Returns the reasons for the faster side, the weightiest first, and the reasons for the slower side.

    Reasons without a time come last.
    """
    slow = _slower(times_us)
    least, words = least_times(figures, rates), ReasonWords(figures, rates, times_us)
    for_faster: list[Reason] = []
    for_slower: list[Reason] = []
    for kind, need in _needs(figures, rates, least).items():
        ratio = _over(need[slow], need[1 - slow])
        if 1 / EQUAL < ratio < EQUAL:
            continue
        own = least.get(kind)
        weight = own[slow] - own[1 - slow] if own else None
        reason = Reason(kind, words.brief(kind, own), words.full(kind, own), weight, ratio)
        (for_slower if ratio < 1 else for_faster).append(reason)
    return _weightiest_first(for_faster), _weightiest_first(for_slower)


def _slower(times_us: Sequence[float]) -> int:
    """Returns the slower side."""
    return 0 if times_us[0] >= times_us[1] else 1


def _needs(figures: Sequence[Figures], rates: Rates, least: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    """Returns each need of both sides, more for the slower one."""
    warps = [side.warps(rates) for side in figures]
    return {
        **({"wavefronts": [side.wavefronts for side in figures]} if "wavefronts" in least else {}),
        "bytes": [side.global_bytes for side in figures],
        "arithmetic": list(least["arithmetic"]),
        "multiprocessors": [1 / side.busy(rates) for side in figures],
        "warps": [1 / count if count else 0.0 for count in warps],
        "launches": [side.launches for side in figures],
    }


def _weightiest_first(found: list[Reason]) -> list[Reason]:
    return sorted(found, key=lambda reason: 0.0 if reason.weight is None else -abs(reason.weight))


def _over(a: float, b: float) -> float:
    if b:
        return a / b
    return float("inf") if a else 1.0


def unexplained(
    figures: Sequence[Figures], rates: Rates, times_us: Sequence[float], percents: Sequence[tuple[float, str]]
) -> str:
    """Returns each side's time minus its largest least time, and the ratio by the model.

    percents: (per cent, roof) of each side.
    """
    least = least_times(figures, rates)
    for kind in {"wavefronts", "arithmetic"} & {*least}:  # only SMs with a block help
        a, b = (us / side.busy(rates) for us, side in zip(least[kind], figures))
        least[kind] = a, b
    weightiest = [max(least, key=lambda name: least[name][side]) for side in (0, 1)]
    needed = [least[kind][side] for side, kind in enumerate(weightiest)]
    said = [_left_sentence(SIDES[n], weightiest[n], needed[n], times_us[n]) for n in (0, 1)]
    roofs = [
        f"{side} reaches {short(percent, 3)} % of its roof ({roof})" for side, (percent, roof) in zip(SIDES, percents)
    ]
    slow = _slower(times_us)
    fast = 1 - slow
    return (
        f"{' '.join(said)} By these figures {SIDES[fast]} would be {short(_over(needed[slow], needed[fast]), 3)} times "
        f"as fast. It is {short(times_us[slow] / times_us[fast], 3)} times as fast. {'. '.join(roofs)}. The rest is "
        "launching, waiting for memory and for one another, and every instruction that is no multiply-add. "
        "No figure here tells these apart."
    )


def _left_sentence(side: str, kind: str, needed: float, took: float) -> str:
    """Returns the share of a side's time beyond its weightiest need."""
    if needed > took:
        return (
            f"{side}'s {NEEDS[kind]} should take {microseconds(needed)}, more than its {microseconds(took)}: a nearer "
            "cache served it."
        )
    left = 100 * (1 - needed / took)
    return (
        f"{side} takes {microseconds(took)}. Its weightiest need, {NEEDS[kind]}, explains {microseconds(needed)}, and "
        f"{left:.0f} % is left."
    )
