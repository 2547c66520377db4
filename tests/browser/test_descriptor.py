"""The picture `descriptor`: a field, the swizzle or an arrow changes the pieces that the tensor cores read."""

import re

from browser.stepping import hover
from playwright.sync_api import expect

TITLE = "The wgmma descriptor"
HAND = 8
PICTURE = f"/pipeline?kernel=11_overlap&picture=descriptor&step={HAND}&backend=recorded"


def headline(page):
    return page.locator(".wg .narration .sentence")


def of(page, label):
    return page.locator(f".hands [aria-label='{label}']")


def test_a_wrong_stride_says_which_key_arrives(visit):
    page = visit(PICTURE)
    expect(headline(page)).to_have_text("Drag an arrow, or choose a fault. Which rows arrive?")
    number = of(page, "stride: bytes")
    assert number.input_value() == "1024"
    number.fill("512")
    expect(headline(page)).to_have_text("128 of 256 pieces are wrong. Key 8, dims 0 to 7 gets key 4, dims 0 to 7.")
    assert of(page, "A fault").input_value() == "half"
    said = hover(page, TITLE, row=4, unit=0)
    assert said.startswith("key 4, dims 0 to 7\nbytes 576 to 591\nread as key 8, dims 0 to 7: wrong")
    assert hover(page, TITLE, outer=8, unit=15) == "key 8, dims 120 to 127\ngets key 4, dims 120 to 127"
    number.focus()
    page.keyboard.press("ArrowUp")  # the key belongs to the number
    assert number.input_value() == "528" and page.evaluate("window.clock.step") == HAND - 1
    of(page, "A fault").select_option("none")
    expect(headline(page)).to_have_text("All 256 pieces are right.")
    assert number.input_value() in ("528", "1024")
    of(page, "A fault").select_option("next")
    expect(headline(page)).to_have_text("These are keys 16 to 31: the operand of a later instruction.")


def test_each_swizzle_has_its_own_right_fields_and_another_type_reads_wrong_pieces(visit):
    page = visit(PICTURE)
    found = {}
    for operand in ("Q: K-major", "V: MN-major"):
        page.get_by_role("button", name=operand).click()
        for swizzle in ("none", "32", "64", "128"):
            page.get_by_role("button", name=swizzle, exact=True).click()
            expect(headline(page)).to_have_text(re.compile("^All [0-9]+ pieces are right.$"))
            found[operand[0], swizzle] = []
            for field in ("stride", "leading"):
                of(page, "A field").select_option(field)
                found[operand[0], swizzle].append(int(of(page, f"{field}: bytes").input_value()))
    assert found == {
        **{("Q", "none"): [128, 2048], ("Q", "32"): [256, 16], ("Q", "64"): [512, 16], ("Q", "128"): [1024, 16]},
        **{("V", "none"): [2048, 128], ("V", "32"): [256, 4096], ("V", "64"): [512, 8192], ("V", "128"): [1024, 16384]},
    }
    of(page, "A field").select_option("type")
    of(page, "layout type").select_option("2")
    expect(headline(page)).to_have_text(re.compile("^[0-9]+ of 256 pieces are wrong."))


def test_a_hand_drags_the_head_of_an_arrow_and_a_click_chooses_a_field(visit):
    page = visit(PICTURE)
    box = page.locator("[data-grip=stride]").bounding_box()
    to = page.evaluate("window.clock.where('The wgmma descriptor', {row: 2, unit: 2})")  # at byte 256, by the swizzle
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(to["x"], to["y"], steps=4)
    page.mouse.up()
    assert of(page, "stride: bytes").input_value() == "256"
    expect(headline(page)).to_have_text(re.compile("^128 of 256 pieces are wrong. Key 8"))
    field = page.evaluate("window.clock.where('The wgmma descriptor', {field: 'leading'})")
    page.mouse.click(field["x"], field["y"])
    assert of(page, "leading: bytes").input_value() == "16384"
