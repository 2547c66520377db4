"""Kernels that are added, changed and removed while the app runs: the next request shows them."""

import shutil

import pytest
from dropped import ONE_KERNEL

from app.stories import STORIES
from app.web import asking, making
from explainers.story import encoding
from kernels import catalog, families
from kernels.run import workers

NAME = "one_kernel"
LINK = {"kernel": NAME, "backend": "cpu", "seq_len": "20", "num_heads": "1"}


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """An empty folder in which the catalogue looks for kernels."""
    monkeypatch.setattr(families, "__path__", [*families.__path__, str(tmp_path)])
    monkeypatch.setattr(catalog, "LOOK_AGAIN_S", 0)
    yield tmp_path
    monkeypatch.undo()
    catalog._last = None


def ask(path="tiling"):
    return asking.ask(STORIES[path], LINK, workers.survey())


def kernels(answer):
    (choice,) = [choice for choice in answer.choices if choice["name"] == "kernel"]
    return [option["value"] for option in choice["options"]]


def test_a_kernel_shows_on_the_next_request_after_it_is_added_changed_and_removed(folder):
    assert NAME not in kernels(ask()) and f"kernel is '{NAME}'" in ask().told[0]
    path = folder / f"{NAME}.cu"
    shutil.copy(ONE_KERNEL, path)
    added = ask()
    assert NAME in kernels(added) and not added.told and added.link["kernel"] == NAME
    assert NAME in kernels(ask("any_kernel")) and NAME in catalog.KERNELS
    path.write_text(path.read_text().replace("One of mine", "Another title"))
    changed = ask()
    assert "Another title" in changed.headline and changed.subject.kernel.title == "Another title"
    path.unlink()
    removed = ask()
    assert NAME not in kernels(removed) and removed.link["kernel"] != NAME and NAME not in catalog.KERNELS


def test_a_stage_of_an_older_text_is_not_shown_for_the_new_one(folder):
    path = folder / f"{NAME}.cu"
    shutil.copy(ONE_KERNEL, path)
    story, older = STORIES["tiling"], ask()
    key = making.key_of("tiling", "", older.subject, "a device")
    assert making.key_of("tiling", "", ask().subject, "a device") == key
    path.write_text(path.read_text() + "// a last line\n")
    newer = ask()
    assert making.key_of("tiling", "", newer.subject, "a device") != key
    codes = encoding.decode(encoding.encode(story.make(newer.subject)))["codes"]
    assert "// a last line" in str(codes)


def test_a_tab_with_other_kernels_follows_their_texts(folder):
    subject = asking.ask(STORIES["tiling"], {"kernel": "01_naive"}, workers.survey()).subject
    before = making.key_of("tiling", "bytes", subject, "a device")
    shutil.copy(ONE_KERNEL, folder / f"{NAME}.cu")
    assert making.key_of("tiling", "bytes", subject, "a device") != before


def test_a_file_that_is_no_kernel_is_a_fault_and_leaves_the_others(folder):
    (folder / "broken.cu").write_text("/* no front matter */")
    assert any("broken.cu" in fault for fault in catalog.current().faults) and "01_naive" in kernels(ask())
