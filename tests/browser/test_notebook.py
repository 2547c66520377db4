"""A story in a notebook: its frame steps in a sandbox, below a policy of the host, and asks for nothing. A live story
tells the notebook its step and what is pinned."""

import ast
from pathlib import Path

import pytest
from playwright.sync_api import expect

import warpglass
from app import one_page
from warpglass import notebook

# What a host passes on to a frame. VS Code's notebooks allow inline scripts, and neither blobs nor other addresses.
POLICY = "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data:"
HOST = (
    '<!doctype html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="%s"><h1>Notebook</h1>%s'
)


@pytest.fixture(scope="module")
def stories():
    """name -> Story: a picture on a canvas, and one by the charts' script."""
    run = warpglass.run("03_flash", backend="cpu", seq_len=64)
    return {
        "picture": run.story("online_softmax", step=2),
        "chart": notebook.Story(one_page.of_link("timing?step=1"), "timing", 1),
    }


@pytest.mark.parametrize(
    ("name", "picture", "policy"),
    [
        ("picture", ".picture canvas", "img-src *"),
        ("picture", ".picture canvas", POLICY),
        ("chart", ".chart svg, .chart canvas", POLICY),
    ],
    ids=["jupyter", "vs code", "chart"],
)
def test_a_storys_frame_steps_by_keyboard_after_a_click_and_asks_for_nothing(
    browser, stories, tmp_path, name, picture, policy
):
    file = tmp_path / "cell.html"
    file.write_text(HOST % (policy, stories[name]._repr_html_()))
    context = browser.new_context(viewport={"width": 1000, "height": 860}, offline=True)
    page, errors, asked = context.new_page(), [], []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    frame = page.frame_locator("iframe")
    sentence = frame.locator(".narration .sentence").first
    expect(frame.locator(picture).first).to_be_visible()
    before = sentence.inner_text()
    frame.locator("footer").click()
    page.keyboard.press("ArrowRight")
    expect(sentence).not_to_have_text(before)
    page.keyboard.press("ArrowLeft")
    expect(sentence).to_have_text(before)
    context.close()
    assert not errors
    assert asked == [file.as_uri()]


# What a notebook gives to a widget's script: a model and an element. Nothing of anywidget is needed.
WIDGET = """async ([script, html]) => {
  const made = await import(URL.createObjectURL(new Blob([script], { type: 'text/javascript' })));
  const values = { html, step: 2, pinned: {} }, heard = [];
  globalThis.model = { get: name => values[name], set: (name, value) => (values[name] = value), save_changes() {},
    on: (_, act) => heard.push(act), off: (_, act) => heard.splice(heard.indexOf(act), 1) };
  globalThis.python = step => { values.step = step; heard.forEach(act => act()); };
  globalThis.end = made.default.render({ model, el: document.body });
}"""


def script():
    """SCRIPT of warpglass/live.py, without its import of anywidget."""
    tree = ast.parse((Path(warpglass.__file__).parent / "live.py").read_text())
    (found,) = (node.value for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "SCRIPT")
    return ast.literal_eval(found)


def test_a_live_story_steps_with_its_notebook(browser, stories):
    context = browser.new_context(viewport={"width": 1000, "height": 860}, offline=True)
    page, errors = context.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.evaluate(WIDGET, [script(), stories["picture"].html])
    frame = page.frame_locator("iframe")
    sentence = frame.locator(".narration .sentence").first
    expect(frame.locator(".picture canvas").first).to_be_visible()
    second = sentence.inner_text()
    page.evaluate("python(7)")
    expect(sentence).not_to_have_text(second)
    frame.locator("footer").click()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("model.get('step') === 8")
    page.evaluate("python(2)")
    expect(sentence).to_have_text(second)
    frame.locator(".picture canvas").first.click(position={"x": 75, "y": 70})
    page.wait_for_function("model.get('pinned').thing?.kind === 'score'")
    assert page.evaluate("model.get('step')") == 2
    page.evaluate("end()")
    context.close()
    assert not errors
