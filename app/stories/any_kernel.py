"""Any kernel: every step, every tensor and every value of any kernel with a trace."""

from app.choices import estimates, items, pages
from app.parts.explained import story_of
from explainers.stories.any_kernel import story

STORY = story_of(
    story.STORY,
    path="any_kernel",
    title="Any kernel",
    look="Every tensor and every value that a kernel logs is here, also of a kernel that no other page knows. "
    "Step through it and see its reads, its writes and its logged values.",
    page=lambda catalog: pages.accepted_by(story.STORY, catalog, sizes=pages.SMALL_TILES, **items.HOOKS),
    subject=items.request,
    order=160,
    instead=story.recorded_call,
    launches={"bytes": lambda request: estimates.traffic([request])},
)
