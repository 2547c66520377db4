"""The frames and the meta of the view `multiprocessor`."""

from typing import TypedDict

from explainers.story.frames import Frame


class ResourceFrame(Frame):
    """One step.

    launch: the launch of the SM's blocks.
    shown: the number of counted resources. One step more shows the common limit.
    """

    launch: int
    shown: int


class Resource(TypedDict):
    """A resource of a launch: the amount for one block and the whole amount, in `unit`.

    blocks: the number of blocks within this resource.
    limit: whether this resource allows the fewest blocks.
    """

    name: str
    each: int
    of: int
    unit: str
    blocks: int
    limit: bool


class ResourceLaunch(TypedDict):
    """A launch.

    what_if: the difference from the present build, empty for none.
    warps: of a block.
    blocks: on an SM at once.
    """

    entry: str
    what_if: str
    warps: int
    blocks: int
    resources: list[Resource]


class MultiprocessorMeta(TypedDict):
    """The fields of the view `multiprocessor`, apart from the stage's frames."""

    gpu: str
    launches: list[ResourceLaunch]
