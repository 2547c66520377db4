"""A sequence is made on any page, ordered, noted, carried as a file and played by clicker; all of one small run."""

import json
from urllib.parse import parse_qsl

import pytest
from browser.conftest import shown
from browser.stepping import address, choose, go_to, press, rail, step_of
from playwright.sync_api import expect

SMALL = "kernel=03_flash&seq_len=32&head_dim=32&backend=cpu"
EVIL = "<img src=x onerror=alert(1)>"
STORED = "JSON.parse(localStorage.getItem('warpglass-sequences')) ?? []"


def panel(page):
    return page.get_by_role("dialog", name="Sequence", exact=True)


def open_panel(page):
    page.get_by_role("button", name="Menu", exact=True).click()
    page.locator(".menu").get_by_role("button", name="Sequence", exact=True).click()
    expect(panel(page)).to_be_visible()


def add(page):
    panel(page).get_by_role("button", name="Add this moment").click()


def titles(page):
    return page.locator(".wg .moments .to-moment b").all_inner_texts()


def told(page):
    return panel(page).locator(".told").inner_text()


def place(page):
    return page.locator(".wg .player .place").inner_text()


def given(moments, **changes):
    return {"format": "warpglass-sequence", "version": 1, "title": "Given", "minutes": 2, "moments": moments} | changes


def load(page, text, name="given.json"):
    text = text if isinstance(text, str) else json.dumps(text)
    page.locator(".wg [data-name=file]").set_input_files(
        {"name": name, "mimeType": "application/json", "buffer": text.encode()}
    )


def test_a_sequence_is_made_ordered_noted_and_carried_as_a_file(visit):
    page = visit(f"/tiling?{SMALL}&step=2")
    open_panel(page)
    add(page)
    rail(page, "online_softmax")
    go_to(page, 7)
    add(page)
    rail(page, "registers")
    add(page)
    first, second, third = titles(page)
    assert first == "Tiles: Tile 0 · Load tile" and second == "One pass: Tile 1 · Max"
    assert third.startswith("In registers: ") and told(page) == f"Added to My sequence: {third}."
    links = [moment["link"] for moment in page.evaluate(STORED)[0]["moments"]]
    assert [link.split("?")[0] for link in links] == ["tiling", "online_softmax", "registers"]
    assert dict(parse_qsl(links[1].split("?")[1]))["step"] == "8" and "seq_len=32" in links[1]

    panel(page).get_by_role("button", name="Move moment 3 up").click()
    assert titles(page) == [first, third, second]
    expect(panel(page).get_by_role("button", name="Move moment 2 up")).to_be_focused()
    page.keyboard.press("Alt+ArrowUp")
    assert titles(page) == [third, first, second] and told(page) == "Moment 2 is now 1."
    panel(page).get_by_role("button", name="Edit moment 2").click()
    page.get_by_label("Note", exact=True).fill("Say this.\nThen that.")
    page.get_by_label("Title", exact=True).fill(EVIL)
    page.get_by_label("More steps").fill("2")
    page.get_by_label("Minutes").fill("-3")
    page.get_by_label("More steps").focus()
    assert told(page) == "minutes is -3; it must be a number from 0 to 240."
    page.get_by_label("Title", exact=True).press("Alt+ArrowUp")  # its fields go along, and say nothing of another
    assert titles(page) == [EVIL, third, second] and page.get_by_label("Note", exact=True).input_value().startswith(
        "Say"
    )
    panel(page).get_by_role("button", name="Move moment 1 down").click()
    panel(page).get_by_role("button", name="Remove moment 1").click()
    assert titles(page) == [EVIL, second] and not page.locator(".wg .sequences img").count()
    page.get_by_label("Name of the sequence").fill("My talk")
    page.get_by_label("Name of the sequence").press("Enter")

    with page.expect_download() as download:
        panel(page).get_by_role("button", name="Export").click()
    assert download.value.suggested_filename == "My_talk.json"
    kept = json.loads(download.value.path().read_text())
    assert (
        kept["title"] == "My talk" and kept["minutes"] == 2 and [m.get("steps") for m in kept["moments"]] == [2, None]
    )
    assert kept["moments"][0]["note"] == "Say this.\nThen that."
    erase = panel(page).get_by_role("button", name="Delete")
    erase.click()
    assert len(page.evaluate(STORED)) == 1 and erase.inner_text() == "Delete My talk: press again"
    erase.click()
    assert page.evaluate(STORED) == [] and told(page) == "My talk was deleted."
    load(page, kept)
    expect(panel(page).locator(".told")).to_have_text("Imported My talk: 2 moments.")
    assert page.evaluate(STORED)[0]["moments"] == [{"steps": 0} | m if m.get("steps") else m for m in kept["moments"]]

    # what is not taken changes nothing
    bad = [
        ("{", "given.json was not imported: it is no JSON"),
        (given([], format="other"), 'its format is "other"; it must be "warpglass-sequence".'),
        (given([], version=2), "its version is 2; this Warpglass reads version 1."),
        (given([{"link": "https://elsewhere.example/?a=1"}]), "which is no page of Warpglass"),
        (given([{"link": "javascript:alert(1)"}]), "moment 1: a link is"),
        (given([{"link": "tiling?step=1", "note": 5}]), "moment 1: its note is 5; it must be a text."),
        (given([{"link": "tiling?step=1", "steps": 1.5}]), "its steps is 1.5; it must be a whole number from 0 to"),
        (given([{"link": "tiling?step=1"}] * 201), "it has 201 moments; at most 200 are taken."),
        ("x" * (2**19 + 1), "it has 524,289 bytes; at most 524,288 are read."),
    ]
    for text, why in bad:
        load(page, text)
        expect(panel(page).locator(".told")).to_contain_text(why)
    assert [one["title"] for one in page.evaluate(STORED)] == ["My talk"]
    page.keyboard.press("Escape")
    expect(page.locator(".wg .head .opens-menu[aria-haspopup]")).to_be_focused()


