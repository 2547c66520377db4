"""The page Launches in a real Chromium: the gaps read off the picture are those of the recording."""

import re

from browser.stepping import count, go_to, hover, press, sentence
from pages import open_page

from kernels import catalog
from kernels.measure import launch_times

LINK = "launches"


def test_the_gaps_on_the_page_are_those_of_the_recording(visit):
    page, made = visit(f"/{LINK}"), open_page(LINK).stage
    problem = catalog.find("launch_graph").problem_type.launch_cases(catalog.find("launch_graph"))[0].problem
    recorded = {
        entry.request.kernel.title: entry.load()
        for entry in launch_times.recorded()
        if entry.request.problem == problem
    }
    assert count(page) == len(made.frames)
    press(page, "ArrowRight")
    assert sentence(page) == made.frames[1]["sentence"]
    for (lanes,) in next(view for view in made.views if view["id"] == "launches")["meta"]["lines"]:
        go_to(page, lanes["shown"][0])
        for group in lanes["groups"]:
            panel = group["datum"]["panel"]
            title, _, host = group["title"].removesuffix(", after all calls").partition(", from ")
            free = recorded[title].as_it_goes(host == "C++")
            table = (free[~free.call] if host else recorded[title].median).sort_values("start_ns")
            gaps = (table.start_ns - table.end_ns.shift()).iloc[1:]
            said = [hover(page, "Time line", panel=panel, gap=n) for n in range(len(gaps))]
            assert [int(re.search(r"([\d,]+) ns", one)[1].replace(",", "")) for one in said] == gaps.round().tolist()
