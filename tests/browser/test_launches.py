"""The page Launches in a real Chromium: the gaps read off the picture are those of the recording."""

import re

from browser.stepping import count, go_to, hover, press, sentence
from pages import open_page

from kernels import catalog
from kernels.measure import launch_times

LINK = "launches"


def test_the_gaps_on_the_page_are_those_of_the_recording(visit):
    page, made = visit(f"/{LINK}"), open_page(LINK).stage
    meta = next(view for view in made.views if view["id"] == "launches")["meta"]
    assert count(page) == len(made.frames)
    press(page, "ArrowRight")
    assert sentence(page) == made.frames[1]["sentence"]
    graph = catalog.find("launch_graph")
    recorded = {
        entry.request.kernel.title: entry.load()
        for entry in launch_times.recorded()
        if entry.request.problem == entry.request.kernel.problem_type.launch_cases(graph)[0].problem
    }
    scene = -1
    for p, panel in enumerate(meta["panels"]):
        if panel["scene"] != scene:
            go_to(page, next(n for n, frame in enumerate(made.frames) if frame["panel"] == p))
            scene = panel["scene"]
        title, _, host = panel["title"].removesuffix(", after all calls").partition(", from ")
        free = recorded[title].as_it_goes(host == "C++")
        table = (free[~free.call] if host else recorded[title].median).sort_values("start_ns")
        gaps = (table.start_ns - table.end_ns.shift()).iloc[1:]
        row = panel["gaps"][0]["row"]
        said = [hover(page, "Time line", panel=p, row=row, bar=-1, gap=n) for n in range(len(panel["gaps"]))]
        assert [int(re.search(r"([\d,]+) ns", one)[1].replace(",", "")) for one in said] == gaps.round().tolist()
