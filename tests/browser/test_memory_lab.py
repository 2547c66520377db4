"""The memory lab in a real Chromium: padding changed and the wavefronts read, stepping, hovering the source, bad
input."""

import re

import pytest
from browser.stepping import press, sentence, step_of
from playwright.sync_api import expect

from explainers import bank_conflicts, coalescing
from kernels.catalog import KERNELS
from kernels.core.request import Request
from kernels.families.lab.accesses import GlobalProblem
from kernels.families.lab.tiles import ColumnsProblem
from kernels.run import execute
from kernels.trace.probes import sites_of

pytestmark = pytest.mark.xdist_group("browser")


def metric(page, label):
    return (
        page.locator("[data-testid=stMetric]")
        .filter(has_text=label)
        .locator("[data-testid=stMetricValue]")
        .inner_text()
    )


def choose(page, label, option):
    """Chooses an option of the sidebar's selectbox of that label, and waits until the page has run with it."""
    box = page.locator("[data-testid=stSelectbox]").filter(has=page.locator("label", has_text=re.compile(f"^{label}$")))
    box.locator("[data-baseweb=select], input").first.click()
    page.get_by_role("option", name=option, exact=True).click()


def walk(settings=()):
    run = execute.run(Request(KERNELS["lab_columns"], ColumnsProblem(), settings))
    return bank_conflicts.explain(run, probe(run, "shared"))


def probe(run, space):
    """File and line of the run's first probe of a load from that space."""
    return next((site.file, site.line) for site in sites_of(run.request) if (site.space, site.event) == (space, "load"))


def test_padding_makes_the_wavefronts_fall_from_32_to_1(visit):
    page = visit("/bank_conflicts?backend=cpu")
    assert metric(page, "Wavefronts per access") == "32" and metric(page, "Conflicts per access") == "31"
    assert sentence(page) == walk().frames[0]["sentence"]
    choose(page, "PAD", "1")
    expect(page.locator("[data-testid=stMetricValue]").first).to_have_text("1", timeout=30_000)
    assert metric(page, "Conflicts per access") == "0" and "PAD=1" in page.url
    expect(page.locator(".sentence")).to_have_text(walk((("PAD", 1),)).frames[0]["sentence"])
    assert page.evaluate("window.__warpglass.count") == 16  # the accesses shown, one wavefront each


def test_stepping_goes_wavefront_by_wavefront_and_access_by_access(visit):
    page, frames = visit("/bank_conflicts?backend=cpu"), walk().frames
    press(page, "Home")
    for number in range(4):
        assert sentence(page) == frames[number]["sentence"]
        press(page, "ArrowRight")
    press(page, "Shift+ArrowRight")
    assert sentence(page) == frames[32]["sentence"]
    assert page.locator("tr.lit > th").inner_text() == "1"
    assert frames[32]["sentence"] in page.locator("canvas[aria-label]").first.get_attribute("aria-label")


def test_the_attention_kernels_show_k_smem_with_and_without_padding(visit):
    page = visit("/bank_conflicts?view=attention&backend=cpu&kernel=03_flash&PAD_K=4")
    assert "32 wavefronts a request without, 4 with, 4 at best" in page.inner_text("body")
    assert "pass 1 of 4 (lanes 0 to 7) wants at most one word of each bank" in sentence(page)


def test_the_layouts_step_through_their_sectors(visit):
    page = visit("/coalescing?view=layouts&backend=cpu&layout=strided")
    run = execute.run(Request(KERNELS["lab_global"], GlobalProblem("strided")))
    story = coalescing.explain(run, probe(run, "global"))
    for frame in story.frames[:3]:
        assert sentence(page) == frame["sentence"]
        press(page, "ArrowRight")
    assert "touch 32 sectors" in story.frames[0]["sentence"]


def test_hovering_a_line_of_the_source_lights_its_instructions(visit):
    page = visit("/source?kernel=03_flash&arch=sm_80", wait=".source .code .row")
    line = next(
        n
        for n, text in enumerate(KERNELS["03_flash"].source.splitlines(), 1)
        if "const float4 k4 = lds<float4>" in text
    )
    panes = page.locator(".source .code")
    panes.nth(0).locator(f'[data-source="03_flash.cu:{line}"]').scroll_into_view_if_needed()
    panes.nth(0).locator(f'[data-source="03_flash.cu:{line}"]').hover()
    lit = panes.nth(2).locator(".row.lit .text").all_inner_texts()
    assert lit and sum("LDS.128" in text for text in lit) == 8 and not any("LDG" in text for text in lit)
    assert page.locator("[data-part=state]").inner_text().startswith(f"line {line}: ")
    panes.nth(0).locator(f'[data-source="03_flash.cu:{line}"]').click()
    page.mouse.move(5, 5)
    assert (
        panes.nth(2).locator(".row.lit").count() == len(lit)
        and "held" in page.locator("[data-part=state]").inner_text()
    )


def test_a_refused_width_says_why_and_no_traceback_reaches_the_page(visit):
    page = visit("/bank_conflicts?backend=cpu&WIDTH=16&PAD=1", wait="[data-testid=stAlert]")
    assert "132 bytes; an access of 16 bytes must begin at a multiple of 16" in page.inner_text("body")
    assert "Traceback" not in page.inner_text("body")


def test_a_link_restores_the_lab_and_its_step(visit):
    page = visit("/bank_conflicts?backend=cpu&PAD=2&step=7")
    assert metric(page, "Wavefronts per access") == "2" and step_of(page) == 7
    assert sentence(page) == walk((("PAD", 2),)).frames[7]["sentence"]
