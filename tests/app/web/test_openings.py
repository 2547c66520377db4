"""The route that opens another profiler's file, and the pages that show it: each bad file gets a sentence."""

import profiler_files as files
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from app.stories import STORIES
from app.web import asking, openings, server
from kernels.catalog import KERNELS
from kernels.measure.elsewhere import packed
from kernels.run import backends

SURVEY = backends.survey()
HERE = {"origin": "http://testserver"}
NAME, TEXT = KERNELS["03_flash"].files[0]
LINE = next(n for n, line in enumerate(TEXT.split("\n"), 1) if line.strip().endswith(";"))
REPORT = files.ncu(f"/tmp/{NAME}", [(LINE, TEXT.split("\n")[LINE - 1], [(0x100, "LDS R4, [R2]", {"wait": 4})])])


@pytest.fixture(scope="module")
def client():
    return TestClient(Starlette(routes=server.routes("")))


def opened(client, kind, data, file="mine", headers=HERE):
    answer = client.post(f"/wg/open/{kind}", params={"file": file}, content=data, headers=headers)
    return answer.status_code, answer.json()


def test_a_trace_that_is_sent_is_shown_by_its_link(client):
    status, said = opened(client, "trace", files.iket(), "gemm.trace.json")
    assert status == 200 and set(said) == {"name"}
    story = STORIES["pipeline"]
    made = asking.ask(story, {"trace_file": said["name"], "trace_block": "1"}, SURVEY)
    assert not made.told and not made.error and made.link["trace_file"] == said["name"]
    assert made.subject.theirs.file == "gemm.trace.json" and made.subject.theirs.number == 1
    entries = {entry["name"]: entry for entry in made.choices}
    assert (entries["trace_file"]["kind"], entries["trace_file"]["file"]) == ("file", "gemm.trace.json")
    assert entries["trace_block"]["high"] == 1
    again = opened(client, "trace", files.iket(), "gemm.trace.json")
    assert again == (200, said)  # the name is of the content
    closed = asking.ask(story, made.link, SURVEY, ("trace_file", ""))
    assert closed.subject.theirs is None and "trace_file" not in closed.link and closed.link["trace_block"] == "0"
    other = asking.ask(story, made.link, SURVEY, ("trace_block", "2"))
    assert other.subject.theirs.number == 0
    assert "trace_block is 2. The opened file has blocks 0 to 1." in other.told


def test_a_report_that_is_sent_is_shown_by_its_link(client):
    status, said = opened(client, "stalls", REPORT, "report.csv")
    assert status == 200
    made = asking.ask(STORIES["source"], {"kernel": "03_flash", "stall_file": said["name"]}, SURVEY)
    assert not made.told and made.subject.stalls.file == "report.csv" and made.subject.stalls.total == 4
    wrong = asking.ask(STORIES["pipeline"], {"trace_file": said["name"]}, SURVEY)
    assert wrong.subject.theirs is None
    assert any("report.csv is for the page Source. Open a trace here." in sentence for sentence in wrong.told)


@pytest.mark.parametrize("story", ["pipeline", "source"])
@pytest.mark.parametrize(
    ("name", "said"),
    [("0" * 32, "The file of this link is not kept on this server any more. Open it again."),
     ("../../etc", "'../../etc' names no opened file. Open a file.")],
)  # fmt: skip
def test_a_link_to_a_file_that_is_gone_shows_the_page_without_it(story, name, said):
    choice = "trace_file" if story == "pipeline" else "stall_file"
    made = asking.ask(STORIES[story], {choice: name}, SURVEY)
    assert not made.error and any(said in sentence for sentence in made.told), made.told
    assert choice not in made.link


def test_bytes_of_the_store_that_are_no_opened_file_are_refused(client):
    from app.store import disk

    made = asking.ask(STORIES["pipeline"], {"trace_file": disk.keep(b"a bundle")}, SURVEY)
    assert any("The link names no opened file." in sentence for sentence in made.told)


def test_a_bad_file_gets_its_sentence_and_another_site_or_kind_is_refused(client, monkeypatch):
    assert opened(client, "trace", b"GIF89a", "cat.gif") == (
        400,
        {
            "error": "cat.gif starts with b'GIF89a'. Open JSON of IKET, a trace of Perfetto (FlashInfer's profiler, "
            "IKET), JSON trace events, or .nanotrace."
        },
    )
    assert opened(client, "stalls", b"", "")[1] == {"error": "the file is empty. Write it again with the profiler."}
    assert opened(client, "pickle", b"x") == (
        404,
        {"error": "A file is opened as a trace or as stalls. Reload the page."},
    )
    status, said = opened(client, "trace", files.iket(), headers={"origin": "http://elsewhere"})
    assert status == 403 and "another site" in said["error"]
    monkeypatch.setattr(openings, "MOST_BYTES", 10)
    status, said = opened(client, "trace", files.iket())
    assert status == 413 and "is larger than" in said["error"]
    monkeypatch.setattr(openings, "MOST_OPEN", 0)
    assert opened(client, "trace", files.iket()) == (429, {"error": "0 files are being opened. Try again in a moment."})


def test_an_answer_of_a_worker_that_is_no_record_is_refused(client, monkeypatch):
    monkeypatch.setattr(packed, "MAGIC", b"another")
    status, said = opened(client, "trace", files.iket())
    assert status == 400 and said["error"].startswith("The worker sent b'warpglass elsewhere 1")
