"""The stage without the app: core and views joined in one file, and a page that is no app mounts it."""

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from app.stories import STORIES
from app.web import asking, modules
from app.web.modules import joined
from explainers.story import encoding
from kernels.run import workers

HTML = "<link rel=stylesheet href=/stage.css><main style='height:100vh'></main>"
MOUNT = """async ([step, picture]) => {
  const { mount } = await import('/stage.js');
  window.moves = [];
  window.stage = mount(document.querySelector('main'), {
    state: { bundle: 'tiling', step, picture },
    bundle: async name => (await fetch(`/${name}`)).arrayBuffer(),
    onState: state => window.moves.push(state),
  });
}"""


@pytest.fixture(scope="module")
def module():
    """The stage as one file, made of the files that the server serves."""
    found = modules.modules().items()
    texts = {name: text for name, text in found if name.startswith(("core/", "views/")) and name.endswith(".js")}
    return joined("stage.js", "core/mount.js", texts)["stage.js"]


@pytest.fixture(scope="module")
def made():
    story = STORIES["tiling"]
    return story.make(asking.ask(story, {}, workers.survey()).subject)


@pytest.fixture
def page(browser, module, made):
    served = {
        "/": (HTML, "text/html"),
        "/stage.js": (module, "text/javascript"),
        "/stage.css": (modules.modules()["core/stage.css"], "text/css"),
        "/tiling": (encoding.encode(made), "application/octet-stream"),
    }
    errors = []

    def serve(route):
        body, kind = served.get(urlsplit(route.request.url).path, ("", ""))
        route.fulfill(body=body, content_type=kind) if kind else route.fulfill(status=404)

    opened = browser.new_page(viewport={"width": 1400, "height": 900})
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.route("http://stage.test/**", serve)
    opened.goto("http://stage.test/")
    yield opened
    opened.close()
    assert not errors


def test_one_module_holds_core_and_views_and_nothing_of_the_app(module):
    assert "canvasView" in module and "wg/ask" not in module
    assert "localStorage" not in module and "history.pushState" not in module


def test_a_host_gives_bytes_and_the_first_moment(page, made):
    view = next(view for view in reversed(made.views) if "frames" not in view.meta)  # it follows the stage's steps
    page.evaluate(MOUNT, [2, view.id])
    expect(page.locator(".picture canvas").first).to_be_visible()
    expect(page.locator(".narration .sentence").first).to_have_text(made.frames[2]["sentence"])
    assert page.evaluate("window.stage.clock.step") == 2
    assert view != made.views[0] and page.evaluate("window.stage.state.picture") == view.id
    assert page.locator(".code .row.lit").count()


def test_the_host_hears_where_the_reader_goes(page, made):
    page.evaluate(MOUNT, [0, ""])
    expect(page.locator(".narration .sentence").first).to_have_text(made.frames[0]["sentence"])
    page.keyboard.press("ArrowRight")
    page.wait_for_function("window.moves.at(-1)?.step === 1")
    expect(page.locator(".narration .sentence").first).to_have_text(made.frames[1]["sentence"])
    page.locator(".pictures .chip").last.click()
    assert page.evaluate("window.moves.at(-1).picture") == made.views[-1].id


def test_nothing_stays_of_an_unmounted_stage(page):
    page.evaluate(MOUNT, [0, ""])
    expect(page.locator(".picture canvas").first).to_be_visible()
    page.evaluate("window.stage.unmount()")
    assert page.evaluate("document.querySelector('main').childElementCount") == 0
    page.keyboard.press("ArrowRight")
    assert page.evaluate("window.stage.clock.step") == 0
