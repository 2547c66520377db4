"""The metas of the view `sectors`."""

from typing import NotRequired, TypedDict

from explainers.story.frames import SectorRequest


class SectorSide(TypedDict):
    """The requests of one layout, one for each of the stage's frames.

    name: of the layout, empty for a single one.
    """

    name: str
    requests: list[SectorRequest]


class SectorsMeta(TypedDict):
    """The fields of the view `sectors`.

    chosen: the name of the marked side.
    """

    sides: list[SectorSide]
    chosen: NotRequired[str]
