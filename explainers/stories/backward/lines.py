"""The lines of code of a part, for a step of the kernel that makes several parts."""

from collections.abc import Mapping, Sequence

from explainers.models import gradients
from kernels.run.results import Run
from kernels.trace.kinds import READS
from kernels.trace.steps import StepRow

READERS = {"LSE": {"P"}, "delta": {"dS"}}  # part -> the parts made from it
for product in gradients.PRODUCTS:
    for read in product.reads:
        READERS.setdefault(read, set()).add(product.made)


class Lines:
    """The lines of a kernel that read or compute a part.

    reads: line -> the parts made from the number that it reads.
    computed: line -> the parts that it computes.
    """

    def __init__(self, run: Run) -> None:
        self.text = dict(run.request.kernel.files)
        self.reads, self.computed = dict[str, set[str]](), dict[str, set[str]]()
        names = gradients.symbols(run.request)
        for site in run.sites:
            name = str(site.tensor)
            if site.event in READS:
                self.reads[site.place] = READERS.get(names.get(name, name), set())
            elif part := gradients.EVENTS.get(site.event):
                self.computed.setdefault(site.place, set()).add(part)

    def of_frame(self, made: list[str], lines: Mapping[str, int], groups: Sequence[list[str]]) -> dict[str, int]:
        """The lines of one of several frames. The last frame has the lines of no part. A part without a line lights all
        lines after earlier parts."""
        known = {part for own in groups for part in own}
        of = {at: self._parts_of(at, known) for at in lines}
        if not any(own & set(made) for own in of.values()):
            before = {part for own in groups[: groups.index(made)] for part in own}
            return {at: n for at, n in lines.items() if not of[at] & before}
        last = made == groups[-1]
        return {at: n for at, n in lines.items() if of[at] & set(made) or (last and not of[at] & known)}

    def of_wait(self, step: StepRow) -> dict[str, int]:
        """The line before the mark of a step, if it waits."""
        lines = self.text.get(step.file, "").splitlines()
        waits = 1 < step.line <= len(lines) + 1 and "wait" in lines[step.line - 2]
        return {f"{step.file}:{step.line - 1}": 1} if waits else {}

    def _parts_of(self, place: str, known: set[str]) -> set[str]:
        """The parts among the known ones that a line reads for or computes. Rule: any other line belongs to the first
        part of the next computing line of its file."""
        if read := self.reads.get(place, set()) & known:
            return read
        if place in self.computed:
            return self.computed[place]
        file, line = _file_and_line(place)
        later = [at for at in self.computed if _file_and_line(at)[0] == file and _file_and_line(at)[1] >= line]
        if not later:
            return set()
        return {min(self.computed[min(later, key=lambda at: _file_and_line(at)[1])], key=gradients.ORDER.index)}


def _file_and_line(place: str) -> tuple[str, int]:
    file, _, line = place.rpartition(":")
    return file, int(line)
