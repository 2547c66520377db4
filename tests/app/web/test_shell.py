"""What Streamlit itself draws: the one component, on every page. The rest is the browser's."""

import json

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from app.stories import STORIES
from app.web import modules, server

PAGE = modules.STAGE.parent / "page.py"


@pytest.mark.parametrize("path", ("start", "tiling", "workbench"))  # tests/browser/test_stage.py opens each
def test_every_page_is_the_one_stage(path):
    at = AppTest.from_file(str(PAGE), default_timeout=60)
    at._page_hash = "" if path == "start" else calc_hash(path)
    at.query_params["seq_len"] = "3"
    at.run()
    assert not at.exception
    (stage,) = at.get("bidi_component")
    data = json.loads(stage.proto.json)
    assert data["version"] == modules.version() and data["base"] == ""
    assert [stop["path"] for stop in data["rail"]] == list(STORIES)


def test_the_page_of_every_story_is_served_with_our_frame_before_anything_is_drawn(tmp_path):
    from starlette.applications import Starlette
    from starlette.testclient import TestClient

    (tmp_path / "index.html").write_text("<html><head><title>x</title></head><body></body></html>")
    client = TestClient(Starlette(routes=server.pages(tmp_path / "index.html", "")))
    for path in STORIES:
        got = client.get("/" if path == "start" else f"/{path}")
        assert modules.modules()["shell/frame.css"] in got.text and got.headers["cache-control"] == "no-cache"
        assert f'href="./wg/{modules.version()}/{modules.ENTRY}"' in got.text and got.text.count("</head>") == 1
    unknown = client.get("/nowhere", follow_redirects=False)
    assert unknown.status_code == 303 and unknown.headers["location"] == "/?nopage=nowhere"
