"""The stories: path -> Story, in the order of the rail: the start, the course's stops, and what stands beside it."""

from functools import cache
from typing import Any

from app.choices import asked
from app.choices.pages import PIPELINE
from app.parts.story import Story
from app.stories import (
    any_kernel,
    bank_conflicts,
    block_table,
    coalescing,
    compare,
    memory_hierarchy,
    occupancy,
    online_softmax,
    pipeline,
    precision,
    registers,
    source,
    sparsity,
    start,
    tensor_cores,
    tiling,
    timing,
)
from kernels.core.fields import write_value

COURSE = (
    tiling,
    online_softmax,
    registers,
    block_table,
    bank_conflicts,
    tensor_cores,
    sparsity,
    *((pipeline,) if PIPELINE.kernels else ()),  # where one is recorded
    precision,
    coalescing,
    memory_hierarchy,
    occupancy,
    timing,
    compare,
)
BESIDE = (source, any_kernel)
STORIES: dict[str, Story] = {module.STORY.path: module.STORY for module in (start, *COURSE, *BESIDE)}


@cache
def rail() -> list[dict[str, Any]]:
    """What the browser needs to know of every story before it is opened. begin: its choices before anything is chosen;
    what differs from them goes along from story to story."""
    numbers = {module.STORY.path: number for number, module in enumerate(COURSE, 1)}
    return [
        {
            "path": story.path,
            "title": story.title,
            "number": numbers.get(story.path, 0),
            "look": story.look,
            "begin": _begin(story.asked),
        }
        for story in STORIES.values()
    ]


def _begin(asks: asked.Asked) -> dict[str, str]:
    return {name: write_value(value) for name, value in asks.beginning().items()}
