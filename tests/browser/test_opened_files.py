"""Files of other profilers in a real Chromium: their bars stand under ours, and stall reasons beside their lines."""

import profiler_files as files
from browser.conftest import shown
from browser.stepping import go_to, hover
from playwright.sync_api import expect

from kernels.catalog import KERNELS
from kernels.measure.elsewhere import packed

BARS = [(block, warp, name, 10 * start, 10 * end) for block, warp, name, start, end in files.BARS]
MADE = {
    "gemm.trace.json": ("IKET", files.iket(BARS)),
    "attention.pftrace": ("FlashInfer's profiler", files.flashinfer(BARS)),
    "attention.nanotrace": ("nanotrace", files.nanotrace(BARS)),
}


def send(page, name, data):
    """Opens a file, and waits until the page shows it."""
    before = shown(page)
    page.locator(".of-file input").set_input_files({"name": name, "mimeType": "", "buffer": data})
    expect(page.locator(".of-file button").first).to_have_text(name)
    return shown(page, other=before)


def refused(page, name, data):
    page.locator(".of-file input").set_input_files({"name": name, "mimeType": "", "buffer": data})
    said = page.locator(".of-file .refused")
    expect(said).to_contain_text(name)
    return said.inner_text()


def test_the_bars_of_each_format_stand_under_ours_and_a_bad_file_gets_a_sentence(visit):
    page = visit("/pipeline?kernel=11_overlap&picture=pipeline")
    for name, (writer, data) in MADE.items():
        send(page, name, data)
        expect(page.locator(".wg")).to_contain_text(f"Measured elsewhere, by {writer}: {name} has 4 bars in 3.84 µs.")
        go_to(page, 0)
        block = packed.block(packed.unpack(packed.opened("trace", data, name)), 0)
        lanes = list(dict.fromkeys(block.frame().lane))
        for n, bar in enumerate(block.frame().itertuples()):
            said = hover(page, "Pipeline", file=name, lane=lanes.index(bar.lane), bar=n, event=bar.kind).split("\n")
            times = f"{bar.end_ns - bar.start_ns:,.0f} ns, from {bar.start_ns:,.0f} ns on"
            assert said == [f"measured elsewhere: {name}, {bar.lane}", bar.kind, times]
    assert "cat.gif starts with b'GIF89a'. Open JSON of IKET" in refused(page, "cat.gif", b"GIF89a")
    assert shown(page)  # the file before stays
    page.reload()
    shown(page)
    expect(page.locator(".of-file button").first).to_have_text(name)  # by the link alone
    before = shown(page)
    page.get_by_role("button", name=f"Close {name}").click()
    shown(page, other=before)
    expect(page.locator(".of-file button").first).to_have_text("Open a file")
    assert "Measured elsewhere" not in page.locator(".wg").inner_text()


def test_a_block_of_the_file_is_chosen_and_the_whole_of_both_is_shown(visit):
    page = visit("/pipeline?kernel=11_overlap")
    before = send(page, "gemm.trace.json", MADE["gemm.trace.json"][1])
    page.locator("[data-name=trace_block]").fill("1")
    page.locator("[data-name=trace_block]").press("Enter")
    shown(page, other=before)
    page.get_by_role("button", name="Whole, next to theirs").click()
    said = hover(page, "Whole, next to theirs", file="gemm.trace.json", lane=0, bar=0, event="load K")
    assert said.split("\n")[1:] == ["load K", "1,280 ns, from 0 ns on"]


def test_stall_reasons_stand_beside_their_lines(visit):
    name, text = KERNELS["03_flash"].files[0]
    lines = text.split("\n")
    line = next(n for n, code in enumerate(lines, 1) if code.strip().endswith(";"))
    counts = {"long_sb": 60, "wait": 30, "short_sb": 8, "math": 2}
    report = files.ncu(f"/tmp/{name}", [(line, lines[line - 1], [(0x100, "LDS R4, [R2]", counts)])])
    page = visit("/source?kernel=03_flash")
    send(page, "report.csv", report)
    expect(page.locator(".wg")).to_contain_text("report.csv has 100 samples of warps. 100% are on lines of 03_flash.cu")
    row = page.locator(".source-panes .cuda .row").nth(line - 1)
    expect(row.locator(".number")).to_have_text(str(line))
    expect(row.locator(".share")).to_have_text("100%")
    expect(row.locator(".reasons")).to_have_text("long sb 60%, wait 30%, short sb 8%")
    assert (
        row.locator(".reasons").get_attribute("title").startswith("measured elsewhere: report.csv\n100 of 100 samples")
    )
    assert page.locator(".source-panes .reasons").count() == 1
    other = files.ncu("/tmp/other.cu", [(1, "int other;", [(0x100, "EXIT", counts)])])
    send(page, "other.csv", other)
    expect(page.locator(".wg")).to_contain_text("other.csv names /tmp/other.cu (1 line). 03_flash has no such lines.")
    assert page.locator(".source-panes .reasons").count() == 0


def test_settings_have_the_file_where_the_reader_is_guided_and_a_large_one_is_not_sent(visit):
    page = visit("/source", depth="guided")
    page.get_by_role("button", name="Settings").click()
    assert "has 33,554,433 bytes. At most 32 MB are read." in refused(page, "large.json", bytes(2**25 + 1))
