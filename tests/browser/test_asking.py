"""What stands on the page while a story is asked for and when it fails, and that no message is lost to another."""

import json
import re

from browser.conftest import shown
from browser.stepping import asked, choose, rail, read
from playwright.sync_api import expect

SMALL = "kernel=03_flash&seq_len=32&head_dim=32&backend=cpu"
OF_A_STORY = (".wg .picture > *", ".wg .codes > *", ".wg .strip > *", ".wg .tabs > *", ".wg .drawer > *")


def failing(page, path, status=200, said=None, where="ask"):
    """From now on the app answers so when a story is asked for; status 0: not at all."""

    def answer(route):
        if not status:
            return route.abort()
        body = json.dumps(said) if said else "Internal Server Error"
        return route.fulfill(status=status, body=body, content_type="application/json" if said else "text/plain")

    page.route(re.compile(rf"/wg/{where}/{path}"), answer)


def go(page, path):
    page.locator(f'.wg header a[data-story="{path}"]').dispatch_event("click")


def no_picture(page):
    assert not [selector for selector in OF_A_STORY if page.locator(selector).count()]
    expect(page.locator(".wg .bar")).to_be_hidden()
    expect(page.locator(".wg .provenance")).to_be_hidden()


def test_a_story_that_fails_leaves_nothing_of_the_one_before_in_sight(visit):
    page = visit(f"/tiling?{SMALL}&tab=data")
    page.wait_for_selector(".wg .drawer a[download]")
    failing(page, "online_softmax", said={"error": "The worker died.", "title": "The run failed."})
    go(page, "online_softmax")
    expect(page.locator(".wg .main [role=alert]")).to_contain_text("The run failed. The worker died.")
    no_picture(page)
    page.unroute_all()
    page.get_by_role("button", name="Run again").click()
    shown(page, "online_softmax")
    assert not page.locator(".wg .main [role=alert]").count() and read(page)["sentences"][0]
    go(page, "tiling")
    shown(page, "tiling")
    page.go_back()
    shown(page, "online_softmax")


def test_while_another_story_is_made_its_name_stands_where_the_picture_will(visit):
    page = visit(f"/tiling?{SMALL}")
    page.route(re.compile("/wg/ask/online_softmax"), lambda route: None)  # it is not answered
    go(page, "online_softmax")
    expect(page.locator(".wg .vacant")).to_be_visible()
    assert page.locator(".wg .vacant").inner_text() == "One pass is being made."
    no_picture(page)


def veiled(page, yes):
    """Waits until the picture is seen as of the choices before (`yes`), or in full."""
    seen = "parseFloat(getComputedStyle(document.querySelector('.wg .picture')).filter.replace('opacity(', '')) < 0.5"
    page.wait_for_function(f"() => ({seen}) === {'true' if yes else 'false'}")


def test_what_is_of_the_choices_before_is_veiled_while_a_change_waits_and_when_it_fails(visit):
    page = visit(f"/tiling?{SMALL}")
    veiled(page, False)
    page.route(re.compile("/wg/ask/tiling"), lambda route: None)  # it is not answered
    page.locator('.wg [data-choice="what_if=RESCALE"]').click()
    veiled(page, True)
    assert page.locator(".wg .main").get_attribute("aria-busy") == "true"
    failing(page, "tiling", said={"error": "The worker died.", "title": "The run failed."})
    page.locator('.wg [data-choice="what_if=SUBTRACT_MAX"]').click()
    expect(page.locator(".wg .messages [role=alert]")).to_contain_text("The page still shows the choices before.")
    veiled(page, True)
    assert not page.locator(".wg .main").get_attribute("aria-busy")
    page.unroute_all()
    choose(page, "seq_len", "48")
    veiled(page, False)
    assert not page.locator(".wg .messages [role=alert]").count()


