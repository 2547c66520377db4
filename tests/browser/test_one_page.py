"""One moment as one file: it steps from a disk, without a network, in both sizes, and asks for nothing."""

import pytest
from playwright.sync_api import expect

from app import one_page

SIZES = [{"width": 1280, "height": 720}, {"width": 390, "height": 844}]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "moment.html"
    path.write_text(one_page.of_link("online_softmax?kernel=03_flash&step=3"))
    return path


@pytest.mark.parametrize("size", SIZES, ids=["laptop", "phone"])
def test_a_file_steps_without_a_request_and_says_where_its_values_are_from(browser, file, size):
    context = browser.new_context(viewport=size, offline=True)
    opened, errors, asked = context.new_page(), [], []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("request", lambda request: asked.append(request.url))
    opened.goto(file.as_uri())
    sentence = opened.locator(".narration .sentence").first
    expect(sentence).to_be_visible()
    before = sentence.inner_text()
    opened.keyboard.press("ArrowRight")
    expect(sentence).not_to_have_text(before)
    expect(opened.locator("footer")).to_be_in_viewport(ratio=1)
    expect(opened.locator("footer")).to_contain_text("run on a CPU")
    assert opened.locator(".picture canvas").first.is_visible()
    context.close()
    assert not errors
    assert not [url for url in asked if not url.startswith(("file:", "blob:"))]
    assert file.stat().st_size < 1_000_000


def test_the_menu_saves_the_moment_that_is_shown(visit, tmp_path):
    page = visit("/tiling?kernel=02_tiled&step=3", viewport=SIZES[0])
    page.locator(".wg .toolbar .opens-menu").click()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as a page", exact=True).click()
    assert saved.value.suggested_filename == "warpglass-tiling-3.html"
    text = (tmp_path / "x.html", saved.value.save_as(tmp_path / "x.html"))[0].read_text()
    assert '"step": 2' in text and text.startswith("<!doctype html>")


def test_a_viewer_without_scripts_reads_the_moment(browser, file):
    context = browser.new_context(java_script_enabled=False)
    opened = context.new_page()
    opened.goto(file.as_uri())
    expect(opened.get_by_text("Step 3 of 25. Tile 0 · Rescale: Nothing came before")).to_be_visible()
    expect(opened.get_by_role("row", name="running max m 1.60657")).to_be_visible()
    context.close()


@pytest.mark.parametrize(
    ("link", "said"),
    [("nothing", "is no page with a picture"), ("tiling?step=x", "step is 'x'"), ("tiling?kernel=none", "none")],
)
def test_a_wrong_link_is_a_sentence(link, said, tmp_path, capsys):
    assert one_page.main([link, str(tmp_path / "x.html")]) == 2
    assert said in capsys.readouterr().err
