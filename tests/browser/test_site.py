"""The site without a server, on a plain server of files below a path, with and without a network."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
from browser.conftest import shown
from browser.stepping import address, choose, press, step_of
from playwright.sync_api import expect

from app import export

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The start page and the stop Where bytes live, below a path."""
    top = tmp_path_factory.mktemp("site")
    made = subprocess.run(
        [sys.executable, "-m", "app.export", str(top / "a" / "path"), "--only", "levels"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    assert "2 pages" in made.stdout
    return top


def test_a_link_opens_a_stop_which_steps_and_leads_on(site, page):
    url, _ = site
    sent = []
    page.on("response", lambda answer: answer.url.startswith("http") and sent.append(answer))
    page.goto(f"{url}/")
    page.wait_for_selector(".wg .start [data-alive]")
    page.locator('.wg nav .stops [data-stop="levels"]').click()
    shown(page, "memory_hierarchy")
    assert {answer.status for answer in sent} == {200}
    assert 300_000 < sum(int(answer.headers["content-length"]) for answer in sent) < 1_200_000
    press(page, "ArrowRight")
    page.wait_for_url("**&step=2&**")  # once the reader has come to rest
    page.reload()  # the server leads to the folder's address, with a slash at the end
    shown(page, "memory_hierarchy")
    assert step_of(page) == 1
    page.go_back()
    page.wait_for_selector(".wg .start:not([hidden])")


def test_a_menu_offers_what_is_exported_and_a_link_to_more_says_how_to_have_it(site, page, folder):
    url, _ = site
    asked = json.loads(gzip.decompress((folder / "a/path/asked/memory_hierarchy.gz").read_bytes()))
    (name, moves), *_ = asked["moves"]["0"].items()
    (at,) = (choice["value"] for choice in asked["entries"][0]["choices"] if choice["name"] == name)
    page.goto(f"{url}/memory_hierarchy/?stop=levels&depth=everything&{name}=nothing")
    first = shown(page, "memory_hierarchy")
    expect(page.locator(".wg .messages")).to_contain_text(f"{name} = nothing is not on this site, which shows {at}.")
    other = next(iter(moves))
    choose(page, name, other)
    assert shown(page, "memory_hierarchy", first) == asked["entries"][moves[other]]["bundle"]
    assert address(page)[name] == other


def test_a_link_to_a_page_that_needs_a_server_says_so(site, page):
    url, _ = site
    page.goto(f"{url}/memory_hierarchy/?stop=levels")
    shown(page, "memory_hierarchy")
    page.evaluate("document.querySelector('.wg').stage.host.open('workbench', { exercise: 'masked_tile' })")
    expect(page.locator(".wg .messages")).to_contain_text("no page named workbench, which may need a server.")
    expect(page.locator(".wg .messages")).to_contain_text("python -m app")
    assert step_of(page) == 0
    page.goto(f"{url}/start/")  # an address of the app
    page.wait_for_selector(".wg .start [data-alive]")
    assert page.url == f"{url}/"


def test_a_visited_site_opens_without_a_network(site, page):
    url, end = site
    page.goto(f"{url}/")
    page.wait_for_selector(".wg .start [data-alive]")
    page.wait_for_function("navigator.serviceWorker.controller !== null", timeout=20_000)
    end()
    page.reload()
    page.wait_for_selector(".wg .start [data-alive]")
    for address_of in ("memory_hierarchy/", "memory_hierarchy"):  # a server of files adds the slash
        page.goto(f"{url}/{address_of}?stop=levels")
        shown(page, "memory_hierarchy")
        press(page, "ArrowRight")
        assert step_of(page) == 1


def test_a_link_to_a_page_shows_its_own_title_sentence_and_picture(folder):
    said = (folder / "a/path/memory_hierarchy/index.html").read_text()
    assert '<meta property="og:title" content="Where bytes live - Warpglass">' in said
    picture = said.partition('og:image" content="')[2].partition('"')[0]
    assert picture == "../shared/memory_hierarchy.png"
    assert (folder / "a/path/memory_hierarchy" / picture).resolve().read_bytes()[:4] == b"\x89PNG"
    whole = export.page_of("start", "https://a.b/c")
    assert 'og:image" content="https://a.b/c/shared/start.png"' in whole
