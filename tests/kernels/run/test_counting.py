"""counts: wavefronts and sectors by line for a grid of constants, without a counter of the hardware."""

import doctest

import pytest

import warpglass
from kernels.errors import ProblemError
from kernels.run import counting


def test_the_example_of_the_docstring_runs():
    found = doctest.testmod(counting)
    assert found.attempted == 2 and not found.failed


def test_a_grid_of_fields_and_constants_has_rows_for_each_pair():
    table = warpglass.counts("03_flash", seq_len=[16, 32], PAD_K=[0, 4], causal=True)
    assert set(zip(table.seq_len, table.PAD_K)) == {("16", "0"), ("16", "4"), ("32", "0"), ("32", "4")}
    shared = table[table.space == "shared"].groupby("PAD_K")[["wavefronts", "ideal", "conflicts"]].sum()
    assert shared.conflicts["4"] == 0 < shared.conflicts["0"]
    assert (shared.wavefronts == shared.ideal + shared.conflicts).all() and (table.causal == "true").all()
    assert (table[table.space == "global"].sectors > 0).all()


@pytest.mark.parametrize(
    ("grid", "said"), [({"PAD": 3, "nothing": 1}, "no field or constant 'nothing'"), ({"PAD_K": 99}, "PAD_K")]
)
def test_an_unknown_field_or_value_is_named(grid, said):
    with pytest.raises(ProblemError, match=said):
        warpglass.counts("03_flash" if "PAD_K" in grid else "lab_columns", **grid)
