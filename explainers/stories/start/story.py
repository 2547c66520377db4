"""The story of the start page: the race, the places to run, and the ladder of kernels."""

from dataclasses import dataclass

from explainers.models import race, tiling
from explainers.stories.start import ladder
from explainers.story import picture, stage
from explainers.story.base import Runner, Story
from explainers.story.stage import Block, Stage
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.recordings import tables
from kernels.run.backends import PROVENANCE


@dataclass(frozen=True)
class Shown:
    """The content of the page.

    request: a kernel of the ladder, and its backend.
    where: backend in words -> its device, or the reason why it cannot be used.
    faults: of the user's kernels, of recordings and of the cache folder.
    """

    request: Request
    where: tuple[tuple[str, str], ...]
    faults: tuple[str, ...]


class Start(Story[Shown]):
    """The race, without code and without questions."""

    WANTS = tiling.WANTS

    def refusal(self, spec: KernelSpec) -> str:
        return tiling.refusal(spec)

    def stage(self, subject: Shown, runner: Runner) -> Stage:
        race_view = race.view(race.SHORT)
        places = [stage.text(f"{name}: {text}.".replace("..", ".")) for name, text in subject.where]
        faults = [stage.note(fault, "bad") for fault in (*subject.faults, *tables.unreadable())]
        source = stage.Provenance("modelled", race.said_at_start())
        return Stage("", [], [race_view], [], side=[*places, *faults], provenance=source)


def ladder_tab(requests: list[Request], where: str, runner: Runner) -> list[Block]:
    """The ladder: each rung with its bytes on one problem, and with its recorded time.

    requests: every rung with the same problem.
    where: the backend in words, inside a sentence.
    """
    counted, absent = runner.traffic_of_each(requests)
    specs = [request.kernel for request in requests]
    timed, source = ladder.times(specs, tables.recorded("bench"))
    heads = " x ".join(str(n) for n in picture.tensor_at(requests[0], "Q").shape)
    about = f"Bytes read from and written to global memory in whole runs ({where}). Q, K and V are {heads}."
    if timed:
        about += f" The times are of another problem and of the named builds: the median of one run, {source}."
    label, rows = PROVENANCE[requests[0].backend], ladder.rungs(counted, timed)
    return [{"kind": "ladder", "rungs": rows, "label": label, "about": " ".join([about, *absent])}]


STORY = Start()
