"""Bundles: made once, kept by content, made anew where they are harmed. Workers are replaced by jobs done here."""

import errno
import gzip
import hashlib
import os
import threading
import time
from collections import Counter
from dataclasses import replace

import loops
import pytest

from app.parts.story import Story
from app.store import disk
from app.stories import STORIES
from app.web import bundles, making
from explainers.story import encoding, stage
from kernels.catalog import KERNELS
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import CacheError, RunCancelled, RunError, WorkerDied
from kernels.run import workers

MADE = Counter()  # what -> how often it was made


def make(what):
    MADE[what] += 1
    return stage.Stage(headline=f"{what}", frames=[], views=[])


def part(what):
    return [stage.text(f"a tab of {what}")]


@pytest.fixture(autouse=True)
def story(monkeypatch, cache):
    """A story whose stages are words."""
    MADE.clear()
    made = replace(STORIES["tiling"], path="words", title="Words", make=make, parts={"more": part})
    monkeypatch.setitem(STORIES, "words", made)
    monkeypatch.setattr(making, "PRUNES", 0.0)
    return made


def get(story: Story, what, tab="", who="", again=False):
    return bundles.get(story, what, "cpu", "a device", tab, again=again, who=who)


def until(true):
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def content(name):
    return encoding.decode(gzip.decompress(disk.read(name)))


def test_a_bundle_is_named_by_its_content_and_made_once(story, jobs):
    name = get(story, "one")
    assert name == hashlib.sha256(disk.read(name)).hexdigest()[:32] and content(name)["headline"] == "one"
    assert get(story, "one") == name and MADE["one"] == 1
    assert get(story, "two") != name and jobs.labels == ["Words", "Words"]
    bundles.forget()  # as another process
    assert get(story, "one") == name and MADE["one"] == 1


def test_a_tab_is_a_bundle_of_its_own(story, jobs):
    assert content(get(story, "one", "more")) == [{"kind": "text", "text": "a tab of one", "label": ""}]
    assert jobs.labels == ["Words: more"]


def test_many_who_ask_for_the_same_wait_for_one_job(story, jobs):
    jobs.held, found = True, []

    def ask():
        while isinstance(got := get(story, "one"), bundles.Waiting):
            time.sleep(0.01)
        found.append(got)

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    waiting = get(story, "one")
    assert isinstance(waiting, bundles.Waiting) and waiting.seconds > 0.1 and waiting.place == 0
    get(story, "two")
    jobs.let_go()
    for thread in threads:
        thread.join(20)
    assert len(found) == 20 and len(set(found)) == 1 and MADE["one"] == 1 and jobs.labels == ["Words", "Words"]


def test_many_threads_that_ask_for_different_things_all_get_theirs(story, jobs):
    """The place in the queue is counted while others come and go."""
    jobs.held, failures = True, []

    def ask(n):
        try:
            while isinstance(got := get(story, n), bundles.Waiting):
                pass
            assert content(got)["headline"] == str(n)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=ask, args=[n]) for n in range(40)]
    for thread in threads:
        thread.start()
    jobs.let_go()
    for thread in threads:
        thread.join(60)
    assert not failures and len(MADE) == 40


@pytest.mark.parametrize(
    "harm",
    [lambda path: path.write_bytes(path.read_bytes()[:-3]), lambda path: path.unlink()],
    ids=["truncated", "gone"],
)
def test_a_harmed_bundle_is_not_served_and_is_made_again(story, jobs, cache, harm):
    name = get(story, "one")
    harm(cache / name)
    assert disk.read(name) is None
    assert get(story, "one") == name and content(name)["headline"] == "one" and MADE["one"] == 2


def test_the_least_recently_used_go_until_the_rest_fits(story, jobs, cache, monkeypatch):
    names = [get(story, n) for n in "abcd"]
    for age, name in enumerate(reversed(names)):
        os.utime(cache / name, (time.time() - 100 * age - 100,) * 2)
    disk.read(names[0])  # the oldest is used
    monkeypatch.setattr(disk, "KEPT_BYTES", 9 * disk.BLOCK)  # there will be five bundles and what they are of
    get(story, "e")
    assert [(cache / name).exists() for name in names] == [True, False, True, True]
    assert get(story, "b") == names[1] and MADE["b"] == 2


def test_what_says_of_which_request_a_bundle_is_is_bounded_too(story, jobs, cache, monkeypatch):
    monkeypatch.setattr(disk, "KEPT_BYTES", 8 * disk.BLOCK)
    for n in range(40):
        get(story, f"{n}")
    assert len(list((cache / "of").iterdir())) <= 8 and sum(p.is_file() for p in cache.rglob("*")) <= 8


