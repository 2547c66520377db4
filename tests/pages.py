"""A page opened whole through AppTest: Python only, no JavaScript. Also a script: python tests/pages.py PAGE?NAME=VALUE
... prints, as JSON, what each page shows; it is run in a process of its own where WARPGLASS_KERNELS names folders with
kernels."""

import json
import sys
import time
from pathlib import Path

from streamlit.testing.v1 import AppTest

MAIN = str(Path(__file__).parents[1] / "app" / "main.py")


def open_page(page="stories/tiling.py", **params):
    """The AppTest of a page, its runs done."""
    at = AppTest.from_file(MAIN, default_timeout=120)
    for name, value in params.items():
        at.query_params[name] = value
    at.run()
    if page:
        at.switch_page(page).run()
    while "is running" in texts(at.info):  # a cold worker takes longer than the page's patience
        time.sleep(0.5)
        at.run()
    assert not at.exception, [e.value for e in at.exception]
    return at


def texts(elements):
    return " ".join(str(e.value) for e in elements)


def components(at):
    return len(at.get("bidi_component"))


def charts(at):
    return len(at.get("vega_lite_chart")) + len(at.get("arrow_vega_lite_chart"))


def parameter(at, name):
    """What the page's link says of a choice."""
    value = at.query_params[name]
    return value if isinstance(value, str) else value[0]


def widgets(at):
    """label -> value of every widget of the sidebar."""
    found = (*at.sidebar.selectbox, *at.sidebar.number_input, *at.sidebar.toggle, *at.sidebar.text_input)
    return {widget.label: widget.value for widget in found}


def shown(link):
    """What the page of a link such as tiling?kernel=01_naive shows."""
    page, _, query = link.partition("?")
    at = open_page(f"stories/{page}.py", **dict(part.split("=", 1) for part in query.split("&") if part))
    kernels = next((box.options for box in at.selectbox if box.label.startswith("Kernel")), [])
    expanders = [expander.label for expander in at.expander]
    return {
        "link": link,
        "kernels": [option.split(" ")[0] for option in kernels],
        "kernel": parameter(at, "kernel") if "kernel" in at.query_params else "",
        "components": components(at),
        "errors": texts(at.error),
        "warnings": texts(at.warning),
        "captions": texts(at.caption),
        "info": texts(at.info),
        "markdown": texts(at.markdown),
        "expanders": expanders,
        "widgets": {name: str(value) for name, value in widgets(at).items()},
    }


if __name__ == "__main__":
    sys.path.insert(0, str(Path(MAIN).parents[1]))
    print(json.dumps([shown(link) for link in sys.argv[1:]]))
