"""Timing and Compare in a real Chromium, on the recorded H200 set: what the page says is recomputed from the file."""

import json
import re

import pytest
from browser.conftest import ready
from browser.stepping import lit, press, step_of
from playwright.sync_api import expect

from explainers import compare, tiling
from kernels.core.request import Scope
from kernels.families.dense.problem import DenseProblem
from kernels.timing import bench, tables

pytestmark = pytest.mark.xdist_group("browser")
CHART = "[data-testid=stVegaLiteChart] canvas, [data-testid=stVegaLiteChart] svg"


@pytest.fixture(scope="module")
def recorded():
    return tables.load(tables.path_of(bench.KIND, "NVIDIA H200"))[0]


def said_ratio(page):
    """(seq_len, kernel, ratio, low, high, baseline) of the page's sentence."""
    text = page.locator("[data-testid=stAlert]").filter(has_text="as fast as").first.inner_text()
    found = re.search(
        r"At seq_len (\d+), (\S+) takes .*: ([\d.e+-]+) times \(([\d.e+-]+) to ([\d.e+-]+)\) "
        r"as fast as (\S+) \(recorded, NVIDIA H200\)\.",
        text,
    )
    return int(found[1]), found[2], float(found[3]), float(found[4]), float(found[5]), found[6]


def choose(page, label, option):
    page.get_by_role("combobox", name=label).click()
    page.get_by_role("option", name=option, exact=True).click()


def expected(recorded, seq_len, kernel, baseline):
    rows = recorded[
        (recorded.seq_len == seq_len)
        & (recorded.batch == 1)
        & (recorded.num_heads == 8)
        & (recorded.head_dim == 64)
        & ~recorded.causal.astype(bool)
        & (recorded.status == "ok")
    ].set_index("name")
    ours, base = rows.loc[kernel], rows.loc[baseline]
    return base.median_us / ours.median_us, base.p10_us / ours.p90_us, base.p90_us / ours.p10_us


def test_a_chosen_baselines_speed_up_is_that_of_the_file_and_the_link_keeps_it(visit, recorded):
    page = visit("/timing", wait=CHART)
    seq_len, kernel, *ratios, baseline = said_ratio(page)
    assert (seq_len, kernel, baseline) == (16384, "04_flash_registers", "sdpa_efficient")
    assert ratios == pytest.approx(expected(recorded, seq_len, kernel, baseline), rel=6e-3)
    choose(page, "Baseline of the speed-ups", "03_flash")
    expect(page.get_by_text("as fast as 03_flash").first).to_be_visible()
    seq_len, kernel, *ratios, baseline = said_ratio(page)
    assert baseline == "03_flash" and ratios == pytest.approx(expected(recorded, seq_len, kernel, "03_flash"), rel=6e-3)
    again = visit(page.url.removeprefix(page.url.split("/timing")[0]), wait=CHART)
    assert said_ratio(again) == (seq_len, kernel, *ratios, "03_flash")


def test_the_downloads_hold_the_files_rows(visit, recorded):
    page = visit("/timing", wait=CHART)
    with page.expect_download() as waiting:
        page.get_by_role("button", name="JSON").click()
    made = json.loads(waiting.value.path().read_text())
    assert made["provenance"]["NVIDIA H200"]["device"] == "NVIDIA H200" and made["baseline"] == "sdpa_efficient"
    for row in made["rows"]:
        same = recorded[(recorded["name"] == row["name"]) & (recorded.median_us == row["median_us"])]
        assert len(same) >= 1
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Report (Markdown)").click()
    assert waiting.value.path().read_text().startswith("# Attention: seq_len 128 to 16384")
    for form, begins in (("PNG", b"\x89PNG"), ("SVG", b"<svg")):
        with page.expect_download() as waiting:
            page.get_by_role("button", name=form, exact=True).click()
        assert waiting.value.path().read_bytes().startswith(begins)


def test_two_kernels_step_together_and_the_link_restores_both(visit, run_of):
    problem = DenseProblem(seq_len=50, causal=True)
    tiles = {"BLOCK_Q": 16, "BLOCK_KV": 16}
    runs = [run_of("03_flash", problem, tiles, Scope(1)), run_of("04_flash_registers", problem, tiles, Scope(1))]
    stories = [tiling.explain(run).frames for run in runs]
    steps = compare.align(*stories)
    page = visit("/compare?seq_len=50&causal=true&backend=cpu&at_query=20")
    expect(page.locator(".code")).to_have_count(2)
    for step in range(5):
        assert step_of(page) == step
        assert page.locator(".sentence").all_inner_texts() == [steps.a[step]["sentence"], steps.b[step]["sentence"]]
        expect(page.locator("[data-part=title]")).to_have_text(steps.frames[step]["title"])
        lines = [sorted(side[step]["lines"]) for side in (steps.a, steps.b)]
        assert [lit(pane) for pane in page.locator(".code").all()] == lines
        press(page, "ArrowRight")
    page.wait_for_function("new URL(location).searchParams.get('step') === '5'", timeout=10_000)
    choose(page, "B PAD", "0")
    page.wait_for_function("new URL(location).searchParams.get('b_PAD') === '0'", timeout=20_000)
    ready(page)
    address = page.url
    again = visit(address.removeprefix(address.split("/compare")[0]))
    assert again.locator(".sentence").count() == 2
    assert again.get_by_role("combobox", name="B PAD").input_value() in ("0", "") and "b_PAD=0" in again.url
    assert step_of(again) == int(re.search(r"step=(\d+)", address)[1])


def test_recorded_times_of_the_pair_are_those_of_the_file(visit, recorded):
    page = visit("/compare?backend=cpu&a=03_flash&b=04_flash_registers")
    text = page.locator("[data-testid=stAlert]").filter(has_text="as fast as").first.inner_text()
    ratio = expected(recorded, 16384, "04_flash_registers", "03_flash")[0]
    assert f"is {ratio:.3g} times" in text and "(recorded, NVIDIA H200)" in text
