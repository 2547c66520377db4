"""Pipeline in a real Chromium: bars read off the page are the recorded marks'; the picture follows the clock."""

import re

import numpy as np
import pytest
from browser.stepping import count, go_to, hover, press, read, sentence
from pages import page_of
from playwright.sync_api import expect

from app.stories import pipeline as choices
from explainers.stories.pipeline import pipeline
from explainers.story.glossary import phase_title
from kernels.measure import pipeline_bars

KERNEL = "11_overlap"


@pytest.fixture(scope="module")
def story():
    return pipeline.explain(choices.of(KERNEL)[0].load())


def test_bars_have_the_times_of_the_marks_and_zooming_shows_all_and_comes_back(visit, story):
    page, shown = visit(f"/pipeline?kernel={KERNEL}&picture=pipeline"), pipeline.view([story])
    rows, until = shown.meta["rows"], story.frames[4]["span"][1]
    row, start, end, tile = (shown.columns[name] for name in ("row", "start", "end", "tile"))
    events = [shown.meta["events"][int(e)] for e in shown.columns["event"]]
    wide = np.flatnonzero((end <= until) & (end - start > until / 100))
    assert {rows[int(row[n])]["flight"] for n in wide} == {True, False} and len(wide) > 30
    for n in wide[:: len(wide) // 12]:
        text = hover(page, "Pipeline", row=int(row[n]), bar=int(n))
        title = ("in flight: " if rows[int(row[n])]["flight"] else "") + events[n]["title"]
        assert title + (f", key tile {tile[n]:.0f}" if tile[n] >= 0 else "") == text.split("\n")[1]
        ns = end[n] - start[n]
        numbers = [float(found.replace(",", "")) for found in re.findall(r"\d[\d,]*", text.split("\n")[2])]
        assert numbers == pytest.approx([ns, ns * story.made.mhz / 1e3, start[n]], abs=0.52)
        assert text.startswith(f"{KERNEL}, {story.made.noun} ")
    leader = shown.meta["row_of"][story.leader]
    write = [e["name"] for e in shown.meta["events"]].index("write")
    last = int(np.flatnonzero((shown.columns["row"] == leader) & (shown.columns["event"] == write))[-1])
    where = f"window.clock.where('Pipeline', {{ row: {leader}, bar: {last} }})"
    canvas = page.locator(".wg canvas").first
    canvas.focus()
    page.wait_for_function(f"!{where}")
    press(page, "0")
    page.wait_for_function(where)
    for _ in range(12):
        press(page, "+")
    page.wait_for_function(f"!{where}")
    press(page, "0")
    page.wait_for_function(where)


def test_the_picture_follows_the_clock(visit, story):
    page, shown = visit(f"/pipeline?kernel={KERNEL}&step=30&picture=pipeline"), pipeline.view([story])
    assert count(page) == len(story.frames)
    mine = (shown.columns["row"] == shown.meta["row_of"][story.leader]) & (
        shown.columns["event"] == [e["name"] for e in shown.meta["events"]].index("softmax")
    )
    bars = np.flatnonzero(mine)
    for step in (29, 30, 31, 3, len(story.frames) - 3):
        go_to(page, step)
        frame = story.frames[step]
        expect(page.locator(".wg .sentence").first).to_have_text(frame["sentence"])
        said = read(page)
        assert said["step"] == step and said["title"] == frame["title"] and sentence(page) == frame["sentence"]
        assert {place for pane in said["lit"] for place in pane} <= set(frame["lines"])
        assert frame["sentence"] in said["labels"][0]
        begin, end = frame["span"]
        inside = [int(n) for n in bars if begin <= shown.columns["start"][n] < end]
        what = f"key tile {frame['title'].split()[-1]}"
        assert what in hover(  # the cursor's bar is in sight
            page, "Pipeline", row=int(shown.columns["row"][inside[0]]), bar=inside[0]
        )
    before = read(page)["step"]
    press(page, "ArrowLeft")
    assert read(page)["step"] == before - 1


@pytest.mark.slow
def test_two_kernels_on_one_scale_and_where_their_time_goes(visit, story):
    beneath = next(
        n
        for n in choices.possible_beneath(page_of("pipeline"), {"kernel": KERNEL, "recorded": 0, "backend": "recorded"})
        if n.startswith("10")
    )
    page = visit(f"/pipeline?kernel={KERNEL}&beneath={beneath}&tab=shares")
    assert all(f"{name}: block 0 takes" in page.locator(".wg").inner_text() for name in (KERNEL, beneath))
    page.get_by_role("heading", name=f"{beneath}, block 0").wait_for()
    found = page.locator(".wg table").first.locator("tbody tr").all_inner_texts()
    shares = pipeline_bars.shares(story.made, 0)
    due = shares[(shares.writer == story.leader) & (shares.event == "softmax")].iloc[0]
    assert f"{story.leader}, consumer\t{phase_title('softmax')}\t{due.bars}\t{due.ns:,.0f}\t{due.share:.1%}" in found
    tabs = page.locator('.wg [data-view^="grid"], .wg button:has-text("Whole grid")').all_inner_texts()
    assert {f"Whole grid, {KERNEL}", f"Whole grid, {beneath}"} <= set(tabs)


def test_at_a_step_without_lines_the_code_stays_in_sight(visit):
    """At the last step of Online softmax it jumped to the front matter."""
    page = visit("/online_softmax?what_if=RESCALE&backend=cpu")
    go_to(page, count(page) - 1)
    page.wait_for_timeout(300)
    at_end = page.evaluate("document.querySelector('.wg .code').scrollTop")
    page.reload()
    page.locator(".wg[data-shown]").wait_for()
    page.wait_for_timeout(300)
    again = page.evaluate("document.querySelector('.wg .code').scrollTop")
    assert at_end > 500 and again == pytest.approx(at_end, abs=40)
