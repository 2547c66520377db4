"""The page Launches in a real Chromium: the gaps read off the picture are those of the recording."""

import re

from browser.stepping import count, hover, press, sentence
from pages import open_page

from kernels.core.request import Request
from kernels.measure import launch_times

LINK = "launches"


def test_the_gaps_on_the_page_are_those_of_the_recording(visit):
    page, made = visit(f"/{LINK}"), open_page(LINK).stage
    meta = next(view for view in made.views if view["id"] == "launches")["meta"]
    assert count(page) == len(made.frames)
    press(page, "ArrowRight")
    assert sentence(page) == made.frames[1]["sentence"]
    recorded = {entry.request.kernel.title: entry for entry in launch_times.recorded() if _is_small(entry.request)}
    for p, panel in enumerate(meta["panels"]):
        table = recorded[panel["title"]].load().median(ahead=True).sort_values("start_ns")
        gaps = (table.start_ns - table.end_ns.shift()).iloc[1:]
        said = [hover(page, "Time line", panel=p, row=0, bar=-1, gap=n) for n in range(len(panel["gaps"]))]
        assert [int(re.search(r"([\d,]+) ns", one)[1].replace(",", "")) for one in said] == gaps.round().tolist()


def _is_small(request: Request) -> bool:
    return request.problem == request.kernel.problem_type.launch_cases(request.kernel)[0].problem
