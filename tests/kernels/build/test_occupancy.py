"""Blocks per multiprocessor, derived; held against what the driver said on recorded GPUs."""

from pathlib import Path

import pytest

from kernels.build import disassembly, inspection, occupancy
from kernels.catalog import KERNELS, load_kernel
from kernels.errors import ProblemError
from kernels.measure import counters
from kernels.recordings import tables
from kernels.run import facts

FLASH = KERNELS["03_flash"]


def test_occupancy_equals_the_drivers_names_all_limits_and_has_every_alternative():
    with pytest.raises(ProblemError, match="The limits of 'sm_12' are not known here. Choose sm_75, sm_80"):
        occupancy.machine("sm_12")
    for table, _ in tables.recorded(counters.OCCUPANCY).values():
        for row in table.itertuples():
            allowed = occupancy.limits(row.threads, row.registers, row.shared_bytes, occupancy.MACHINES["sm_90"])
            assert min(allowed.values()) == row.driver, row
    allowed = occupancy.limits(256, 64, 0, occupancy.MACHINES["sm_90"])
    assert (allowed["registers"], allowed["warps"]) == (4, 8)
    limits = {"warps": 8, "blocks": 32, "registers": 8, "shared memory": 8}
    found = occupancy.Occupancy("k", 256, 32, 28_160, 10, limits, 8, 64, 100.0, "all three", 1.0)
    assert found.limiters == ("warps", "registers", "shared memory")
    block = occupancy.needs(threads=100, registers=33, shared_bytes=1000, machine=occupancy.MACHINES["sm_90"])
    assert block == occupancy.Needs(warps=4, registers_per_warp=1280, warps_by_registers=48, shared_bytes=2048)
    found = occupancy.alternatives(FLASH, FLASH.problem_type(), ())
    sizes = {c.name: c.values for c in FLASH.constants if c.name.startswith("BLOCK")}
    assert {c.name for c in occupancy.block_constants(FLASH)} == set(sizes)
    assert len(found) == len(sizes["BLOCK_Q"]) * len(sizes["BLOCK_KV"])
    assert all(isinstance(result, (occupancy.Occupancy, str)) for _, result in found)


@pytest.mark.parametrize("arch", occupancy.MACHINES)
def test_occupancy_is_known_for_every_architecture_and_says_what_limits(arch):
    problem, settings = FLASH.problem_type(head_dim=128), (("BLOCK_KV", 32), ("BLOCK_Q", 32))
    (found,) = occupancy.occupancy(FLASH, problem, settings, arch)
    assert found.blocks == min(found.limits.values()) and {found.limits[name] for name in found.limiters} == {
        found.blocks
    }
    assert found.limited_by == " and ".join(found.limiters)
    assert found.blocks * found.threads <= 32 * occupancy.MACHINES[arch].warps


def test_the_starters_arrays_are_named_as_local_memory_by_inspect_and_by_the_machine_code():
    """Its arrays with indices of a run: 1,168 bytes a thread, and no spill."""
    kernel = load_kernel(Path(__file__).parents[3] / "app/workbench/starter.cu")
    found = inspection.inspect(kernel, kernel.problem_type(), ())
    said = "1,168 bytes of local memory a thread (0 bytes spilled)"
    assert sum(said in line for line in facts.inspect_lines(found)) == 2
    assert [one["local_bytes"] for one in found["occupancy"]] == [1168]
    listing = disassembly.listing(kernel, kernel.problem_type(), ())
    assert listing.local_bytes == {"attention": 1168} and "local memory load" in listing.mix
