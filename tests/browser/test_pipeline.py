"""Pipeline in a real Chromium: bars read off the page are the recorded marks'; the picture follows the clock."""

import re

import pytest
from browser.stepping import count, go_to, hover, press, read
from pages import page_of
from playwright.sync_api import expect

from app.stories import pipeline as choices
from explainers.stories.pipeline import marks
from explainers.stories.pipeline import story as shown_pipelines
from explainers.story.glossary import phase_title
from kernels.measure import pipeline_bars

KERNEL = "11_overlap"


@pytest.fixture(scope="module")
def story():
    return marks.explain(choices.of(KERNEL)[0].load())


def test_the_bars_of_each_step_have_the_times_of_the_marks(visit, story):
    page = visit(f"/pipeline?kernel={KERNEL}&picture=pipeline")
    made = shown_pipelines.stage_of([story])
    (panel,) = made.views[0].meta.lines[0]
    assert count(page) == len(made.frames)
    flights = set()
    for step in (0, 3, 9, len(made.frames) - 1):
        go_to(page, step)
        expect(page.locator(".wg .sentence").first).to_have_text(made.frames[step]["sentence"])
        said, begin = read(page), panel.groups[0].begins[step]
        assert said["step"] == step and made.frames[step]["sentence"] in said["labels"][0]
        assert {place for pane in said["lit"] for place in pane} <= set(made.frames[step]["lines"])
        seen = [span for span in panel.spans if span.start >= begin and span.end <= begin + panel.length]
        for span in [span for span in seen if span.end - span.start > panel.length / 60][::5]:
            text = hover(page, "Pipeline", **span.datum).split("\n")
            flight = panel.rows[span.row].thin
            flights.add(flight)
            title = ("in flight: " if flight else "") + marks.title(span.datum["event"], story.words)
            tile = span.datum["tile"]
            assert text[1] == title + (f", key tile {tile}" if tile >= 0 else "")
            numbers = [float(found.replace(",", "")) for found in re.findall(r"\d[\d,]*", text[2])]
            ns = span.end - span.start
            assert numbers == pytest.approx([ns, ns * story.made.mhz / 1e3, span.start], abs=0.52)
            assert text[0].startswith(f"{KERNEL}, {story.made.noun} ")
    assert flights == {True, False}
    press(page, "ArrowLeft")
    assert read(page)["step"] == len(made.frames) - 2


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
