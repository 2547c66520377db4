"""How many blocks of a kernel a multiprocessor holds at once, from the registers and shared bytes of the real cubin.

The limits are those of the CUDA C++ Programming Guide's table of compute capabilities, the rounding that of the
driver: `python -m kernels counters --occupancy` compares with the driver's own call on a GPU.
"""

import re
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

from kernels.build.builds import build
from kernels.build.product import DEFAULT_ARCH, Mode
from kernels.core.expressions import ceil_div
from kernels.core.launch import Constant
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import BuildError, ProblemError

REGISTERS = 65536  # of a multiprocessor
REGISTER_UNIT, PARTITIONS = 256, 4  # what a warp's registers are rounded up to; each partition holds a fourth of them


@dataclass(frozen=True)
class Machine:
    """What one multiprocessor of an architecture holds, and a well-known GPU of it. Bytes; unit: what shared memory
    is rounded up to."""

    gpu: str
    multiprocessors: int
    warps: int
    blocks: int
    shared_bytes: int
    shared_bytes_per_block: int
    reserved_bytes: int = 1024  # of each block, taken by CUDA itself
    unit: int = 128


MACHINES = {
    "sm_75": Machine("T4", 40, 32, 16, 64 * 1024, 64 * 1024, 0, 256),
    "sm_80": Machine("A100", 108, 64, 32, 164 * 1024, 163 * 1024),
    "sm_86": Machine("A10", 72, 48, 16, 100 * 1024, 99 * 1024),
    "sm_87": Machine("Jetson Orin", 16, 48, 16, 164 * 1024, 163 * 1024),
    "sm_89": Machine("L4", 58, 48, 24, 100 * 1024, 99 * 1024),
    "sm_90": Machine("H200", 132, 64, 32, 228 * 1024, 227 * 1024),
    "sm_100": Machine("B200", 148, 64, 32, 228 * 1024, 227 * 1024),
    "sm_120": Machine("RTX 5090", 170, 48, 24, 100 * 1024, 99 * 1024),
}


def arch_named(device: str) -> str:
    """The architecture in MACHINES whose GPU a device's name names, such as sm_90 for NVIDIA H200; else empty."""
    return next((arch for arch, m in MACHINES.items() if re.search(rf"\b{re.escape(m.gpu)}\b", device)), "")


@dataclass(frozen=True)
class Occupancy:
    """One launch on one architecture. limits: blocks per multiprocessor that each resource allows; blocks, warps: what
    the smallest leaves; limited_by: every resource that allows no more, in words.

    waves: the grid's blocks over those the whole GPU holds at once; percent: warps of those that the multiprocessor
    could hold.
    """

    entry: str
    threads: int
    registers: int
    shared_bytes: int
    grid_blocks: int
    limits: dict[str, int]
    blocks: int
    warps: int
    percent: float
    limited_by: str
    waves: float

    @property
    def limiters(self) -> tuple[str, ...]:
        """The resources that allow no more blocks than there are."""
        return tuple(name for name, count in self.limits.items() if count == self.blocks)


@dataclass(frozen=True)
class Needs:
    """What one block takes. warps; registers of one warp, rounded up; warps that the registers allow; shared bytes with
    CUDA's own, rounded up."""

    warps: int
    registers_per_warp: int
    warps_by_registers: int
    shared_bytes: int


def machine(arch: str) -> Machine:
    """The Machine of an architecture such as sm_90a; ProblemError with those that are known."""
    known = MACHINES.get(arch.rstrip("af"))
    if not known:
        there = ", ".join(MACHINES)
        raise ProblemError(f"The limits of {arch!r} are not known here; they are of {there}, and of those with an a.")
    return known


def needs(threads: int, registers: int, shared_bytes: int, machine: Machine) -> Needs:
    """What one block of a launch takes of a multiprocessor."""
    per_warp = ceil_div(registers * 32, REGISTER_UNIT) * REGISTER_UNIT
    by_registers = REGISTERS // PARTITIONS // per_warp * PARTITIONS if registers else machine.warps
    shared = ceil_div(shared_bytes + machine.reserved_bytes, machine.unit) * machine.unit
    return Needs(ceil_div(threads, 32), per_warp, by_registers, shared)


def limits(threads: int, registers: int, shared_bytes: int, machine: Machine) -> dict[str, int]:
    """Blocks per multiprocessor that each resource allows: warps, blocks, registers, shared memory; 0 where not one
    block fits."""
    block = needs(threads, registers, shared_bytes, machine)
    fits = shared_bytes <= machine.shared_bytes_per_block
    return {
        "warps": machine.warps // block.warps,
        "blocks": machine.blocks,
        "registers": block.warps_by_registers // block.warps,
        "shared memory": (machine.shared_bytes // block.shared_bytes if block.shared_bytes else machine.blocks)
        if fits
        else 0,
    }


def occupancy(
    kernel: KernelSpec,
    problem: Any,
    settings: Any,
    arch: str = DEFAULT_ARCH,
    mode: Mode = Mode.TIMED,
    multiprocessors: int | None = None,
) -> tuple[Occupancy, ...]:
    """An Occupancy for each launch. Compiles if need be; needs no GPU. multiprocessors: of the GPU meant, else of
    the architecture's well-known one. Raises ProblemError (unknown architecture or constants), BuildError,
    BackendUnavailable."""
    on = machine(arch)
    request = Request(kernel, problem, tuple(kernel.settings(settings).items()))
    facts = {fact.entry: fact for fact in build(kernel, request.defines, mode, arch).facts}
    found = []
    for launch in request.plan.launches:
        fact = facts[launch.entry]
        shared = fact.shared_bytes + launch.shared_bytes
        allowed = limits(launch.threads, fact.registers, shared, on)
        blocks, warps = min(allowed.values()), ceil_div(launch.threads, 32)
        limited = " and ".join(name for name, count in allowed.items() if count == blocks)
        at_once = blocks * (multiprocessors or on.multiprocessors)
        percent, waves = 100 * blocks * warps / on.warps, launch.blocks / at_once if at_once else float("inf")
        found.append(
            Occupancy(
                launch.entry, launch.threads, fact.registers, shared, launch.blocks, allowed,
                blocks, blocks * warps, percent, limited, waves,
            )
        )  # fmt: skip
    return tuple(found)


@cache
def block_constants(kernel: KernelSpec) -> tuple[Constant, ...]:
    """The constants that change how large a block is: sizes, so never 0, that its launches name; no what-if builds."""
    said = " ".join(f"{launch.block} {launch.shared_bytes} {launch.grid}" for launch in kernel.launch_texts)
    return tuple(c for c in kernel.constants if c.name in said and not c.what_if and 0 not in c.values)


def alternatives(
    kernel: KernelSpec, problem: Any, settings: Any, arch: str = DEFAULT_ARCH, multiprocessors: int | None = None
) -> list[tuple[dict[str, int], Occupancy | str]]:
    """[(settings, Occupancy of the launch with the most blocks, or the reason why not)] over every size of a block
    that the kernel has."""
    sizes = block_constants(kernel)
    found: list[tuple[dict[str, int], Occupancy | str]] = []
    for values in product(*(c.values for c in sizes)):
        chosen = {**kernel.settings(settings), **{c.name: value for c, value in zip(sizes, values)}}
        try:
            made = occupancy(kernel, problem, chosen, arch, multiprocessors=multiprocessors)
            found.append((chosen, max(made, key=lambda o: (o.grid_blocks, o.shared_bytes))))
        except (ProblemError, BuildError) as error:
            found.append((chosen, str(error)))
    return found
