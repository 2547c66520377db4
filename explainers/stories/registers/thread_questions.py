"""The question about the picture of the whole grid, which several stories show."""

from explainers.stories.occupancy.block_questions import multiprocessors
from explainers.story.stage import Question, Stage


def shared_pictures(made: Stage) -> list[Question]:
    """Questions about the pictures `grid` of a stage: the SMs with work."""
    return [question for view in made.views if view.kind == "grid" for question in multiprocessors(view)]
