"""Recordings of an earlier source whose machine code is that of the present one."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from kernels.catalog import KERNELS
from kernels.core.remembered import recordings_changed
from kernels.core.request import Request
from kernels.recordings import run_index, same_code, tables
from kernels.run import execute
from kernels.run.backends import recorded
from kernels.trace.probes import sites_of

NAME = "03_flash"


@pytest.fixture
def changes(tmp_path, monkeypatch):
    """write(entries): puts them into same_code.json. Recordings are looked for in an empty folder."""
    monkeypatch.setattr(same_code, "FILE", tmp_path / "same_code.json")
    monkeypatch.setattr(run_index, "FOLDER", tmp_path / "runs")
    recordings_changed()

    def write(entries):
        (tmp_path / "same_code.json").write_text(json.dumps(entries))
        recordings_changed()

    yield write
    recordings_changed()


def test_a_code_without_an_entry_is_itself(changes):
    assert same_code.present("abc") == "abc" and same_code.probes_now("abc", 3) == [0, 1, 2]


def test_entries_chain_and_their_probes_too(changes):
    changes({"a": {"now": "b", "probes": [1, 0, 2]}, "b": {"now": "c", "probes": [2, 1, 0]}})
    assert same_code.present("a") == "c"
    assert same_code.probes_now("a", 3) == [1, 2, 0]


def test_a_probe_that_is_gone_has_no_number(changes):
    changes({"a": {"now": "b", "probes": [0, 2]}})
    assert same_code.probes_now("a", 3) == [0, -1, 1]


def test_each_entry_of_ours_names_a_kernel_its_present_code_and_its_probes():
    """Only the codes of the last change are today's; an earlier entry leads to one of them."""
    entries = json.loads(same_code.FILE.read_text())
    for measured, entry in entries.items():
        spec = KERNELS[entry["kernel"]]
        assert same_code.present(measured) == spec.code_hash and entry["evidence"]
        if entry["now"] == spec.code_hash:
            request = Request(spec, spec.problem_type())
            assert len(entry["probes"]) == len(set(entry["probes"])) == len(sites_of(request))


def test_a_recording_of_the_same_machine_code_answers_with_its_probes_where_they_are_now(changes, cpu_run):
    """Two probes of 03_flash change places: the recording's numbers follow them."""
    run = cpu_run(NAME)
    spec = KERNELS[NAME]
    provenance = {**run.trace.provenance, "driver": "580"}
    run = replace(run, device="NVIDIA X", trace=replace(run.trace, provenance=provenance))
    path = recorded.save(run, execute.traffic(run.request), execute.yardstick(run.request))
    request = Request(spec, run.request.problem, run.request.settings, backend="recorded")
    measured = "0" * 16
    sites = sites_of(request)
    one, other = [number for number, site in enumerate(sites) if site.kind == "mark"][:2]
    earlier = [*range(len(sites))]
    earlier[one], earlier[other] = other, one
    changes({measured: {"kernel": NAME, "now": spec.code_hash, "probes": earlier}})
    (entry,) = run_index.of(spec)
    assert entry.path == path
    moved = run_index.read_trace(replace(entry, code_hash=measured), request)
    before, after = (sites.index(trace.table) for trace in (run.trace, moved))
    assert one in before and (after == np.array(earlier)[before]).all()


def test_a_table_of_measured_code_has_the_present_hashes(changes, tmp_path):
    changes({"old": {"now": "new", "probes": []}})
    where = tables.Provenance("X", "D", "2026-01-01", codes={NAME: "old"})
    path = tables.save(pd.DataFrame({"name": [NAME, "peer"], "code_hash": ["old", None]}), tmp_path / "a.csv", where)
    table, found = tables.load(path)
    assert found.codes == {NAME: "new"}
    assert table.code_hash[0] == "new" and pd.isna(table.code_hash[1])