def test_a_bundle_whose_file_is_gone_is_made_anew(story, jobs, cache, monkeypatch):
    def parted(what):
        MADE[what] += 1
        return [stage.download("Take it", disk.offer_file(b"rows", "rows.txt"), "rows.txt")]

    monkeypatch.setitem(STORIES, "words", with_file := replace(story, parts={"more": parted}))
    name = get(with_file, "one", "more")
    (file,) = (p for p in cache.iterdir() if p.is_file() and p.read_bytes() == b"rows")
    os.utime(file, (0, 0))
    assert get(with_file, "one", "more") == name and MADE["one"] == 1
    assert file.stat().st_mtime > 0  # as the bundle is used, so is its file
    file.unlink()
    assert get(with_file, "one", "more") == name and MADE["one"] == 2 and file.read_bytes() == b"rows"


def test_what_nobody_asks_for_again_is_not_held(story, jobs):
    jobs.held = True
    get(story, "one")
    jobs.let_go()
    until(lambda: all(making.job.done() for making in bundles._making.values()))
    jobs.held = False
    assert isinstance(get(story, "two"), str) and not bundles._making


def test_one_of_two_who_wait_does_not_stop_it_for_the_other(story, jobs, monkeypatch):
    jobs.held = True
    for who in ("ann", "ben"):
        waiting = get(story, "one", who=who)
    bundles.stop(waiting.key, "ann")
    assert isinstance(get(story, "one", who="ben"), bundles.Waiting)
    monkeypatch.setattr(bundles, "WAITS", 0.0)  # ann has left; ben is the last
    bundles.stop(waiting.key, "ben")
    with pytest.raises(RunCancelled):
        get(story, "one", who="ben")


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(bundles, "WAITS", 0.3)


def test_what_only_a_silent_page_waits_for_is_dropped_and_nobody_is_told(story, jobs, impatient):
    jobs.held = True
    for what in ("one", "two", "three"):
        get(story, what, who="ann")
    get(story, "two")  # the server itself: prepared ahead
    one, two, three = bundles._making.values()
    until(lambda: get(story, "three", who="ben") and one.job.done())
    assert not two.job.done() and not three.job.done() and set(three.asked) == {"ben"}
    jobs.held = False
    assert isinstance(get(story, "one", who="ann"), str)  # she is back: it is made anew
    jobs.let_go()
    until(lambda: not bundles._making)


def test_a_page_with_an_open_question_waits_however_long_it_takes(story, jobs, impatient):
    jobs.held = True
    key = get(story, "one", who="ann").key
    loops.run(bundles.settled(key, 4 * bundles.WAITS, "ann"))
    assert not bundles._making[key].job.done()
    until(lambda: not bundles._making)  # she never asked again
    jobs.let_go()


def test_who_has_left_with_its_event_loop_is_no_error_in_the_log(story, jobs, caplog):
    jobs.held = True
    loops.run(bundles.settled(get(story, "one").key, 0.01))
    jobs.let_go()
    until(lambda: not bundles._making)
    assert not caplog.records


def test_a_page_that_asks_for_something_else_drops_what_no_other_wants(story, jobs):
    jobs.held = True
    one, two = get(story, "one", who="ann"), get(story, "two", who="ann")
    get(story, "two", who="ben")
    job = bundles._making[one.key].job
    bundles.stop(one.key, "ann", forget=True)
    bundles.stop(two.key, "ann", forget=True)
    assert job.done() and set(bundles._making) == {two.key} and not bundles._making[two.key].job.done()
    assert isinstance(get(story, "one", who="ann"), bundles.Waiting)  # and is told nothing of a stop
    jobs.let_go()
    until(lambda: not bundles._making)


def test_what_another_host_made_is_sent_and_kept_here_too(story, jobs, cache, monkeypatch, tmp_path):
    there, data = tmp_path / "there", b"rows"

    def parted(what):
        return [stage.download("Take it", disk.offer_file(data, "rows.txt"), "rows.txt")]

    monkeypatch.setitem(STORIES, "words", with_file := replace(story, parts={"more": parted}))

    def submit(function, *args, **more):
        with monkeypatch.context() as elsewhere:
            elsewhere.setenv("WARPGLASS_CACHE", str(there))
            made = function(*args)
        assert not [p for p in cache.rglob("*") if p.is_file()]
        return jobs.submit(lambda: made, **more)

    monkeypatch.setattr(workers, "elsewhere", lambda: True)
    monkeypatch.setattr(workers, "submit", submit)
    name = get(with_file, "one", "more")
    assert content(name)[0]["label"] and data in [p.read_bytes() for p in cache.rglob("*") if p.is_file()]
    bundles.forget()
    monkeypatch.setattr(workers, "submit", None)
    assert get(with_file, "one", "more") == name  # found on disk


@pytest.mark.parametrize("made", [[], "name", ["../name"], [1], (["name"], ["text"]), ({}, []), None, ([], [], [])])
def test_what_is_no_bundles_name_is_told_and_kept_nowhere(story, jobs, cache, monkeypatch, made):
    """A kernel can write an answer of its own to its worker's socket."""
    monkeypatch.setattr(workers, "submit", lambda *_, **more: jobs.submit(lambda: made, **more))
    with pytest.raises(RunError, match="The worker sent"):
        get(story, "one")
    assert not [path for path in cache.rglob("*") if path.is_file()]


