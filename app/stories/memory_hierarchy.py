"""The memory hierarchy: latency and bandwidth against the working set, measured on the GPU at hand or recorded."""

from app.choices.choice import Choice
from app.choices.page import Correction, Descriptions, Page, State
from app.measured import measuring
from app.parts.explained import story_of
from explainers.stories.memory_hierarchy import story
from explainers.stories.memory_hierarchy.story import Figures
from explainers.stories.timing.sweeps import NOW, stamp
from kernels.core.fields import quoted
from kernels.measure import hierarchy
from kernels.run import workers


def names() -> list[str]:
    """The names of the sources: the points of this GPU, and recordings on named GPUs."""
    return [*([NOW] if measuring.levels().rows else []), *hierarchy.devices()]


def subject(page: Page, state: State, backend: str) -> Figures:
    gpu, now, source = workers.survey().devices.get("gpu"), measuring.levels(), state["source"]
    here = now if now.rows and source in ("", NOW) else None
    recorded = "" if source == NOW else source
    return Figures(recorded, stamp(hierarchy.HIERARCHY), here, len(now.rows), gpu.name if gpu else "")


def correct(page: Page, state: State) -> list[Correction]:
    known = names()
    if not state["source"] or state["source"] in known:
        return []
    said = f"source is {quoted(state['source'])}. Here it can be one of {', '.join(known) or 'none'}."
    state["source"] = ""
    return [Correction("source", said)]


def describe(page: Page, state: State) -> Descriptions:
    options = {name: name for name in names()}
    now = state["source"] or next(iter(options), "")
    source = {"hidden": len(options) < 2, "kind": "select", "label": "Figures of", "value": now, "options": options}
    return {"source": source}


OWN = {"source": Choice("", late=True, meaning="whose figures are shown")}
STORY = story_of(
    story.STORY,
    path="memory_hierarchy",
    title="Where bytes live",
    look="Watch a number come from each memory: the farther its home, the longer its thread waits. "
    "Then give the thread more data, until a near memory cannot hold it.",
    page=lambda catalog: Page(catalog, own=OWN, correct=correct, describe=describe),
    subject=subject,
    order=110,
    request_tabs=False,
    made_on="cpu",
)
