"""Row sums: the page of the skeleton story. Copy it to app/stories/NAME.py, and explainers/stories/skeleton to NAME."""

from app.choices import items, pages
from app.parts.explained import story_of
from explainers.stories.skeleton import story

STORY = story_of(
    story.STORY,
    path="skeleton",  # the name of this module, and the last part of the address
    title="Row sums",
    look="Watch the sum l of a row grow from tile to tile. The last value divides the row of O.",
    order=1000,  # its place in More pages
    # the kernels that the explainer accepts, with a choice of the traced item
    page=lambda catalog: pages.accepted_by(story.STORY, catalog, refusal=story.STORY.refusal, **items.HOOKS),
    subject=items.request,  # the request of the shown run. It computes nothing
    listed=False,  # remove this line in a copy
)
