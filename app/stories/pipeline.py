"""Pipeline: the phases of each warp or warpgroup of a block, from the marks of a GPU. One kernel, or two on one
scale."""

from collections.abc import Mapping
from functools import lru_cache

from app.choices import files
from app.choices.choice import Choice
from app.choices.page import BACKEND, Correction, Descriptions, Page, State, put
from app.parts.explained import story_of
from app.store import disk, opened
from explainers.stories.pipeline import story
from explainers.stories.pipeline.story import Look
from explainers.story import probed, stage
from explainers.story.stage import Block
from kernels.catalog import Catalog
from kernels.core.fields import own_fields, shortened, write_value
from kernels.core.remembered import of_recordings
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import ProblemError
from kernels.measure import perfetto, pipelines
from kernels.measure.pipelines import RecordedPipeline
from kernels.run import workers

ALONE = "none"  # the second kernel, where there is none
OTHERS = "a trace of IKET (JSON or .pftrace), of FlashInfer's profiler or of nanotrace, next to our bars"


def page(catalog: Catalog) -> Page:
    """The page of the kernels with a recorded pipeline, and on a machine with a GPU of all kernels with marks.

    The default kernel is the first whose warpgroups take turns.
    """
    names = dict.fromkeys(entry.request.kernel.name for entry in recorded())
    live_names = [name for name, kernel in catalog.kernels.items() if has_gpu() and probed.marks(kernel)]
    kernels = {name: catalog.kernels[name] for name in (*names, *live_names) if name in catalog.kernels}
    in_turns = [name for name, kernel in kernels.items() if kernel.constant_of("turns")]
    return Page(
        catalog,
        kernels,
        tuple([*in_turns, *kernels][:1]),
        own={
            "recorded": Choice("", late=True, meaning="the problem and the constants of a recording of this kernel"),
            # the one above holds nothing: a click on it sets the problem and the constants
            "block": Choice(0, low=0, high=10**6, meaning="the block of the picture"),
            "backend": BACKEND,
            "trace_file": files.of_file(OTHERS),
            "trace_block": Choice(0, low=0, high=10**6, stays=True, meaning="the block of the opened file"),
            "beneath": Choice(ALONE, (ALONE, *names), meaning="another kernel on the same problem, on the same scale"),
        },
        defaults_of=defaults_of,
        recorded=False,
        runs=False,
        refusal=lambda kernel: refusal(kernels, kernel),
        instead=lambda kernel: nearest(kernels, kernel),
        correct=correct,
        adapt=adapt,
        describe=describe,
    )


def subject(page: Page, state: State, backend: str) -> Look:
    name = state["trace_file"]
    return Look(requests(page, state), state["block"], opened.block(name, state["trace_block"]) if name else None)


def perfetto_tab(look: Look) -> list[Block]:
    found: list[Block] = [stage.text("Open a file at https://ui.perfetto.dev. It has every recorded block.")]
    for request in look.requests:
        loaded, file = story.load(request), f"{request.kernel.name}.pftrace"
        found.append(stage.download(f"Download {file}", disk.offer_file(perfetto.encode(loaded), file), file))
    return found


def describe(page: Page, state: State) -> Descriptions:
    entries, high, is_live = of(state["kernel"]), last_block(page, state), live(state)
    hidden = () if is_live else (*page.fields(state), *page.constants(state))
    options = {n: stage.problem_said(entry.request.problem) for n, entry in enumerate(entries)}
    theirs = opened.block(state["trace_file"], state["trace_block"]) if state["trace_file"] else None
    last = theirs.groups - 1 if theirs else 0
    problem = {"label": "Problem", "kind": "select", "options": options, "value": str(entries.index(chosen(state)))}
    return {
        "recorded": problem | {"hidden": is_live},
        "block": {"label": f"Block (of {high + 1})", "high": high, "disabled": "" if high else "there is only one"},
        "trace_file": files.described("trace", "Their trace", theirs),
        "trace_block": {"label": f"Their block (of {last + 1:,})", "high": last, "hidden": not last},
        "beneath": {"label": "Overlay", "options": {n: n for n in possible_beneath(page, state)}},
        **{name: {"hidden": True} for name in (*hidden, "preset", "what_if")},
    }


