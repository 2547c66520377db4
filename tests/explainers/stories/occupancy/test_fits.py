"""An SM under a hand: the rule of the browser against the derivation from the cubin, and what would fit more blocks."""

import random
from dataclasses import asdict

from hand_rules import applied

from kernels.build.occupancy import MACHINES, cures, limits

NEEDS = {"registers": "registers", "shared": "shared bytes"}


def blocks(count):
    """Random machines and blocks, with the ends of each range."""
    pick = random.Random(7)
    for _ in range(count):
        arch = pick.choice(list(MACHINES))
        registers, shared = pick.choice([1, 255, pick.randrange(1, 256)]), pick.choice([0, 128 * pick.randrange(1900)])
        yield MACHINES[arch], {"threads": 32 * pick.randrange(1, 33), "registers": registers, "shared": shared}


def test_the_blocks_of_the_browser_are_those_of_the_derivation():
    cases = list(blocks(400))
    found = applied("limits", [[asdict(machine), block] for machine, block in cases])
    assert found == [limits(b["threads"], b["registers"], b["shared"], machine) for machine, b in cases]


def test_the_least_change_that_fits_more_blocks_is_the_same_in_both():
    cases = [(machine, b, need) for machine, b in blocks(200) for need in NEEDS]
    found = applied("cure", [[asdict(machine), b, need] for machine, b, need in cases])
    for (machine, b, need), one in zip(cases, found):
        ours = {c.need: c for c in cures(b["threads"], b["registers"], b["shared"], machine)}.get(NEEDS[need])
        assert (one is None) == (ours is None), (machine.gpu, b, need)
        if one and ours:
            assert (b[need] - one["value"], one["blocks"]) == (ours.less, ours.blocks)
    assert sum(one is not None for one in found) > 40


def test_eight_fewer_registers_are_answered():
    """03_flash at a head_dim of 64 on an H200, by hand: 38 registers fit 6 blocks, 32 fit 8."""
    (first, *_) = cures(256, 38, 1024, MACHINES["sm_90"])
    assert (first.need, first.less, first.blocks) == ("registers", 6, 8)
    assert not cures(64, 32, 0, MACHINES["sm_90"])  # the warps and the blocks are the limit
