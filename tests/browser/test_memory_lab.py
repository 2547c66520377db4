"""The memory lab in a real Chromium: what padding does, groups of steps, lines chosen, and the source page."""

from browser.stepping import address, choose, count, press, read, sentence, step_of

from kernels.catalog import KERNELS


def state(page):
    return dict(read(page)["state"])


def test_keys_go_by_wavefronts_and_padding_is_shown_beside_no_padding(visit):
    page = visit("/bank_conflicts?backend=cpu")
    first = sentence(page)
    press(page, "ArrowRight")
    assert sentence(page) != first and step_of(page) == 1
    press(page, "Shift+ArrowRight")
    assert step_of(page) in (count(page) - 1, 32)  # the next access, or the end where all are alike
    shown = state(page)
    assert (
        shown["this access takes, no padding and padded by 1"] == "32 and 1"
        and shown["conflicts, no padding and padded by 1"] == "31 and 0"
    )
    choose(page, "PAD", "2")
    assert address(page)["PAD"] == "2" and state(page)["this access takes, no padding and padded by 2"] == "32 and 2"


def test_a_source_line_is_chosen_and_is_in_the_link(visit):
    page = visit("/coalescing?kernel=03_flash&backend=cpu")
    chips = page.locator('.wg [role=option][data-choice^="line="]')
    lines = chips.evaluate_all("all => all.map(o => o.dataset.choice.slice(5)).filter(Boolean)")
    assert len(lines) == 4
    choose(page, "line", lines[-1])
    assert address(page)["line"] == lines[-1] and "write" in sentence(page)


def test_hovering_a_line_of_the_source_lights_its_instructions_and_a_press_holds_them(visit):
    page = visit("/source?kernel=03_flash&arch=sm_80")
    line = next(
        n
        for n, text in enumerate(KERNELS["03_flash"].source.splitlines(), 1)
        if "const float4 k4 = lds<float4>" in text
    )
    row = page.locator(f'.wg [data-source="03_flash.cu:{line}"]').first
    row.scroll_into_view_if_needed()
    row.hover()
    lit = page.locator(".wg .view .row.lit .text").all_inner_texts()
    assert sum("LDS.128" in text for text in lit) == 8 and not any("LDG" in text for text in lit)
    row.click()
    page.mouse.move(5, 5)
    assert page.locator(".wg .view .row.lit").count() >= len(lit)


def test_what_cannot_go_together_is_disabled_or_refused_with_the_reason(visit):
    page = visit("/bank_conflicts?backend=cpu&WIDTH=16&PAD=1", wait=".wg .vacant [role=alert]")
    said = page.locator(".wg .vacant").inner_text()
    assert "132 bytes. An access of 16 bytes must start at a multiple of 16" in said or "PAD is 1" in said
    assert "Traceback" not in page.inner_text("body")
