"""The catalogue: a snapshot of folders, which follows their files while the program runs."""

import subprocess
import sys

import pytest
from dropped import ONE_KERNEL

from kernels import catalog
from kernels.catalog import KERNELS, Catalog, current, refreshed
from kernels.errors import ProblemError


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(catalog.families, "__path__", [*catalog.families.__path__, str(tmp_path)])
    return tmp_path


def test_importing_every_page_reads_no_kernel():
    code = (
        "from kernels import catalog\n"
        "def read(before): raise AssertionError('the catalogue is read at import')\n"
        "catalog.refreshed = read\n"
        "import app.stories, app.web.server, kernels.__main__"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_kernel_is_added_changed_and_removed_while_the_program_runs(folder):
    before = refreshed(None)
    file = folder / "mine.cu"
    file.write_text(ONE_KERNEL.read_text())
    added = refreshed(before)
    assert {*added.kernels} - {*before.kernels} == {"mine"}
    file.write_text(ONE_KERNEL.read_text().replace("One of mine", "Another title"))
    changed = refreshed(added)
    assert (added.kernels["mine"].title, changed.kernels["mine"].title) == ("One of mine", "Another title")
    file.unlink()
    assert list(refreshed(changed).kernels) == list(before.kernels)


def test_an_unchanged_folder_gives_the_same_snapshot_and_a_mended_file_is_no_fault(folder):
    before = refreshed(None)
    assert refreshed(before) is before
    (folder / "mine.cu").write_text(ONE_KERNEL.read_text())
    after = refreshed(before)
    assert all(after.kernels[name] is spec for name, spec in before.kernels.items())
    (folder / "mine.cu").write_text("no kernel")
    broken = refreshed(None)
    with pytest.raises(ProblemError, match="mine has a fault"):
        broken.find("mine")
    (folder / "mine.cu").write_text(ONE_KERNEL.read_text())
    mended = refreshed(broken)
    assert len(broken.faults) == 1 and not mended.faults and mended.find("mine").name == "mine"


def test_the_current_catalogue_looks_again_after_a_while(folder, monkeypatch):
    monkeypatch.setattr(catalog, "_last", None)
    first = current()
    (folder / "mine.cu").write_text(ONE_KERNEL.read_text())
    assert current() is first
    monkeypatch.setattr(catalog, "LOOK_AGAIN_S", -1.0)
    assert "mine" in current().kernels


def test_kernels_are_found_by_family_by_problem_and_by_their_use_of_a_cache():
    families = list(dict.fromkeys(spec.family for spec in current().kernels.values()))
    assert families[0] == "dense" and families[families.index("tensor_cores") + 1] == "backward"
    found = current()
    dense = found.of_family("dense")
    kind = KERNELS["03_flash"].problem_type
    assert dense and {spec.family for spec in dense.values()} == {"dense"}
    assert set(found.of_problem(kind)) <= set(dense)
    assert [spec.problem_type.cache_use.does for spec in found.using_cache("write").values()] == ["write"]
    assert Catalog({}).using_cache("write") == {}