def test_a_fault_of_the_server_is_told_apart_from_no_connection_and_a_tab_says_why_it_fails(visit):
    page = visit(f"/tiling?{SMALL}")
    alert = page.locator(".wg .messages [role=alert]")
    fault, gone = "The server answered 500. The fault is Warpglass’s, not of the choices", "The server was not reached"
    for where, status, title, text in (
        ("ask", 500, "Warpglass failed.", fault),
        ("ask", 0, "The app does not answer.", gone),
        ("bundle", 500, "The picture could not be fetched.", fault),
        ("bundle", 0, "The picture could not be fetched.", gone),
    ):
        failing(page, "", status, where=where)
        page.locator(f'.wg [data-choice="what_if={"RESCALE" if status else "SUBTRACT_MAX"}"]').click()
        expect(alert).to_contain_text(text)
        expect(alert.locator("b")).to_have_text(title)
        page.unroute_all()
    failing(page, "tiling", 500)
    page.locator('.wg .tabs [data-tab="builds"]').click()
    expect(page.locator(".wg .drawer [role=alert]")).to_contain_text("The server answered 500.")


def test_what_was_not_taken_an_offer_and_a_failure_stand_beside_each_other(visit):
    page = visit(f"/tiling?{SMALL}&what_if=SUBTRACT_MAX&frob=1&step=99")
    told, offer = page.locator(".wg .messages [role=alert]"), page.locator(".wg .messages [role=status]")
    assert "frob is not a choice of this page." in told.inner_text() and "step is 99" in told.inner_text()
    assert "makes no difference" in offer.inner_text()
    failing(page, "tiling", said={"error": "The worker died.", "title": "The run failed.", "told": [], "link": {}})
    page.locator('.wg [data-choice="what_if=RESCALE"]').click()
    expect(page.get_by_text("The worker died.")).to_be_visible()
    assert "frob" in page.locator(".wg .messages").inner_text() and offer.count()
    page.get_by_role("button", name="Dismiss").click()
    expect(page.get_by_text("The worker died.")).to_be_visible()
    assert "frob" not in page.locator(".wg .messages").inner_text()


def test_a_what_if_leads_to_its_wrong_value_in_two_clicks(visit):
    page = visit(f"/online_softmax?{SMALL}&row=6")
    choose(page, "what_if", "SUBTRACT_MAX")
    page.get_by_role("button", name="Show the wrong value").click()
    expect(page.locator(".wg .narration")).to_contain_text("Wrong here.", timeout=20_000)
    assert "score_scale=30" in page.url and "row=6" not in page.url


# ---- what was chosen ----


def test_a_choice_that_is_reset_in_another_story_stays_reset(visit):
    page = visit(f"/tiling?{SMALL}")
    choose(page, "what_if", "RESCALE")
    rail(page, "online_softmax")
    assert asked(page)["what_if"] == "RESCALE"
    choose(page, "what_if", "none")
    rail(page, "tiling")
    assert asked(page)["what_if"] == "none" and asked(page)["seq_len"] == "32"
    rail(page, "registers")
    assert asked(page)["what_if"] == "none"


def test_what_nobody_has_chosen_is_where_each_story_begins(visit):
    page = visit("/tiling?backend=cpu")
    rail(page, "registers")
    assert asked(page)["kernel"] == "04_warp_rows"
    choose(page, "kernel", "03_flash")
    rail(page, "tiling")
    rail(page, "registers")
    assert asked(page)["kernel"] == "03_flash"


def test_a_preset_is_chosen_with_all_its_fields(visit):
    page = visit("/tiling?backend=cpu")
    page.locator('.wg .toolbar [data-name="preset"]').click()
    options = page.locator('.wg [data-choice^="preset="]')
    before = asked(page)
    other = options.nth(1).get_attribute("data-choice").partition("=")[2]
    page.keyboard.press("Escape")
    choose(page, "preset", other)
    fields = {name: value for name, value in asked(page).items() if before[name] != value}
    rail(page, "coalescing")
    assert fields and fields.items() <= asked(page).items()
