"""Pipeline: the phases of each warp or warpgroup of a block, from the marks of a GPU. One kernel, or two on one
scale."""

from dataclasses import dataclass
from functools import lru_cache

from app.choices.page import Descriptions, Page, State
from app.parts.story import Story
from app.store import offered
from app.stories.pipeline import choices
from explainers.stories.pipeline import key_tile_frames, pipeline
from explainers.story import stage
from explainers.story.stage import Block, Stage
from kernels.catalog import Catalog
from kernels.core.request import Request
from kernels.measure import perfetto, pipeline_files
from kernels.measure.pipelines import Pipeline
from kernels.measure.pipelines import pipeline as made_here


@dataclass(frozen=True)
class Look:
    """The shown pipelines, and the block of each. The tiles of the first one are the steps."""

    requests: tuple[Request, ...]
    block: int


@lru_cache(maxsize=2)
def page(catalog: Catalog) -> Page:
    return choices.page(catalog, adapt, describe)


def subject(page: Page, state: State, backend: str) -> Look:
    return Look(choices.requests(page, state), state["block"])


def make(look: Look) -> Stage:
    stories = _stories(look)
    first = stories[0].made
    said = f"Times {first.provenance} on {first.device}, {first.date}, by the marks build."
    clocks = pipeline.clocks_sentence(first)
    return pipeline.stage_of(stories, stage.Provenance(first.provenance, f"{said} {clocks}"))


def _stories(look: Look) -> list[key_tile_frames.BlockStory]:
    loaded = [_load(request) for request in look.requests]
    return [pipeline.explain(one, min(look.block, int(one.marks.block.max()))) for one in loaded]


@lru_cache(maxsize=8)
def _load(request: Request) -> Pipeline:
    return made_here(request) if request.backend == "gpu" else pipeline_files.find(request).load()


def shares_tab(look: Look) -> list[Block]:
    """The time of each writer, by phase."""
    return [
        block
        for story in _stories(look)
        for block in (
            stage.heading(f"{story.name}, block {story.block}"),
            *(stage.text(said) for said in pipeline.fed_sentences(story)),
            stage.table(pipeline.shares_table(story), f"From a mark to the next one, waits included, {story.name}."),
        )
    ]


def perfetto_tab(look: Look) -> list[Block]:
    """The marks as files for Perfetto."""
    found: list[Block] = [stage.text("Open a file at https://ui.perfetto.dev; it holds every block that is there.")]
    for request in look.requests:
        loaded, file = _load(request), f"{request.kernel.name}.pftrace"
        found.append(stage.download(f"Download {file}", offered.keep_file(perfetto.encode(loaded), file), file))
    return found


def describe(page: Page, state: State) -> Descriptions:
    entries, high, live = choices.of(state["kernel"]), choices.last_block(page, state), choices.live(state)
    hidden = () if live else (*page.fields(state), *page.constants(state))
    recorded, index = dict(enumerate(choices.labels(entries))), entries.index(choices.chosen(state))
    problem = {"label": "Problem", "kind": "select", "options": recorded, "value": str(index)}
    return {
        "recorded": problem | {"hidden": live},
        "block": {"label": f"Block of {high + 1}", "high": high, "disabled": "" if high else "there is only one"},
        "beneath": {"label": "Beneath", "options": {n: n for n in choices.possible_beneath(page, state)}},
        **{name: {"hidden": True} for name in (*hidden, "preset", "what_if")},
    }


def adapt(page: Page, state: State, name: str) -> None:
    """Goes to the recording of the problem for another kernel, and to the first block of another recording."""
    if name == "recorded":
        choices.take(page, state)
    if name == "kernel" and not choices.live(state):
        choices.take_kernel(page, state, page.problem_of(state))
    if name in ("kernel", "recorded"):
        state["block"] = 0


STORY = Story(
    path="pipeline",
    title="Pipeline",
    look="Look for what goes on at the same time: copies under way, products in flight, exponentials taken. Where "
    "nothing is in flight the tensor cores rest.",
    page=page,
    subject=subject,
    order=80,
    needs_kernels=True,
    make=make,
    parts={"shares": shares_tab, "perfetto": perfetto_tab},
)
