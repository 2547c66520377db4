"""Questions about the stages of rounding."""

import math

import numpy as np

from explainers.stories.precision.replay import STAGES
from explainers.stories.precision.replays import TITLES, Replays, short
from explainers.story import stage
from explainers.story.glossary import figure

OPTIONS = 4  # options of a question


def questions(story: Replays) -> list[stage.Question]:
    """The questions of the story. Their answers come from the run."""
    made, found = story.chosen, []
    sizes = made.sizes
    largest = sorted(np.argsort(-sizes)[:OPTIONS].tolist())
    if np.isfinite(sizes).all() and (sizes[largest] > 0).all():
        most = int(np.argmax(sizes))
        found.append(
            stage.Question(
                "most",
                f"{made.request.kernel.name} computes in {made.label}. Which of these steps moves O the most?",
                "options",
                largest.index(most),
                f"{TITLES[STAGES[most]]} moves O by {short(sizes[most])} (RMS), "
                f"{sizes[most] / sorted(sizes)[-2]:.2g} times as much as the next.",
                options=[TITLES[STAGES[n]] for n in largest],
                step=most,
                view="rounding",
                veils=("strip", "headline", "picture", "tabs", "sentence"),
            )
        )
    at = story.all.index(made)
    other = next((r for r in (*story.all[at + 1 :], *story.all[:at][::-1]) if r.label != made.label), None)
    if other and 0 < made.so_far[-1] < np.inf and 0 < other.so_far[-1] < np.inf:
        ratio = other.so_far[-1] / made.so_far[-1]
        more, times = ("larger", ratio) if ratio > 1 else ("smaller", 1 / ratio)
        powers = _near(times)
        found.append(
            stage.Question(
                "types",
                f"{other.request.kernel.name} computes the same in {other.label}. How many times {more} is its error?",
                "options",
                int(np.argmin([abs(math.log(times / power)) for power in powers])),
                f"Its RMS error is {short(other.so_far[-1])} beside {short(made.so_far[-1])}: {figure(times, 3)} times "
                f"{more}.",
                options=[f"about {power:,} times" for power in powers],
                step=len(STAGES) - 1,
                view="rounding",
                veils=("headline", "picture", "tabs"),
            )
        )
    return found


def _near(times: float) -> list[int]:
    """Four numbers to choose from, with only one near."""
    if times < 20:
        return [2, 8, 64, 1024]
    near = round(float(f"{times:.1g}"))
    return [2, 8, near, 10 * near] if near <= 100 else [near // 100, near // 10, near, 10 * near]
