"""The timeline of a grid: its facts, and recorded blocks."""

import numpy as np
import pandas as pd
import pytest

from explainers.stories.occupancy import grid_timeline
from kernels.build import occupancy
from kernels.catalog import KERNELS
from kernels.core.request import Request
from kernels.errors import ProblemError
from kernels.families.dense.problem import DenseProblem
from kernels.measure import timelines


def test_the_timelines_facts_are_those_of_its_blocks():
    table = pd.DataFrame(
        {
            "launch": 0,
            "block": [0, 1, 2, 3],
            "sm": [0, 1, 0, 1],
            "start_ns": [0, 0, 1000, 500],
            "end_ns": [1000, 500, 4000, 900],
        }
    )
    timeline = timelines.Timeline(
        Request(KERNELS["03_flash"], DenseProblem()), table, 2, 4, "recorded", "a GPU", "2026-11-21"
    )
    facts = grid_timeline.timeline_facts(timeline)
    assert (
        facts["blocks"],
        facts["us"],
        facts["at_once"],
        facts["longest_us"],
        facts["shortest_us"],
        facts["multiprocessors"],
    ) == (4, 4.0, 2, 3.0, 0.4, 2)
    assert np.isclose(facts["tail_us"], 3.1, atol=0.02) and np.isclose(
        facts["busy"], (4000 + 900) / 4000 / 4, atol=0.01
    )
    said = grid_timeline.timeline_sentence(timeline, facts)
    assert (
        "4 blocks ran on 2 of 4 SMs" in said
        and "2 more blocks had nothing to do" in said
        and "8 times the shortest" in said
    )


def test_recorded_causal_blocks_differ_more_than_full_ones():
    lengths = {}
    for causal in (False, True):
        problem = DenseProblem(seq_len=2048, head_dim=64, num_heads=8, causal=causal)
        request = Request(
            KERNELS["03_flash"], problem, tuple(KERNELS["03_flash"].settings().items()), backend="recorded"
        )
        try:
            lengths[causal] = grid_timeline.timeline_facts(timelines.timeline(request))
        except ProblemError as missing:
            pytest.skip(f"no timeline of the present code is recorded: {missing}")
    assert (
        lengths[True]["longest_us"] / lengths[True]["shortest_us"]
        > 10 * lengths[False]["longest_us"] / lengths[False]["shortest_us"]
    )
    assert (
        lengths[False]["at_once"]
        == lengths[True]["at_once"]
        == 132
        * occupancy.occupancy(KERNELS["03_flash"], DenseProblem(seq_len=2048, head_dim=64, num_heads=8), ())[0].blocks
    )
