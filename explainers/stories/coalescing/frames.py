"""The metas of the view `sectors`."""

from typing import NotRequired, TypedDict

from explainers.story.frames import SectorRequest


class SectorSide(TypedDict):
    """The requests of one layout: one for each of the stage's frames.

    name: of the layout; empty if there is one.
    """

    name: str
    requests: list[SectorRequest]


class SectorsMeta(TypedDict):
    """What the view `sectors` draws beside the stage's frames.

    chosen: the name of the side that is marked.
    """

    sides: list[SectorSide]
    chosen: NotRequired[str]