def adapt(page: Page, state: State, name: str) -> None:
    """Goes to the recording of the problem for another kernel, and to the first block of another recording."""
    if name == "recorded":
        take(page, state)
    if name == "kernel" and not live(state) and of(state["kernel"]):
        entries, problem = of(state["kernel"]), page.problem_of(state)  # of this problem, or the first one
        _put(page, state, next((e for e in entries if e.request.problem == problem), entries[0]))
    if name in ("kernel", "recorded"):
        state["block"] = 0
    if name == "trace_file":
        state["trace_block"] = 0


# ---- the choices ----


@of_recordings(lru_cache(maxsize=1))
def recorded() -> tuple[RecordedPipeline, ...]:
    return tuple(pipelines.recorded())


def defaults_of(kernel: KernelSpec) -> dict[str, object]:
    """The problem of a kernel's first recording."""
    entries = of(kernel.name)
    return entries[0].request.problem.values() if entries else {}


def live(state: State) -> bool:
    """Whether this GPU makes the pipeline."""
    return state["backend"] in ("auto", "gpu") and has_gpu()


def has_gpu() -> bool:
    return "gpu" in workers.survey().devices


def refusal(kernels: Mapping[str, KernelSpec], kernel: KernelSpec) -> str:
    """Why the page cannot show the pipeline of a kernel, and the kernel that it shows instead. kernels: of the page."""
    if not probed.marks(kernel):
        return f"{kernel.name} marks no step. Add a PROBE_MARK to its source."
    other = nearest(kernels, kernel)
    shown = f" The page shows {other} instead: it marks similar steps." if other else ""
    return (
        f"No pipeline of {kernel.name} is recorded, and this machine has no GPU to measure one. A pipeline consists "
        f"of times, and a run on the CPU yields none.{shown} On a GPU, the page measures {kernel.name} itself."
    )


def nearest(kernels: Mapping[str, KernelSpec], kernel: KernelSpec) -> str:
    """The kernel of the page with the most marks of another kernel, for the same GPUs if possible."""
    wanted = set(probed.marks(kernel))

    def likeness(name: str) -> tuple[bool, int]:
        other = kernels[name]
        return other.requires == kernel.requires, len(wanted & set(probed.marks(other)))

    return max(reversed([*kernels]), key=likeness, default="")


def requests(page: Page, state: State) -> tuple[Request, ...]:
    if not live(state):
        return tuple(entry.request for entry in (chosen(state), beneath(state)) if entry)
    problem = page.problem_of(state)
    found = [Request(page.kernel_of(state), problem, tuple(page.settings_of(state).items()), backend="gpu")]
    other = page.kernels.get(state["beneath"])
    if other and other is not found[0].kernel and other.solves(problem):
        found.append(Request(other, problem, tuple(other.settings_for(problem).items()), backend="gpu"))
    return tuple(found)


def of(kernel: str) -> list[RecordedPipeline]:
    return [entry for entry in recorded() if entry.request.kernel.name == kernel]


def chosen(state: State) -> RecordedPipeline:
    """The recording that a state looks at: the one with its problem and constants, once the state is settled."""
    entries = of(state["kernel"])
    if state["recorded"] != "":
        return entries[min(int(state["recorded"]), len(entries) - 1)]
    return min(entries, key=lambda entry: len(_apart(entry, state)))


def identity(request: Request) -> dict[str, object]:
    """The problem's fields and the constants of a request, without fields that follow from the others."""
    return {**own_fields(request.problem), **request.constants}


def _apart(entry: RecordedPipeline, state: State) -> list[str]:
    """The names of the fields and constants that a recording has otherwise than a state."""
    return [name for name, value in identity(entry.request).items() if name in state and state[name] != value]


def beneath(state: State) -> RecordedPipeline | None:
    above = chosen(state)
    same = [e for e in of(state["beneath"]) if e.request.problem == above.request.problem]
    tuned = [e for e in same if e.request.constants == e.request.kernel.settings_for(e.request.problem)]
    return (tuned or same)[0] if same and state["beneath"] != state["kernel"] else None


