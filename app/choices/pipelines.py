"""Which pipelines are recorded of a kernel, and which of their blocks are looked at."""

from functools import lru_cache
from typing import Any

from app.choices.asked import Asked, State
from app.choices.choice import Choice
from kernels.core.remembered import of_recordings
from kernels.timing import pipeline_files
from kernels.timing.pipeline_files import RecordedPipeline

ALONE = "none"  # the second kernel, where there is none


@of_recordings(lru_cache(maxsize=1))
def recorded() -> tuple[RecordedPipeline, ...]:
    """Every recorded pipeline of the present code."""
    return tuple(pipeline_files.recorded())


def own() -> dict[str, Choice]:
    """The choices of the page: which recording, which block of it, and what stands beneath."""
    kernels = dict.fromkeys(entry.request.kernel.name for entry in recorded())
    return {
        "recorded": Choice(0, low=0, high=1000, meaning="which of the pipelines that are recorded of this kernel"),
        "block": Choice(0, low=0, high=10**6, meaning="the block whose warps are shown"),
        "beneath": Choice(ALONE, (ALONE, *kernels), meaning="another kernel on the same problem, on the same scale"),
    }


def of(kernel: str) -> list[RecordedPipeline]:
    return [entry for entry in recorded() if entry.request.kernel.name == kernel]


def chosen(state: State) -> RecordedPipeline:
    """The recording that a state looks at."""
    entries = of(state["kernel"])
    return entries[min(state["recorded"], len(entries) - 1)]


def beneath(state: State) -> RecordedPipeline | None:
    """Of the other kernel the recording of the same problem; None where there is none."""
    above = chosen(state)
    same = [e for e in of(state["beneath"]) if e.request.problem == above.request.problem]
    return same[0] if same and state["beneath"] != state["kernel"] else None


def possible_beneath(state: State) -> list[str]:
    """What can stand beneath: nothing, or a kernel with a recording of the same problem."""
    problem = chosen(state).request.problem
    names = dict.fromkeys(e.request.kernel.name for e in recorded() if e.request.problem == problem)
    return [ALONE, *(name for name in names if name != state["kernel"])]


def labels(entries: list[RecordedPipeline]) -> list[str]:
    """What tells each from the others: what the problem says of itself, and its mask."""
    return [e.request.problem.size + (", causal" if getattr(e.request.problem, "causal", False) else "")
            + f", head_dim {e.request.problem.head_dim}" for e in entries]  # fmt: skip


def settle(asked: Asked, state: State) -> list[tuple[str, str]]:
    """Puts what is out of range at its beginning, in place; (name, sentence) of each."""
    moved: list[tuple[str, str]] = []
    if not asked.kernels:  # nothing is recorded, and the page is no stop
        return moved
    last = len(of(state["kernel"])) - 1
    if state["recorded"] > last:
        moved.append(("recorded", f"recorded is {state['recorded']}; the last of {state['kernel']} is {last}."))
        state["recorded"] = 0
    high: Any = chosen(state).said["blocks"] - 1
    if state["block"] > high:
        moved.append(("block", f"block is {state['block']}; the marks of blocks 0 to {high} are recorded."))
        state["block"] = 0
    return moved
