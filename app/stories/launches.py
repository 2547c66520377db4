"""Launches: all kernels and copies of a run on one time line, and another way of launching above it on one scale."""

from functools import lru_cache

from app.choices.choice import Choice
from app.choices.page import BACKEND, Correction, Descriptions, Page, State
from app.parts.explained import story_of
from explainers.stories.launches import story
from explainers.stories.launches.story import Look
from explainers.story.stage import problem_said
from kernels.catalog import Catalog
from kernels.core.cases import cases_of
from kernels.core.problem import Problem
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.core.spec import KernelSpec
from kernels.measure import launch_times
from kernels.run import workers

BEFORE, NONE = "before", "none"


@lru_cache(maxsize=2)
def page(catalog: Catalog) -> Page:
    """The kernels with recorded launch times, or on a GPU with launch cases. The default one has a rung before it."""
    recorded = {entry.kernel for entry in launch_times.recorded()}
    accepted = {name: spec for name, spec in catalog.kernels.items() if story.STORY.accepts(spec)}
    has_gpu = "gpu" in workers.survey().devices
    kernels = {name: spec for name, spec in accepted.items() if name in recorded or has_gpu}
    compared = [name for name, spec in kernels.items() if spec.changed_from in kernels]
    own = {
        "against": Choice(BEFORE, (BEFORE, NONE, *kernels), meaning="another way of launching, on one scale"),
        "size": Choice(0, low=0, high=9, meaning="which problem of the recorded ones"),
        "backend": BACKEND,
    }
    return Page(
        catalog,
        kernels,
        tuple([*compared, *kernels][:1]),
        own=own,
        recorded=False,
        runs=False,
        refusal=story.STORY.refusal,
        correct=correct,
        describe=describe,
    )


def problems(kernel: KernelSpec) -> list[Problem]:
    return [case.problem for case in cases_of(kernel, "launch_cases").possible]


def other(page: Page, state: State) -> KernelSpec | None:
    """The other kernel, or None."""
    own = page.kernel_of(state)
    name = own.changed_from if state["against"] == BEFORE else state["against"]
    found = page.kernels.get(name)
    return found if found and found is not own and found.same_problems(own) else None


def correct(page: Page, state: State) -> list[Correction]:
    """Replaces a problem that the kernel does not have by its last one, and a kernel that cannot be compared by the
    rung before, in place."""
    corrections = list[Correction]()
    if not page.kernels:
        return corrections
    last, against = len(problems(page.kernel_of(state))) - 1, state["against"]
    if state["size"] > last:
        corrections.append(Correction("size", f"size is {state['size']}. Here it can be 0 to {last}."))
        state["size"] = last
    if against in page.kernels and not other(page, state):
        said = f"against is {against!r}. It must be another kernel with the problem of {state['kernel']}."
        corrections.append(Correction("against", said))
        state["against"] = BEFORE
    return corrections


def subject(page: Page, state: State, backend: str) -> Look:
    """The requests of the shown runs. This function computes nothing."""
    own, before, where = page.kernel_of(state), other(page, state), "gpu" if backend == "gpu" else "recorded"
    problem = problems(own)[state["size"]]
    kernels = [kernel for kernel in (before, own) if kernel]
    requests = tuple(Request(k, problem, tuple(k.settings().items()), backend=where) for k in kernels)
    small = own.problem_type()
    executed = Request(own, small, tuple(own.settings().items()), Scope.everything(own.plan(small)), "cpu")
    return Look(requests, executed)


def describe(page: Page, state: State) -> Descriptions:
    own, before = page.kernel_of(state), page.kernels.get(page.kernel_of(state).changed_from)
    names = {name: kernel.title for name, kernel in page.solving(own).items() if name != own.name}
    first = {BEFORE: f"The rung before: {before.title}"} if before else {}
    sizes = {n: problem_said(problem) for n, problem in enumerate(problems(own))}
    hidden = {name: {"hidden": True} for name in (*page.fields(state), *page.constants(state), "preset", "what_if")}
    return hidden | {
        "against": {"label": "Above it", "options": first | {NONE: "nothing"} | names},
        "size": {"label": "Problem", "kind": "select", "options": sizes},
    }


STORY = story_of(
    story.STORY,
    path="launches",
    title="Launches",
    look="Look at the gaps between kernels, and at the kernels that run at the same time. "
    "The menu Kernel has the other ways: two streams, copies, early starts, a grid barrier and children.",
    order=86,
    page=page,
    subject=subject,
    needs_kernels=True,
    request_tabs=False,
)
