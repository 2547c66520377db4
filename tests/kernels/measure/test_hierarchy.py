"""The memory hierarchy's sweeps and its recorded tables. Nothing here needs a GPU, and no recording need be there."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from kernels import catalog
from kernels.errors import BackendUnavailable
from kernels.families.lab.tiles import ColumnsProblem
from kernels.measure import hierarchy
from kernels.recordings import tables
from kernels.run import workers

GPU = SimpleNamespace(name="NVIDIA X", driver="D", target="sm_90a", multiprocessors=132)
KERNELS = ("lab_chase", "lab_stream")
CACHED = ("lab_chase_constant", "lab_chase_texture")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    return tmp_path


def codes(*names):
    return {name: catalog.KERNELS[name].code_hash for name in names}


def write(kind="hierarchy", device="NVIDIA X", date="2026-11-21", **of):
    where = tables.Provenance(device, "D", date, "NVRTC 13.0", codes=of.get("codes") or codes(*KERNELS))
    return tables.save(pd.DataFrame({"kind": ["latency"]}), tables.path_of(kind, device), where)


def recorded_or_skip(kind):
    try:
        return hierarchy.recorded(kind=kind)
    except BackendUnavailable as reason:
        pytest.skip(str(reason))


def test_the_sweep_has_every_space_and_spans_the_levels():
    places = hierarchy.sweep(132)
    chases = [place.problem for place in places if place.kind == "latency"]
    streams = [place.problem for place in places if place.kind == "bandwidth"]
    assert len(places) == len(set(places)) == len(chases) + len(streams)
    assert {p.space for p in chases} == {"through_l1", "from_l2", "shared", "constant", "texture"}
    assert {p.space for p in streams} == {"through_l1", "from_l2", "shared", "copy"}
    sizes = [p.working_set for p in chases if p.space == "through_l1"]
    assert min(sizes) == 2**10 and max(sizes) == 2**29 and 224 * 2**10 in sizes
    assert max(p.working_set for p in streams) == 2**30
    constant = [p.working_set for p in chases if p.space == "constant"]
    texture = [p.working_set for p in chases if p.space == "texture"]
    assert (min(constant), max(constant), min(texture), max(texture)) == (2**10, 2**16, 2**10, 2**28)
    assert {*constant, *texture} <= set(sizes)  # no new step of the page's clock


def test_a_table_that_is_older_than_a_kernel_keeps_its_rows_and_gains_the_kernels(folder, monkeypatch):
    asked = []

    def row_of(place):
        return {"kind": place.kind, "space": place.problem.space, "working_set": place.problem.working_set}

    def submit(function, place, **how):
        asked.append(place)
        return SimpleNamespace(result=lambda: row_of(place))

    monkeypatch.setattr(workers, "submit", submit)
    old = [place for place in hierarchy.sweep(132) if place.problem.space not in ("constant", "texture")]
    where = tables.provenance(GPU, codes(*KERNELS), compiler="NVRTC 13.0", runs=5)
    path = tables.save(pd.DataFrame(map(row_of, old)), tables.path_of("hierarchy", GPU.name), where)
    assert hierarchy.devices() == [GPU.name]
    record = hierarchy.TABLES[hierarchy.HIERARCHY].record
    assert record(GPU) == [path] and {place.problem.space for place in asked} == {"constant", "texture"}
    assert len(hierarchy.recorded().table) == len(old) + len(asked)
    assert set(tables.load(path)[1].codes) == {*KERNELS, *CACHED}
    write(codes={**codes(*KERNELS), "lab_chase": "of long ago"})
    asked.clear()
    record(GPU)
    assert asked == hierarchy.sweep(132) and len(hierarchy.recorded().table) == len(asked)


def test_the_walks_that_are_timed_have_settings_that_the_kernel_takes():
    kernel = catalog.KERNELS["lab_columns"]
    walks = hierarchy.cycles_sweep()
    assert len(walks) == len(set(walks)) and {p.stride for p, _ in walks} >= set(range(1, 41))
    for problem, settings in walks:
        assert kernel.settings(settings) == dict(settings) and kernel.plan(problem, settings).launches


def test_a_table_is_read_with_where_and_when_it_was_measured(folder):
    write(device="NVIDIA A", date="2026-01-01")
    write(device="NVIDIA B", date="2026-02-02")
    assert hierarchy.devices() == ["NVIDIA B", "NVIDIA A"]
    newest, asked = hierarchy.recorded(), hierarchy.recorded("NVIDIA A")
    assert (newest.device, newest.date, newest.compiler) == ("NVIDIA B", "2026-02-02", "NVRTC 13.0")
    assert asked.device == "NVIDIA A" and list(asked.table.kind) == ["latency"]
    with pytest.raises(BackendUnavailable, match="no recording of the hierarchy on NVIDIA C by the present code"):
        hierarchy.recorded("NVIDIA C")


def test_a_missing_or_stale_table_says_what_to_do(folder):
    with pytest.raises(BackendUnavailable, match="python -m kernels measure cycles"):
        hierarchy.recorded(kind=hierarchy.CYCLES)
    write(codes={**codes(*KERNELS), "lab_chase": "of long ago"})
    with pytest.raises(BackendUnavailable, match="NVIDIA X is of another code of lab_chase"):
        hierarchy.recorded()
    (folder / "hierarchy" / "NVIDIA_X.csv").write_text('# {"device": "H", "driver": "D", "date": "2025-01-01"}\nkind\n')
    with pytest.raises(BackendUnavailable, match="has format 1, and this program reads format 2"):
        hierarchy.recorded()


# ---- what is recorded; on a machine where nothing is, the reason is said ----


def test_the_recorded_plateaus_stand_where_the_levels_are_and_the_copy_is_near_the_measured_ceiling():
    made = recorded_or_skip(hierarchy.HIERARCHY)
    table = made.table
    assert made.device and made.date and made.driver and "NVRTC" in made.compiler
    cycles = {s: part.set_index("working_set").cycles for s, part in table[table.kind == "latency"].groupby("space")}
    assert cycles["shared"].max() < 1.01 * cycles["shared"].min()
    assert (table.cycles_least <= table.cycles).sum() == (table.kind == "latency").sum()
    if "H200" in made.device:
        through_l1 = cycles["through_l1"]
        assert 30 < through_l1[4096] < 60 < 200 < through_l1[2**20] < 400 < through_l1[2**28]
        assert np.isclose(table[table.space == "copy"].gb_per_s.max(), 4280, rtol=0.1)  # FACTS.md: 4.28 TB/s


def test_recorded_cycles_are_the_derived_wavefronts_once_the_banks_set_the_pace():
    table = recorded_or_skip(hierarchy.CYCLES).table
    bound = table[(table.wavefronts >= 8) & (table.stride >= 8)]
    assert len(bound) >= 15 and np.allclose(bound.cycles, bound.wavefronts, rtol=0.02)
    assert (table.cycles >= table.wavefronts - 0.01).all()


def test_recorded_wavefronts_are_those_of_the_trace():
    names = [c.name for c in catalog.KERNELS["lab_columns"].constants]
    for row in recorded_or_skip(hierarchy.CYCLES).table.iloc[::9].itertuples():
        settings = tuple((name, int(getattr(row, name))) for name in names)
        problem = ColumnsProblem(int(row.stride))
        assert hierarchy.wavefronts_per_access(problem, settings, "cpu") == row.wavefronts


@pytest.mark.parametrize(("settings", "wavefronts"), [((), 32.0), ((("PAD", 1),), 1.0)])
def test_a_walk_down_the_columns_costs_a_wavefront_per_lane_unless_padded(settings, wavefronts):
    kernel = catalog.KERNELS["lab_columns"]
    chosen = tuple(kernel.settings(settings).items())
    assert hierarchy.wavefronts_per_access(ColumnsProblem(32), chosen, "cpu") == wavefronts
