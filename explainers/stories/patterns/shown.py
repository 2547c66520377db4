"""A way of a pattern with its cycles, and the counts behind these cycles."""

from collections.abc import Sequence
from dataclasses import dataclass

from explainers.stories.patterns.frames import READ
from explainers.stories.patterns.moves import Walk
from explainers.story.glossary import count
from kernels.core.request import Request
from kernels.measure import pattern_cycles
from kernels.measure.pattern_cycles import Cycles

PASS = "passes of shared memory, one at a time, each with at most one word from each bank"
MEANINGS = {
    "wavefront": PASS,
    "shuffle": "a lane gets another lane's register. It takes about as long as a read from shared memory",
    "barrier": "every thread waits until the slowest has come",
    "request": "a load of a warp from global memory",
    "sector": "32 bytes of global memory",
    "add": "all to one word, so one after another",
}


@dataclass(frozen=True)
class Shown:
    """A way.

    walk: its steps.
    cycles: None if these are not known.
    traced: the GPU and the day of its recorded trace, or "" for a trace of this page.
    """

    name: str
    request: Request
    walk: Walk
    cycles: Cycles | None
    traced: str

    @property
    def why(self) -> str:
        """The reason for its cycles, or ""."""
        return pattern_cycles.why(self.request.kernel, self.request.settings)

    @property
    def waits(self) -> str:
        """Its main wait, or ""."""
        return pattern_cycles.waits(self.request.kernel, self.request.settings)


def counts_of(way: Shown, together: Sequence[Shown]) -> list[tuple[str, str, str]]:
    """The derived figures of a way: the number, its noun and its meaning."""
    walk = way.walk
    if not walk.stages:
        return [
            (*_counted(walk.longest, "wavefront", " in turn")[:2], f"{PASS}. The busiest warp of a step counts"),
            _counted(walk.shuffles, "shuffle"),
            _counted(walk.barriers, "barrier"),
            _counted(walk.adds, "add", " in L2"),
        ]
    waves = _counted(walk.wavefronts, "wavefront")
    if max(other.walk.stages for other in together) == 1:
        return [_counted(walk.requests, "request"), _counted(walk.sectors, "sector"), waves]
    tiles = sum(READ in move["places"] for move in walk.moves)
    return [(f"{walk.alone} of {tiles}", "tiles alone", "added while no copy runs"), waves]


def _counted(number: int, name: str, place: str = "") -> tuple[str, str, str]:
    return f"{number:,}", count(number, name).partition(" ")[2] + place, MEANINGS[name]
