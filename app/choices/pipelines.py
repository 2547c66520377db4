"""Which pipelines are recorded of a kernel, or made on this machine's GPU, and which of their blocks are looked at."""

from functools import lru_cache

from app.choices.asked import BACKEND, Asked, State
from app.choices.choice import Choice
from kernels.core.remembered import of_recordings
from kernels.core.request import Request
from kernels.errors import ProblemError
from kernels.run import workers
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
        "backend": BACKEND,
        "beneath": Choice(ALONE, (ALONE, *kernels), meaning="another kernel on the same problem, on the same scale"),
    }


def live(state: State) -> bool:
    """Whether the pipeline is made here, and not read."""
    return state["backend"] in ("auto", "gpu") and "gpu" in workers.survey().devices


def requests(asked: Asked, state: State) -> tuple[Request, ...]:
    """What is shown: the chosen kernel's request, and the one beneath, if there is one."""
    if not live(state):
        return tuple(entry.request for entry in (chosen(state), beneath(state)) if entry)
    problem = asked.problem_of(state)
    found = [Request(asked.spec_of(state), problem, tuple(asked.settings_of(state).items()), backend="gpu")]
    other = asked.kernels.get(state["beneath"])
    if other and other is not found[0].kernel and other.problem_type is type(problem):
        found.append(Request(other, problem, tuple(other.settings_for(problem).items()), backend="gpu"))
    return tuple(found)


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


def possible_beneath(asked: Asked, state: State) -> list[str]:
    """What can stand beneath: nothing, or a kernel with a recording of the same problem; here one that solves it."""
    if live(state):
        kind = asked.spec_of(state).problem_type
        names = [name for name, spec in asked.kernels.items() if spec.problem_type is kind]
    else:
        problem = chosen(state).request.problem
        names = list(dict.fromkeys(e.request.kernel.name for e in recorded() if e.request.problem == problem))
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
    high = last_block(asked, state)
    if state["block"] > high:
        moved.append(("block", f"block is {state['block']}; the marks of blocks 0 to {high} are there."))
        state["block"] = 0
    return moved


def last_block(asked: Asked, state: State) -> int:
    """The last block whose marks are there; 0 where the problem cannot be, which is told elsewhere."""
    if not live(state):
        return int(chosen(state).said["blocks"]) - 1
    try:
        return requests(asked, state)[0].plan.launches[0].blocks - 1
    except ProblemError:
        return 0