def test_a_new_recording_makes_bundles_anew(monkeypatch, tmp_path):
    monkeypatch.setattr(making, "RECORDINGS", tmp_path)
    (tmp_path / "times.csv").write_text("1")
    before = making._recorded(-1)
    assert making._recorded(-2) == before
    (tmp_path / "times.csv").write_text("22")
    assert making._recorded(-1) == making._recorded(-1) != before


def test_a_failure_is_told_to_all_and_tried_again_later(story, jobs, monkeypatch):
    jobs.error = WorkerDied("The worker process running Words died.")
    for _ in range(2):
        with pytest.raises(WorkerDied, match="running Words died"):
            get(story, "one")
    assert len(jobs.labels) == 1
    with pytest.raises(WorkerDied):  # who presses Run again does not wait
        get(story, "one", again=True)
    assert len(jobs.labels) == 2
    jobs.error = KeyError("m")  # a fault of ours
    monkeypatch.setattr(bundles, "FORGIVEN", 0.0)
    with pytest.raises(bundles.WarpglassError, match="KeyError: 'm'"):
        get(story, "one")
    jobs.error = None
    assert content(get(story, "one"))["headline"] == "one" and len(jobs.labels) == 4


def test_what_is_being_made_can_be_stopped_and_asked_for_again(story, jobs, monkeypatch):
    jobs.held = True
    waiting = get(story, "one")
    bundles.stop("no such key")
    bundles.stop(waiting.key)
    with pytest.raises(RunCancelled, match="Words was stopped"):
        get(story, "one")
    jobs.held = False
    monkeypatch.setattr(bundles, "FORGIVEN", 0.0)
    assert content(get(story, "one"))["headline"] == "one"


def test_a_key_says_everything_that_a_bundle_depends_on(monkeypatch):
    spec = KERNELS["03_flash"]
    first = Request(spec, spec.problem_type(), tuple(spec.settings().items()), Scope(), "cpu")
    source = replace(spec, files=((spec.files[0][0], spec.files[0][1] + "// a comment"), *spec.files[1:]))
    others = [
        replace(first, problem=spec.problem_type(seed=1)),
        replace(first, scope=Scope(1)),
        replace(first, backend="recorded"),
        replace(first, settings=tuple({**spec.settings(), "RESCALE": 0}.items())),
        replace(first, kernel=source),  # a comment is shown too
    ]
    found = [making.key_of("tiling", "", what, "a device") for what in (first, *others)]
    found += [making.key_of("tiling", "bytes", first, "a device"), making.key_of("tiling", "", first, "another")]
    found += [making.key_of("compare", "", first, "a device"), making.key_of("tiling", "", (first, 3), "a device")]
    monkeypatch.setattr(making, "_code", lambda: "other code")
    found.append(making.key_of("tiling", "", first, "a device"))
    assert len(set(found)) == len(found)
    monkeypatch.undo()
    assert making.key_of("tiling", "", replace(first), "a device") == found[0]


def test_a_full_disk_is_told_in_a_sentence_and_tried_again(story, jobs, cache, monkeypatch):
    def refused(**more):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(disk.tempfile, "mkstemp", refused)
        with pytest.raises(CacheError, match=f"{cache.parent} has no space left: free some, or set WARPGLASS_CACHE"):
            get(story, "one")
    monkeypatch.setattr(bundles, "FORGIVEN", 0.0)
    assert content(get(story, "one"))["headline"] == "one"


def test_all_pages_of_a_browser_take_one_turn_in_the_queue(story, jobs, monkeypatch):
    jobs.held, said, submit = True, [], jobs.submit

    def noted(function, *args, client, **more):
        said.append(("submit", client))
        job = submit(function, *args, **more)
        job.join = lambda client: said.append(("join", client))
        job.leave = lambda client: said.append(("leave", client))
        return job

    monkeypatch.setattr(workers, "submit", noted)
    keys = {get(story, "one", who=who).key for who in ("b/1", "b/2", "c/1")}
    for who in ("b/1", "c/1", "b/2"):
        bundles.stop(*keys, who, forget=True)
    assert said == [("submit", "b"), ("join", "b"), ("join", "b"), ("join", "c"), ("leave", "c"), ("leave", "b")]


def test_other_code_and_other_words_give_other_bundles(tmp_path, monkeypatch):
    monkeypatch.setattr(making, "ROOT", tmp_path)
    (tmp_path / "explainers").mkdir()
    found = set()
    for name, text in (("story.py", "a = 1"), ("story.py", "a = 2"), ("words.toml", "a = 1"), ("words.toml", "a = 2")):
        (tmp_path / "explainers" / name).write_text(text)
        found.add(making._code.__wrapped__())
    assert len(found) == 4
