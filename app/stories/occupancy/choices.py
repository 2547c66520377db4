"""The recorded timelines of a kernel, and the problem and the constants of one."""

from app.choices.page import Correction, Page, State
from kernels.core.fields import write_value
from kernels.measure import timelines
from kernels.measure.timelines import RecordedTimeline
from kernels.run import workers


def recorded() -> tuple[RecordedTimeline, ...]:
    """Every recorded timeline of the present code."""
    return tuple(timelines.recorded())


def recorded_of(kernel: str) -> list[RecordedTimeline]:
    return [entry for entry in recorded() if entry.kernel == kernel]


def labels(entries: list[RecordedTimeline]) -> list[str]:
    """A label of each timeline of a kernel, with its differences from the others."""
    differing = [
        name for name in (_values(entries[0]) if entries else {}) if len({repr(_values(e)[name]) for e in entries}) > 1
    ]
    return [
        ", ".join(f"{name} {write_value(_values(e)[name])}" for name in differing) or entries[0].label for e in entries
    ]


def measured(state: State) -> bool:
    """Whether this GPU makes the timeline."""
    return state["backend"] != "recorded" and "gpu" in workers.survey().devices


def correct(page: Page, state: State) -> list[Correction]:
    """Takes the problem and the constants of a shown recording, in place."""
    entries = recorded_of(state["kernel"])
    if state["view"] != "timeline" or measured(state) or not entries:
        return []
    corrections, last = list[Correction](), len(entries) - 1
    if state["recorded"] > last:
        said = f"recorded is {state['recorded']}. The last of {state['kernel']}'s timelines is {last}."
        corrections.append(Correction("recorded", said))
        state["recorded"] = last
    recorded_values = _values(entries[state["recorded"]])
    for name in (
        name for name in page.choices(state) if name in recorded_values and state[name] != recorded_values[name]
    ):
        value = write_value(recorded_values[name])
        corrections.append(Correction(name, f"{name} is {write_value(state[name])}. The shown timeline has {value}."))
        state[name] = recorded_values[name]
    return corrections


def _values(entry: RecordedTimeline) -> dict[str, object]:
    return {**entry.problem.values(), **dict(entry.settings)}
