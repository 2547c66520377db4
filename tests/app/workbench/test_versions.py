"""The Workbench's two versions: the table of `report` for two drafts, in a worker and by the route."""

import json

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from app.stories.workbench import STARTER
from app.web import server
from app.workbench import drafts, versions
from kernels import jail
from kernels.core.sources import MOST_BYTES

pytestmark = pytest.mark.skipif(bool(jail.why_none()), reason=jail.why_none())
TEXT = STARTER.read_text()
WRONG = TEXT.replace("l += p;", "l += 2.0f * p;")
BROKEN = TEXT.replace("fmaxf(m_new", "fmaxg(m_new")
TITLES = ["Version 1", "Version 2"]


@pytest.fixture
def client():
    return TestClient(Starlette(routes=server.routes("")))


def compared(*texts):
    return versions.compared(texts, [drafts.name_of(text, "me") for text in texts], TITLES)


def row(said, what):
    (one,) = [row for row in said["rows"] if row["what"] == what]
    return one


def test_two_drafts_have_their_figures_their_first_difference_and_no_name_of_a_draft():
    said = compared(TEXT, WRONG)
    assert (row(said, "verdict")["before"], row(said, "verdict")["judged"]) == ("right", "worse")
    first = row(said, "first different value")
    line = 1 + TEXT[: TEXT.index("O[head + row")].count("\n")
    assert first["where"].startswith("o[0, 0, 0, 0]") and first["before"].endswith(f" (line {line})")
    assert float(first["after"].split()[0]) == pytest.approx(float(first["before"].split()[0]) / 2, rel=0.2)
    assert row(said, "local memory of a thread, bytes")["before"] == "1,168"
    assert row(said, "wavefronts of shared memory")["judged"] == ""
    assert said["reasons"][1] and "draft_" not in json.dumps(said)
    assert said["markdown"].startswith("# Version 1 and Version 2\n")


def test_a_draft_that_does_not_compile_or_is_refused_keeps_the_figures_of_the_other():
    said = compared(TEXT, BROKEN)
    assert row(said, "verdict")["after"] == "does not compile"
    line = 1 + TEXT[: TEXT.index("fmaxf(m_new")].count("\n")
    assert said["reasons"][1][0].startswith(f"Version 2 line {line}: 'fmaxg' was not declared")
    assert row(said, "wavefronts of shared memory")["before"] == "4,224"
    said = compared(TEXT.replace('"dense"', '"dens"'), BROKEN)
    assert [row(said, "verdict")[side] for side in ("before", "after")] == ["refused", "does not compile"]
    assert "Did you mean dense?" in said["reasons"][0][0]


def test_an_endless_version_leaves_time_for_the_other(monkeypatch):
    monkeypatch.setattr(versions, "SECONDS", 3.0)
    said = compared(TEXT.replace("m = m_new;", "for (;;) __syncwarp();", 1), TEXT)
    assert row(said, "verdict")["after"] == "right" and "limit" in said["reasons"][0][0]


def test_the_route_answers_with_the_table_and_refuses_what_is_none(client):
    def post(body):
        return client.post("/wg/workbench/versions?who=me", content=body)

    said = post(json.dumps({"texts": [TEXT, BROKEN], "titles": TITLES}))
    assert said.status_code == 200 and row(said.json(), "verdict")["after"] == "does not compile"
    refused = [b"", b"[]", b"null", b'{"texts": ["a"], "titles": ["b"]}', b'{"texts": [1, 2], "titles": ["a", "b"]}']
    refused.append(json.dumps({"texts": ["a", "b"], "titles": ["a", "b" * 61]}))
    for body in refused:
        said = post(body)
        assert said.status_code == 400 and "needs two texts and their titles" in said.json()["error"], body
    long = {"texts": ["x" * (MOST_BYTES + 1), "y"], "titles": TITLES}
    assert post(json.dumps(long)).status_code == 413
