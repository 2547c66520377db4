"""Occupancy: the number of blocks on an SM, from the real cubin, and the timeline of a grid with a lane for each SM."""

from app.choices import pages
from app.choices.choice import Choice
from app.choices.page import BACKEND, Correction, Descriptions, Page, State, put
from app.parts import tabs
from app.parts.explained import story_of
from app.parts.story import tab_of
from explainers.models import tiling
from explainers.stories.occupancy import story
from explainers.stories.occupancy.story import Build, Drawn
from explainers.story import probed
from kernels.build import DEFAULT_ARCH
from kernels.build.occupancy import machine
from kernels.catalog import Catalog
from kernels.core.fields import write_value
from kernels.core.request import Request
from kernels.errors import ProblemError
from kernels.measure import timelines
from kernels.measure.timelines import RecordedTimeline
from kernels.run import workers

VIEWS = {"occupancy": "Limits of the blocks", "timeline": "The timeline"}
UNSEEN = ("seed", "score_scale")  # fields without an effect on the occupancy


def page(catalog: Catalog) -> Page:
    own = {
        "view": Choice("occupancy", tuple(VIEWS), stays=True),
        "arch": Choice(DEFAULT_ARCH, pages.ARCHES, stays=True),
        "backend": BACKEND,
        "recorded": Choice(0, low=0, high=1000, meaning="which of the timelines that are recorded of this kernel"),
    }
    return Page(
        catalog,
        catalog.kernels,
        (probed.first(tiling, catalog.kernels).name,),
        own=own,
        defaults=pages.LARGE,
        recorded=False,
        runs=False,
        correct=correct,
        adapt=adapt,
        describe=describe,
    )


def subject(page: Page, state: State, backend: str) -> Build | Drawn:
    spec, problem, settings = page.kernel_of(state), page.problem_of(state), page.settings_of(state)
    request = Request(spec, problem, tuple(settings.items()), backend="gpu" if backend == "gpu" else "recorded")
    if state["view"] == "timeline":
        if backend == "gpu":
            return Drawn(request, f"{spec.name}, {problem.size}")
        entries = recorded_of(spec.name)
        if not entries:
            have = ", ".join(dict.fromkeys(entry.kernel for entry in timelines.recorded())) or "no kernel"
            raise ProblemError(
                f"No timeline of the present code of {spec.name} is recorded; there are some of {have}. Choose one of "
                "these, or make them on a GPU with python -m kernels measure timelines."
            )
        entry = entries[min(state["recorded"], len(entries) - 1)]
        return Drawn(entry.request, entry.label)
    request.plan  # noqa: B018  # ProblemError where problem and constants do not go together
    spec.check_architecture(problem, state["arch"])
    gpu = workers.survey().devices.get("gpu")
    same = gpu is not None and gpu.target == state["arch"]
    here = (gpu.multiprocessors, gpu.name) if gpu is not None and same else (0, "")
    return Build(spec, problem, request.settings, state["arch"], *here)


def describe(page: Page, state: State) -> Descriptions:
    entries, limits = recorded_of(state["kernel"]), state["view"] == "occupancy"
    live = not limits and measured(state)
    found: Descriptions = {
        "view": {"label": "Look at", "options": VIEWS},
        "arch": {
            "label": "Architecture",
            "hidden": not limits,
            "options": {a: f"{a} ({machine(a).gpu})" for a in page.own["arch"].allowed or ()},
        },
        "backend": {"hidden": limits},
        "recorded": {
            "label": "Recorded",
            "kind": "select",
            "options": dict(enumerate(labels(entries))),
            "value": str(min(state["recorded"], max(0, len(entries) - 1))),
            "hidden": limits or live or not entries,
        },
    }
    chosen = limits or live  # else the recording says problem and build
    found |= {name: {"hidden": not chosen or name in UNSEEN} for name in page.fields(state)}
    found |= {name: {"hidden": not chosen} for name in page.constants(state)}
    return found | {"preset": {"hidden": True}}  # in other stories. The grid here must fill a GPU


def adapt(page: Page, state: State, name: str) -> None:
    """Starts another kernel at its first recording, and takes the problem and the constants of another recording."""
    if name == "kernel":
        state["recorded"] = 0
    if name in ("kernel", "view", "recorded", "backend"):
        correct(page, state)


# ---- the choices ----


def recorded_of(kernel: str) -> list[RecordedTimeline]:
    return [entry for entry in timelines.recorded() if entry.kernel == kernel]


def labels(entries: list[RecordedTimeline]) -> list[str]:
    """A label of each timeline of a kernel, with its differences from the others."""
    differing = [
        name for name in (_values(entries[0]) if entries else {}) if len({repr(_values(e)[name]) for e in entries}) > 1
    ]
    return [
        ", ".join(f"{name} {write_value(_values(e)[name])}" for name in differing) or entries[0].label for e in entries
    ]


def measured(state: State) -> bool:
    return state["backend"] != "recorded" and "gpu" in workers.survey().devices


def correct(page: Page, state: State) -> list[Correction]:
    """Takes the problem and the constants of a shown recording, in place."""
    entries = recorded_of(state["kernel"])
    if state["view"] != "timeline" or measured(state) or not entries:
        return []
    corrections, last = list[Correction](), len(entries) - 1
    if state["recorded"] > last:
        corrections.append(put(state, "recorded", last, f"The last of {state['kernel']}'s timelines is {last}."))
    recorded_values = _values(entries[state["recorded"]])
    differing = [name for name in page.choices(state) if recorded_values.get(name, state[name]) != state[name]]
    for name in differing:
        value = recorded_values[name]
        corrections.append(put(state, name, value, f"The shown timeline has {write_value(value)}."))
    return corrections


def _values(entry: RecordedTimeline) -> dict[str, object]:
    return {**entry.problem.values(), **dict(entry.settings)}


STORY = story_of(
    story.STORY,
    path="occupancy",
    title="Occupancy",
    look="An SM holds as many blocks as its scarcest resource allows. Step through the resources, and look for the one "
    "with the fewest blocks.",
    page=page,
    subject=subject,
    order=120,
    request_tabs=False,
    parts={"builds": tab_of(Build, lambda b: tabs.builds_of(b.kernel, b.problem, b.settings, b.arch))},
)
