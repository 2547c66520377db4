"""One request of a warp in several ways: neighbouring lanes read neighbours, every second element, and so on."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from explainers.stories.coalescing.coalescing import LAYOUT, has_layouts
from explainers.stories.coalescing.sector_walk import Story, first_request
from explainers.story import marks, source_line
from explainers.story.frames import Frame, SectorRequest
from explainers.story.glossary import count, short
from explainers.story.questions import Where, idea
from explainers.story.stage import Question
from kernels.core.fields import fields_of
from kernels.core.spec import KernelSpec
from kernels.run.results import Run
from kernels.trace.memory import model
from kernels.trace.memory.traced import Place

STRIDE, LARGEST = "stride", 2**40
WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")


class Way(NamedTuple):
    """A way to read.

    title: for the clock.
    said: the reads of the lanes, in a sentence.
    fields: the fields of the problem.
    """

    title: str
    said: str
    fields: dict[str, Any]


WAYS = (
    Way("Neighbours", "The lanes read neighbouring elements.", {LAYOUT: "row_major"}),
    Way("Every second", "The lanes read every second element.", {LAYOUT: "strided", STRIDE: 2}),
    Way("One late", "The neighbours start one element late.", {LAYOUT: "misaligned"}),
    Way("Every eighth", "The lanes read every eighth element.", {LAYOUT: "strided", STRIDE: 8}),
)


def accepts(spec: KernelSpec) -> bool:
    """Whether the kernel's problem has these ways."""
    fields = fields_of(spec.problem_type)
    if not has_layouts(spec) or STRIDE not in fields:
        return False
    return {way.fields[LAYOUT] for way in WAYS} <= set(fields[LAYOUT].metadata["allowed"])


def explain(ways: Sequence[Way], runs: Sequence[Run]) -> Story:
    """Returns the Story of the first read of each run, a step for each way."""
    requests: list[SectorRequest] = []
    frames: list[Frame] = []
    for number, (way, run) in enumerate(zip(ways, runs)):
        reads = next(site for site in source_line.logged(run, "global") if site.event == "load")
        request = first_request(run, Place(reads.file, reads.line))
        moved = request["sectors"] * model.SECTOR
        requests.append(request)
        place = run.sites.find(reads.file, reads.line).place
        frames.append(
            {
                "tile": number,
                "title": way.title,
                "sentence": f"{way.said} Memory sends {count(request['sectors'], 'sector')}: "
                f"{share_said(request['used'], moved)}.",
                "lines": {place: 1},
                "marks": [marks.UNCOALESCED] if request["used"] < moved else [],
            }
        )
    return Story(frames, [{"name": "", "requests": requests}], 0, len(requests))


def share_said(used: int, moved: int) -> str:
    """Returns the used part of the moved bytes in words: half of the bytes are used."""
    share = Fraction(used, moved)
    if share == 1:
        return "every byte is used"
    if share == Fraction(1, 2):
        return "half of the bytes are used"
    if share.denominator >= len(WORDS):
        return f"about {100 * used / moved:.0f}% of the bytes are used"
    verb = "is" if share.numerator == 1 else "are"
    noun = "byte" if share.numerator == 1 else "bytes"
    return f"{WORDS[share.numerator]} {noun} in {WORDS[share.denominator]} {verb} used"


def questions(ways: Sequence[Way], requests: Sequence[SectorRequest]) -> list[Question]:
    """Returns the questions: the cost of a stride, and of a late start."""
    known = {way.title: (step, request) for step, (way, request) in enumerate(zip(ways, requests))}
    if "Neighbours" not in known:
        return []
    best = known["Neighbours"][1]
    made = []
    if "Every second" in known:
        made.append(_of_stride(best, *known["Every second"]))
    if "One late" in known:
        made.append(_of_late_start(best, *known["One late"]))
    return made


def _of_stride(best: SectorRequest, step: int, strided: SectorRequest) -> Question:
    sectors, moved = strided["sectors"], strided["sectors"] * model.SECTOR
    times = Fraction(sectors, best["sectors"])
    right = {Fraction(1): "The same", Fraction(2): "Twice as much"}.get(
        times, f"{short(float(times), 3)} times as much"
    )
    per_sector = strided["active"] // sectors
    wrong = {
        "Just as much: memory sends only wanted bytes": f"Memory sends whole sectors of {model.SECTOR} bytes.",
        "Half as much, for half of the elements": f"All {strided['active']} lanes still read an element each.",
        "A sector for each lane": f"Each sector holds the elements of {per_sector} lanes.",
    }
    why = (
        f"The {strided['used']} wanted bytes are now spread over {sectors} sectors. "
        f"So {moved} bytes move, and {share_said(strided['used'], moved)}."
    )
    text = "So far, neighbouring lanes read neighbours. Now lane i reads element 2 i. How much does memory send?"
    hides = [count(sectors, "sector"), share_said(strided["used"], moved), f"{strided['used']:,} of {moved:,} moved"]
    covers = [{"side": 0, "byte": [model.LINE, LARGEST]}]
    where: Where = {"step": step, "view": "sectors", "veils": ("strip",), "hides": hides, "covers": covers}
    return idea("stride", text, right, wrong, why, **where)


def _of_late_start(best: SectorRequest, step: int, late: SectorRequest) -> Question:
    more = late["sectors"] - best["sectors"]
    wrong = {
        "Nothing, as the lanes still read neighbours": "The last element is pushed into one more sector.",
        "Two sectors for each lane": "No element crosses the edge of a sector, so each lane needs one sector.",
        "The request fails": "An element needs to be aligned only to its own size.",
    }
    why = (
        f"The last element is in one more sector: {late['sectors']} in place of {best['sectors']}. "
        "A row that starts at the edge of a sector needs no more."
    )
    text = (
        f"Neighbours took {count(best['sectors'], 'sector')}. Now they start one element later. "
        "How does the cost change?"
    )
    right = "One more sector" if more == 1 else f"{count(more, 'more sector')}"
    last = max(offset for offset in late["offsets"] if offset >= 0) // model.SECTOR * model.SECTOR
    covers = [{"side": 0, "byte": [last, LARGEST]}]
    hides = [count(late["sectors"], "sector"), share_said(late["used"], late["sectors"] * model.SECTOR)]
    where: Where = {"step": step, "view": "sectors", "veils": ("strip",), "hides": hides, "covers": covers}
    return idea("late", text, right, wrong, why, **where)
