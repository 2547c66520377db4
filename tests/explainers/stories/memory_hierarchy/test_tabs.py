"""The tabs on shapes of reads and on one address or many say the figures of the recording."""

import pytest

from explainers.stories.memory_hierarchy.tabs import broadcast_blocks, shapes_blocks
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


def test_each_further_word_of_constant_memory_costs_as_much_and_l1_none():
    table, source = pattern_cycles.broadcasts()
    if source is None:
        pytest.skip("No cycles of reads are recorded. Run python -m kernels measure patterns on a GPU.")
    constant, through_l1 = (part.set_index("different").cycles for _, part in table.groupby("memory", sort=False))
    per_word = (constant - constant[1])[1:] / (constant.index[1:] - 1)
    assert per_word.max() - per_word.min() < 0.1 * per_word.mean() and through_l1.max() < 1.1 * through_l1.min()
    text = " ".join(block.get("text", "") for block in broadcast_blocks())
    assert (
        f"{constant[32]:.4g} if they read 32" in text
        and f"Each further word costs {per_word.iloc[-1]:.4g} cycles" in text
    )
