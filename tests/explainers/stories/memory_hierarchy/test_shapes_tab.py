"""The tab on rows, tiles and columns says the figures of the recording."""

import pytest

from explainers.stories.memory_hierarchy.shapes_tab import shapes_blocks
from kernels.measure import pattern_cycles


def test_a_column_costs_a_texture_as_much_as_a_row_and_global_memory_many_times_more():
    table, source = pattern_cycles.shapes()
    if source is None:
        pytest.skip("No cycles of shapes are recorded. Run python -m kernels measure patterns on a GPU.")
    assert len(table) == 2 * 6 * 2
    near = table[table.areas == table.areas.min()].set_index(["memory", "columns"]).cycles
    texture, plain = near["2-D texture"], near["Global memory"]
    assert texture[1] < 1.1 * texture[32] and plain[1] > 4 * plain[32]
    text = " ".join(block.get("text", "") for block in shapes_blocks())
    for memory in ("2-D texture", "Global memory"):
        assert all(f"{near[memory, columns]:.4g}" in text for columns in (32, 1))
    assert f"{near['Global memory', 1] / near['2-D texture', 1]:.1f} times faster along columns" in text