def test_a_browser_that_keeps_nothing_says_so(visit):
    page = visit("/memory_hierarchy")
    open_panel(page)
    faults = {"QuotaExceededError": "is full", "SecurityError": "forbids this site to keep anything"}
    for fault, why in faults.items():
        page.evaluate("fault => { Storage.prototype.setItem = () => { throw new DOMException('no', fault); }; }", fault)
        add(page)
        assert why in told(page) and "Export it as a file." in told(page)
    assert len(titles(page)) == 2  # it lasts as long as the page


@pytest.mark.slow
def test_a_sequence_is_played_by_clicker_and_one_finds_back_to_it(visit):
    page = visit(f"/tiling?{SMALL}")
    open_panel(page)
    moments = [
        {"link": f"tiling?{SMALL}&step=2", "title": "Load", "note": f"First {EVIL}", "steps": 2, "minutes": 1.5},
        {"link": f"tiling?{SMALL}&step=8", "title": "Again", "note": "Second"},
        {"link": f"online_softmax?{SMALL}&step=8", "title": "Max", "note": "Third", "minutes": 0.5},
    ]
    load(page, given(moments, minutes=3))
    expect(panel(page).locator(".plan")).to_have_text("3 moments, 3 minutes planned.")
    panel(page).get_by_role("button", name="Play", exact=True).click()
    player = page.locator(".wg .player")
    expect(player.locator(".place")).to_have_text("1 of 3, step 1 of 3")
    assert not panel(page).is_visible() and not page.locator(".wg .guide:not([hidden])").count()
    assert page.evaluate("document.querySelector('.wg').classList.contains('presenting')")  # Play presents
    press(page, "p")
    assert "First" not in page.locator(".wg").inner_text()  # the notes are never on the page
    assert "planned 0:00 to 1:30 of 3:00" in player.locator("output").inner_text()

    with page.expect_popup() as popup:
        player.get_by_role("button", name="Notes", exact=True).click()
    notes = popup.value
    assert notes.locator("p").first.inner_text() == "1 of 3, step 1 of 3"
    assert (
        notes.locator("p").nth(1).inner_text() == f"First {EVIL}"
        and "Next: Again" in notes.locator("body").inner_text()
    )
    press(page, "PageDown", "PageDown")
    assert step_of(page) == 3 and place(page) == "1 of 3, step 3 of 3"
    asked = []
    page.on("request", lambda request: asked.append(request.url) if "/wg/ask/tiling" in request.url else None)
    notes.keyboard.press("PageDown")  # the same run: another step of it
    expect(player.locator(".place")).to_have_text("2 of 3")
    assert step_of(page) == 7 and not asked and notes.locator("h1").inner_text() == "Again"
    press(page, "PageDown")
    shown(page, "online_softmax")
    expect(player.locator(".place")).to_have_text("3 of 3")
    assert step_of(page) == 7 and address(page)["step"] == "8"
    press(page, "PageDown")
    assert place(page) == "3 of 3"  # the last

    # elsewhere by hand, and back by the next press or by the button
    back = player.get_by_role("button", name="Back to the talk")
    assert not back.is_visible()
    choose(page, "what_if", "RESCALE")
    expect(back).to_be_visible()
    press(page, "PageUp")
    expect(back).to_be_hidden()
    shown(page, "online_softmax")
    assert address(page)["what_if"] == "none" and step_of(page) == 7
    page.reload(wait_until="commit")
    shown(page, "online_softmax")
    expect(player.locator(".name")).to_have_text("Max")
    assert notes.is_closed()
    press(page, "PageUp")
    shown(page, "tiling")
    expect(player.locator(".place")).to_have_text("2 of 3")
    press(page, "PageUp")
    expect(player.locator(".place")).to_have_text("1 of 3, step 3 of 3")  # where one came from
    player.get_by_role("button", name="Stop").click()
    expect(player).to_be_hidden()
    press(page, "PageDown")
    page.reload(wait_until="commit")
    shown(page, "tiling")
    expect(player).to_be_hidden()


