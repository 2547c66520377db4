"""The questions of the story of launches. Their answers are times of the shown runs."""

import math

from explainers.stories.launches.as_it_goes import FreeRun
from explainers.stories.launches.bars import inside, us
from explainers.stories.launches.frames import LaunchFrame
from explainers.stories.launches.runs import LaunchRun
from explainers.story import questions as ask
from explainers.story.stage import Question

SMALL = 0.05  # a smaller change of a sum is none
APART, FAR = math.log(1.25), math.log(8)  # of two options, and of an option and the answer


def questions(runs: list[LaunchRun], free: list[FreeRun], frames: list[LaunchFrame]) -> list[Question]:
    """First the ideas: the reason for a gap, kernels or gaps, the faster run. Then the longest wait and a gap's ns."""
    found = [*_host(free, runs), *_why(runs, frames)]
    if len(runs) > 1:
        found += [*_shortened(runs, frames), *_faster(runs, frames)]
    return [*found, *_waits(runs[-1], frames), *_gap(runs, frames)]


def _host(free: list[FreeRun], runs: list[LaunchRun]) -> list[Question]:
    """The reason for the first gap of a stream as it goes, if the host is one."""
    run = next(iter(free), None)
    place = next((n for n in range(1, len(run.kernels)) if run.waits_for_call(n)), None) if run else None
    if run is None or place is None:
        return []
    before, name = (run.kernels[n]["name"] for n in (place - 1, place))
    gap = runs[0].gap_before(place)
    alone = gap["end"] - gap["start"] if gap else 0.0
    call, ended = us(run.calls[place]["end"]), us(run.kernels[place - 1]["end"])
    return [
        ask.idea(
            "host",
            f"{run.panel['title']}: why does the GPU run nothing between {before} and {name}?",
            f"The host's call of {name} ends too late",
            {
                f"{name} waits for a result of {before}": f"A stream keeps its order, but {before} ended at {ended}.",
                f"The GPU still writes the results of {before}": f"After all calls, the gap takes {us(alone)}.",
            },
            f"{before} ends at {ended}, and the call of {name} at {call}.",
            step=place,
            view="launches",
            veils=("sentence", "headline"),
            covers=[{"panel": 0, "gap": place - 1}],
            shows={"panel": 0, "gap": place - 1},
        )
    ]


def _first(frames: list[LaunchFrame], runs: list[LaunchRun]) -> int:
    """The place of the first of the runs after all calls, of all panels."""
    return frames[-1]["panel"] - len(runs) + 1


def _step(frames: list[LaunchFrame], panel: int, bar: int) -> int:
    return next(n for n, frame in enumerate(frames) if (frame["panel"], frame["bar"]) == (panel, bar))


def _between_kernels(run: LaunchRun) -> list[int]:
    """The places of the gaps between two kernels."""
    return [
        place
        for place, gap in enumerate(run.gaps)
        if gap["end"] > gap["start"]
        and gap["since"] == "end"
        and not run.bars[gap["after"]]["copy"]
        and not run.bars[gap["before"]]["copy"]
    ]


def _why(runs: list[LaunchRun], frames: list[LaunchFrame]) -> list[Question]:
    """The reason for the first gap, if the host is not one and no kernel on another stream is."""
    run, first = runs[0], _first(frames, runs)
    if not run.own_gaps or len(run.rows) > 1 or any(bar["copy"] for bar in run.bars):
        return []
    for place in _between_kernels(run)[:1]:
        gap, after = run.gaps[place], run.gaps[place]["after"]
        wait, before, name = gap["end"] - gap["start"], run.bars[gap["before"]]["name"], run.bars[after]["name"]
        return [
            ask.idea(
                "why",
                f"{run.title}, after all calls: why does nothing run between {before} and {name}?",
                f"{name} waits for the end of {before}, and a start takes time",
                {
                    f"The host calls {name} too late": f"The host's calls took {us(run.host_ns)}, before the run.",
                    f"{name} waits for a copy from the host": "No copy is part of this run.",
                },
                f"The gap takes {us(wait)}. Likely (not measured), the GPU first completes the writes of {before}.",
                step=_step(frames, first, after),
                view="launches",
                veils=("sentence", "strip", "headline"),
                shows={"panel": first, "gap": place},
            )
        ]
    return []


def _gap(runs: list[LaunchRun], frames: list[LaunchFrame]) -> list[Question]:
    """The length of the first gap between two kernels. Each wrong option is another time of the shown runs."""
    run, first = runs[0], _first(frames, runs)
    for place in _between_kernels(run)[:1]:
        gap, after = run.gaps[place], run.gaps[place]["after"]
        wait, before, name = gap["end"] - gap["start"], run.bars[gap["before"]]["name"], run.bars[after]["name"]
        lengths = {wait: ""} | _near(wait, runs, place)
        said = {us(length): lengths[length] for length in sorted(lengths)}
        right = us(wait)
        if len(said) < 2:
            return []
        return [
            ask.idea(
                "gap",
                f"{run.title}: how long is the gap from the end of {before} to the start of {name}?",
                right,
                {text: reason for text, reason in said.items() if text != right},
                f"{right} by the GPU's timer, from the end of {before} to the start of {name}.",
                ordered=[*said],
                step=_step(frames, first, after),
                view="launches",
                veils=("sentence", "strip", "headline", "tabs"),
                covers=[{"panel": first + p, "gap": n} for p, one in enumerate(runs) for n in range(len(one.gaps))],
                shows={"panel": first, "gap": place},
            )
        ]
    return []


