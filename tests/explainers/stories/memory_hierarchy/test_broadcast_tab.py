"""The tab on reads of one address or many says the figures of the recording."""

import pytest

from explainers.stories.memory_hierarchy.broadcast_tab import broadcast_blocks
from kernels.measure import pattern_cycles


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
