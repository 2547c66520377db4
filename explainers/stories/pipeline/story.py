"""The story of the pipeline: the phases of each warp or warpgroup of a block, from the marks of a GPU. One kernel, or
two on one scale."""

from dataclasses import dataclass
from functools import lru_cache

from explainers.stories.pipeline import pipeline
from explainers.stories.pipeline.key_tile_frames import BlockStory
from explainers.story import stage
from explainers.story.base import Part, Runner, Story
from explainers.story.stage import Block, Stage
from kernels.core.request import Request
from kernels.measure import pipelines
from kernels.measure.pipelines import Pipeline
from kernels.measure.pipelines import pipeline as made_here


@dataclass(frozen=True)
class Look:
    """The shown pipelines, and the block of each. The tiles of the first one are the steps."""

    requests: tuple[Request, ...]
    block: int


class Pipelines(Story[Look]):
    """The phases of one block, or of a block of each of two kernels."""

    def stage(self, subject: Look, runner: Runner) -> Stage:
        stories = _stories(subject)
        first = stories[0].made
        said = f"Times {first.provenance} on {first.device}, {first.date}, by the marks build."
        clocks, costs = pipeline.clocks_sentence(first), " ".join(pipeline.cost(one.made) for one in stories)
        where = stage.place(first.device, first.date)
        return pipeline.stage_of(stories, stage.Provenance(first.provenance, f"{said} {clocks} {costs}", place=where))

    def parts(self) -> dict[str, Part[Look]]:
        return {"shares": shares_tab}


def _stories(look: Look) -> list[BlockStory]:
    loaded = [load(request) for request in look.requests]
    return [pipeline.explain(one, min(look.block, int(one.marks.block.max()))) for one in loaded]


@lru_cache(maxsize=8)
def load(request: Request) -> Pipeline:
    """The pipeline of a request: made on this machine's GPU, or recorded."""
    return made_here(request) if request.backend == "gpu" else pipelines.find(request).load()


def shares_tab(look: Look, runner: Runner) -> list[Block]:
    """The time of each writer, by phase."""
    return [
        block
        for story in _stories(look)
        for block in (
            stage.heading(f"{story.name}, block {story.block}"),
            *(stage.text(said) for said in pipeline.fed_sentences(story)),
            *(stage.text(said) for said in pipeline.meanwhile_sentences(story)),
            stage.table(pipeline.shares_table(story), f"{story.name}: from a mark to the next one, with its waits."),
        )
    ]


STORY = Pipelines()