def _near(wait: float, runs: list[LaunchRun], place: int) -> dict[float, str]:
    """Other times of the runs, the nearest to `wait` by ratio -> their meaning. Any two differ by a quarter."""
    run = runs[0]
    found = {
        run.idle: f"Nothing runs for {us(run.idle)} in the whole run.",
        run.host_ns: f"The host's calls took {us(run.host_ns)}.",
        run.made.overhead_ns: "That is the time between two events with nothing between them.",
        run.made.timer_step_ns: "That is one step of the GPU's timer.",
    }
    for bar in run.bars:
        found[bar["end"] - bar["start"]] = f"{bar['name']} itself takes {us(bar['end'] - bar['start'])}."
    for p, one in enumerate(runs):
        for n, gap in enumerate(one.gaps):
            if gap["end"] > gap["start"] and (p, n) != (0, place):
                after = one.bars[gap["after"]]["name"]
                found[gap["end"] - gap["start"]] = f"That is the gap before {after} of {one.title}."
    chosen = dict[float, str]()
    for length in sorted((length for length in found if length > 0), key=lambda length: abs(math.log(length / wait))):
        near = abs(math.log(length / wait)) < FAR
        if near and all(abs(math.log(length / other)) > APART for other in (wait, *chosen)):
            chosen[length] = found[length]
    return dict([*chosen.items()][: ask.MOST - 1])


def _shortened(runs: list[LaunchRun], frames: list[LaunchFrame]) -> list[Question]:
    """Whether the second way changes the kernels, or the time without any."""
    plain, own = runs
    kernels = own.busy - plain.busy
    gaps = own.idle - plain.idle
    said = f"Kernels and copies cover {us(plain.busy)}, then {us(own.busy)}. Nothing runs for {us(plain.idle)}, then "
    said += f"{us(own.idle)}."
    changes = {
        "Mostly the gaps": abs(gaps) >= abs(kernels) and abs(gaps) > SMALL * plain.idle,
        "Mostly the kernels and copies": abs(kernels) > abs(gaps),
    }
    right = next((text for text, so in changes.items() if so), "Neither")
    wrong = {text: said for text in (*changes, "Neither") if text != right}
    return [
        ask.idea(
            "shortened",
            f"After all calls, {inside(plain.title)} or {inside(own.title)}: do the kernels differ, or the gaps?",
            right,
            wrong,
            said,
            ordered=[*changes, "Neither"],
            step=len(frames) - 1,
            view="launches",
            veils=("sentence", "strip", "headline", "tabs"),
            covers=[{"panel": frames[-1]["panel"]}],
            shows={"panel": frames[-1]["panel"]},
        )
    ]


def _faster(runs: list[LaunchRun], frames: list[LaunchFrame]) -> list[Question]:
    """The run that ends first."""
    plain, own = runs
    first, last = sorted(runs, key=lambda run: run.total)
    said = f"{first.title} ends after {us(first.total)}, {last.title} after {us(last.total)}."
    return [
        ask.idea(
            "faster",
            "Which run ends first?",
            first.title,
            {last.title: said},
            said,
            ordered=[plain.title, own.title],
            step=len(frames) - 1,
            view="launches",
            veils=("sentence", "strip", "headline", "tabs"),
            covers=[{"panel": frames[-1]["panel"]}],
            shows={"panel": _first(frames, runs) + runs.index(first)},
        )
    ]


def _waits(run: LaunchRun, frames: list[LaunchFrame]) -> list[Question]:
    """The launch or copy with the longest wait before its start on its stream."""
    waits = {n: gap["end"] - gap["start"] for n, gap in enumerate(run.gaps) if gap["since"] == "end"}
    if len(waits) < 2:
        return []
    place = max(waits, key=lambda n: waits[n])
    if waits[place] <= 0:
        return []
    numbered = {
        n: f"{run.bars[run.gaps[n]['after']]['name']}, after {run.bars[run.gaps[n]['before']]['name']}" for n in waits
    }
    wrong = {
        text: f"It starts {us(abs(waits[n]))} {'after' if waits[n] > 0 else 'before'} the end of the one before."
        for n, text in numbered.items()
        if text != numbered[place]
    }
    if not wrong:
        return []
    return [
        ask.idea(
            "waits",
            f"{run.title}: which one waits longest for its start?",
            numbered[place],
            dict(list(wrong.items())[:3]),
            f"{numbered[place]}: it starts {us(waits[place])} after that end.",
            step=_step(frames, frames[-1]["panel"], run.gaps[place]["after"]),
            view="launches",
            veils=("sentence", "strip", "headline", "tabs"),
            covers=[{"panel": frames[-1]["panel"], "gap": n} for n in waits],
            shows={"panel": frames[-1]["panel"], "gap": place},
        )
    ]
