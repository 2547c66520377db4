"""Bank conflicts by addresses and by Nsight Compute's counter."""

from dataclasses import replace

import pytest

from explainers.stories.bank_conflicts import bank_costs
from kernels.measure import conflicts
from kernels.recordings import tables


@pytest.mark.parametrize("tile", conflicts.TILES)
def test_the_recorded_conflicts_of_one_block_are_those_of_its_addresses(tile):
    one = next(conflicts.requests(tile))
    rows, _ = conflicts.TABLE.newest()
    settings = conflicts.settings_text(one.settings)
    mine = rows[(rows.name == one.kernel.name) & (rows.settings == settings) & (rows.blocks == 1)]
    assert conflicts.of_addresses(replace(one, backend="cpu")) == mine.addresses.tolist() == mine.counted.tolist()


def test_the_counter_grows_only_with_several_blocks_on_an_sm():
    rows, where = conflicts.TABLE.newest()
    multiprocessors = where.more["multiprocessors"]
    few, many = rows[rows.blocks <= multiprocessors], rows[rows.blocks > multiprocessors]
    assert (few.counted == few.addresses).all() and (many.counted >= many.addresses).all()
    assert (many.counted > many.addresses).sum() > len(many) / 2


def test_the_tab_says_how_many_launches_are_equal_and_puts_its_kernel_first():
    rows, _ = conflicts.TABLE.newest()
    few, many, table = bank_costs.counted_blocks("06_mma")
    equal = int((rows[rows.wavefronts > 0].blocks <= 132).sum())
    assert f"{equal} of {equal} launches" in few["text"] and "larger in" in many["text"]
    assert table["rows"][0][0] == "06_mma"


def test_without_a_recording_the_tab_says_how_to_make_one(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    (note,) = bank_costs.counted_blocks("06_mma")
    assert "python -m kernels measure conflicts" in note["text"]