def test_the_talks_that_come_with_the_app_are_found_at_the_start_and_can_be_made_ones_own(visit):
    page = visit("/?backend=cpu")
    talk = page.locator(".wg [data-talk=paging]")
    expect(talk).to_contain_text("20 minutes")
    talk.get_by_role("button", name="Look at the notes").click()
    assert titles(page)[0] == "A cache that grows" and not panel(page).get_by_role("button", name="Delete").is_visible()
    panel(page).get_by_role("button", name="Copy to edit").click()
    assert panel(page).get_by_role("button", name="Edit moment 21").is_visible()
    panel(page).get_by_role("button", name="Play", exact=True).click()
    shown(page, "block_table")
    with page.expect_popup() as popup:
        page.locator(".wg .slim").get_by_role("button", name="Notes", exact=True).click()
    assert popup.value.locator("p").first.inner_text() == "1 of 21, step 1 of 2"
    assert page.evaluate("document.querySelector('.wg').classList.contains('presenting')")
    press(page, "p")
    expect(page.locator(".wg .player .place")).to_have_text("1 of 21, step 1 of 2")
    assert step_of(page) == 1


def test_a_sequence_of_another_version_stays_for_the_version_that_reads_it(visit):
    page = visit(f"/tiling?{SMALL}")
    other = {"id": "other", "format": "warpglass-sequence", "version": 99, "title": "Later", "scenes": [1, 2]}
    page.evaluate("kept => localStorage.setItem('warpglass-sequences', JSON.stringify(kept))", [other])
    open_panel(page)
    add(page)
    mine, kept = page.evaluate(STORED)
    assert mine["title"] == "My sequence" and kept == other
    panel(page).get_by_role("button", name="Delete").click()
    panel(page).get_by_role("button", name="Delete").click()
    assert page.evaluate(STORED) == [other]
