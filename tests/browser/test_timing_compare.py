"""Timing and Compare in a real Chromium, on the recorded H200 set: what the page says is recomputed from the file."""

import re

import pytest
from browser.stepping import address, asked, choose, press, read, step_of
from playwright.sync_api import expect

from explainers.models import tiling
from explainers.stories.compare import two_kernels
from kernels.core.scope import Scope
from kernels.families.dense.problem import DenseProblem
from kernels.measure import bench
from kernels.recordings import tables

SWEEP = "seq_len+batch%3D1+num_heads%3D8+num_kv_heads%3D8+head_dim%3D64+causal%3DFalse+dtype%3Dfloat32+Attention"
DENSE = f"/timing?sweep={SWEEP}"  # the sweep of `timed`


@pytest.fixture(scope="module")
def recorded():
    return tables.load(tables.path_of(bench.KIND, "NVIDIA H200"))[0]


def timed(recorded, seq_len, name):
    rows = recorded.query("batch == 1 and num_heads == 8 and head_dim == 64 and status == 'ok' and dtype == 'float32'")
    rows = rows[(rows.seq_len == seq_len) & (rows["name"] == name) & ~rows.causal.astype(bool)]
    return rows.iloc[0]


def test_the_speed_up_is_that_of_the_file_and_the_link_keeps_the_baseline(visit, recorded):
    page = visit(f"{DENSE}&tab=figures")
    drawer = page.locator(".wg .drawer")
    expect(drawer).to_contain_text("as fast as", timeout=30_000)
    found = re.search(
        r"At seq_len (\d+), (\S+) takes .*?: ([\d.]+) times \(([\d.]+) to ([\d.]+)\) as fast as torch efficient",
        drawer.inner_text(),
    )
    assert (int(found[1]), found[2]) == (16384, "08b_three_bfloat16")
    ours, base = (timed(recorded, 16384, name) for name in (found[2], "sdpa_efficient"))
    low, high = base.sustained_p10_us / ours.sustained_p90_us, base.sustained_p90_us / ours.sustained_p10_us
    gains = base.sustained_us / ours.sustained_us, low, high
    assert [float(n) for n in found.groups()[2:]] == pytest.approx(gains, rel=6e-3)
    choose(page, "baseline", "03_flash")
    expect(drawer).to_contain_text("as fast as 03_flash", timeout=30_000)
    assert address(page)["baseline"] == "03_flash" and address(page)["tab"] == "figures"


def test_stepping_goes_over_the_sizes_and_the_strip_has_the_files_times(visit, recorded):
    page = visit(DENSE)
    press(page, "Home")
    state = dict(read(page)["state"])
    assert float(state["08b_three_bfloat16"].split(" ")[0]) == pytest.approx(
        timed(recorded, 128, "08b_three_bfloat16").sustained_us, rel=6e-3
    )
    press(page, "2")
    assert address(page)["picture"] == "latency"


def test_two_kernels_step_together_and_the_link_restores_both(visit, run_of, server):
    problem = DenseProblem(seq_len=50, causal=True)
    tiles = {"BLOCK_Q": 16, "BLOCK_KV": 16}
    runs = [run_of("03_flash", problem, tiles, Scope(1)), run_of("08b_three_bfloat16", problem, tiles, Scope(1))]
    steps = two_kernels.align(*(tiling.explain(run).frames for run in runs))
    small = "&b_BLOCK_Q=16&b_BLOCK_KV=16"
    page = visit(f"/compare?a=03_flash&b=08b_three_bfloat16&seq_len=50&causal=true&backend=cpu&at_query=20{small}")
    for step in range(5):
        said = read(page)
        assert (said["step"], said["title"]) == (step, steps.frames[step]["title"])
        assert said["sentences"] == [steps.a[step]["sentence"], steps.b[step]["sentence"]]
        assert said["lit"] == [sorted(side[step]["lines"]) for side in (steps.a, steps.b)]
        press(page, "ArrowRight")
    expect(page).to_have_url(re.compile("step=6"))
    title = read(page)["title"]
    choose(page, "b_PAD", "0")
    assert (step_of(page), read(page)["title"]) == (5, title)
    link = page.url
    again = visit(link.removeprefix(server.url))
    assert asked(again)["b_PAD"] == "0" and read(again) == read(page)


def test_the_weightiest_reasons_stand_in_the_window_under_the_whole_verdict(visit):
    page = visit("/compare?backend=cpu", viewport={"width": 1280, "height": 720})
    page.locator(".wg .lead a.to").first.wait_for(timeout=120_000)
    fits = "node => node.scrollHeight <= node.clientHeight + 1 && node.getBoundingClientRect().bottom < innerHeight"
    assert page.locator(".wg .lead p").count() >= 2
    for part in (".wg .summary", ".wg .lead", *(f".wg .lead p >> nth={n}" for n in range(2))):
        assert page.locator(part).evaluate(fits), part
    assert page.locator(".wg .picture").evaluate("node => node.clientHeight > 150")
