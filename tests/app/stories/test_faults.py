"""Files that are harmed: a page leaves out what it cannot read, shows the rest, and says so."""

import json
from dataclasses import replace

import pytest
from pages import open_page, words

from app.stories import STORIES
from app.web import asking
from kernels.build import folders
from kernels.catalog import KERNELS
from kernels.core.remembered import recordings_changed
from kernels.errors import TraceError
from kernels.measure import hierarchy
from kernels.recordings import run_index, tables
from kernels.run import workers

TILES = (("BLOCK_Q", 16), ("BLOCK_KV", 16))
TORN = "/NVIDIA_Torn.csv is not a table of measurements"


def torn(kind):
    """A table of a GPU that cannot be read."""
    path = tables.path_of(kind, "NVIDIA Torn")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("# {")


def test_timing_shows_the_tables_that_can_be_read_and_names_the_other(times):
    torn("bench")
    page = open_page("timing")
    assert page.stage.frames and any(f"bench{TORN}" in said for said in page.stage.provenance["warnings"])


def test_the_levels_of_memory_are_shown_and_the_other_table_is_named(monkeypatch, tmp_path, fresh):
    table, where = tables.load(tables.path_of(hierarchy.HIERARCHY, hierarchy.devices()[0]))
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    tables.save(table, tables.path_of(hierarchy.HIERARCHY, "NVIDIA Good"), replace(where, device="NVIDIA Good"))
    torn(hierarchy.HIERARCHY)
    page = open_page("memory_hierarchy")
    assert "NVIDIA Good" in page.stage.provenance["said"]
    (said,) = page.stage.provenance["warnings"]
    assert said.startswith(f"hierarchy{TORN}")


def test_a_harmed_recording_is_no_choice_and_the_others_stay(recordings):
    for problem in (None, KERNELS["03_flash"].problem_type(seq_len=32)):
        recordings("03_flash", problem, TILES)
    bad, good = sorted(run_index.FOLDER.glob("*/*"))
    bad.write_bytes(b"{")
    recordings_changed()
    made = asking.ask(STORIES["tiling"], {"backend": "recorded"}, workers.survey())
    options = next(entry for entry in made.choices if entry["name"] == "recorded_problem")["options"]
    assert not made.error and [bool(o.get("why")) for o in options] == [False, True]
    assert bad.stem in options[1]["why"] and run_index.REMEDY in options[1]["why"]
    good.write_bytes(b"")  # after the index was read
    with pytest.raises(TraceError, match=f"{good.name} cannot be read"):
        open_page("tiling?backend=recorded").stage  # noqa: B018


def test_start_says_what_cannot_be_read_and_where_all_is_kept(monkeypatch, tmp_path, fresh):
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    torn("cycles")
    (tmp_path / "cache").write_text("")
    monkeypatch.setenv("WARPGLASS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(folders.SPARE, str(tmp_path / "spare"))
    folders.write(lambda folder: folder)
    said = words(open_page("start").stage.side)
    assert TORN in json.dumps(said) and f"{tmp_path / 'cache'} cannot exist, as a file is in its" in json.dumps(said)