def possible_beneath(page: Page, state: State) -> list[str]:
    """The possible second kernels: none, and each kernel with a recording of the problem, or on a GPU each kernel
    that solves it."""
    if live(state):
        names = list(page.solving(page.kernel_of(state)))
    else:
        problem = chosen(state).request.problem
        names = list(dict.fromkeys(e.request.kernel.name for e in recorded() if e.request.problem == problem))
    return [ALONE, *(name for name in names if name != state["kernel"])]


def correct(page: Page, state: State) -> list[Correction]:
    """Replaces choices that are out of range by their defaults, in place."""
    corrections: list[Correction] = []
    if not page.kernels:  # nothing is recorded, and the page is no stop
        return corrections
    if live(state):
        state["recorded"] = ""
    else:
        if not of(state["kernel"]):  # with a GPU, for a kernel without a recording
            known = {name: kernel for name, kernel in page.kernels.items() if of(name)}
            corrections.append(Correction("kernel", f"No pipeline of {state['kernel']} is recorded."))
            state["kernel"] = nearest(known, page.kernels[state["kernel"]])
        corrections += _correct_recording(page, state)
    corrections += files.corrected(state, "trace_file", lambda: opened.block(state["trace_file"], 0))
    last = opened.block(state["trace_file"], 0).groups - 1 if state["trace_file"] else 0
    if state["trace_block"] > last:
        corrections.append(put(state, "trace_block", 0, f"The opened file has blocks 0 to {last}."))
    high = last_block(page, state)
    if state["block"] > high:
        corrections.append(put(state, "block", 0, f"The recording has blocks 0 to {high}."))
    return corrections


def _correct_recording(page: Page, state: State) -> list[Correction]:
    """Goes to the recording of the index, or of the problem and the constants, or the nearest one, in place."""
    entries, corrections = of(state["kernel"]), list[Correction]()
    if state["recorded"] != "":
        try:
            take(page, state)
        except ProblemError as error:
            corrections.append(Correction("recorded", str(error)))
            _put(page, state, entries[0])
        return corrections
    if not (entry := next((e for e in entries if not _apart(e, state)), None)):
        defaults = {name: choice.default for name, choice in page.choices(state).items()}
        named = {name: value for name, value in state.items() if name in defaults and value != defaults[name]}
        entry = min(entries, key=lambda e: len(_apart(e, named)))
        values = identity(entry.request)
        corrections += [
            Correction(
                name,
                f"No recording has {name} {write_value(state[name])}. The nearest one has {write_value(values[name])}.",
            )
            for name in _apart(entry, named)
        ]
    _put(page, state, entry)
    return corrections


def take(page: Page, state: State) -> None:
    """Sets the problem and the constants of the recording with the state's index, in place. ProblemError if no
    recording has this index."""
    entries, index = of(state["kernel"]), str(state["recorded"])
    if not index.isdecimal() or int(index) >= len(entries):
        raise ProblemError(f"recorded is {shortened(index)}. The last of {state['kernel']} is {len(entries) - 1}.")
    _put(page, state, entries[int(index)])


def _put(page: Page, state: State, entry: RecordedPipeline) -> None:
    """Takes a recording's problem and constants, in place. The state then has no index."""
    defaults = {name: choice.default for name, choice in (page.fields(state) | page.constants(state)).items()}
    state.update(defaults | identity(entry.request) | {"recorded": ""})


def last_block(page: Page, state: State) -> int:
    """The last block with marks; 0 for an impossible problem."""
    if not live(state):
        return int(chosen(state).said["blocks"]) - 1
    try:
        return max(launch.blocks for launch in requests(page, state)[0].plan.launches) - 1
    except ProblemError:
        return 0


STORY = story_of(
    story.STORY,
    path="pipeline",
    title="Tensor cores",
    look="The pipeline of a kernel: look for copies, products and exponentials at the same time. "
    "The tensor cores rest while no product is in flight.",
    page=page,
    subject=subject,
    order=80,
    needs_kernels=True,
    request_tabs=False,
    parts={"perfetto": perfetto_tab},
)
