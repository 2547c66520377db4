"""Blocks of a kernel on an SM at once, from the registers and shared bytes of the real cubin.

The limits come from the CUDA C++ Programming Guide's table of compute capabilities. The rounding is the driver's:
`python -m kernels counters --occupancy` compares with the driver's own call on a GPU.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import NamedTuple

from kernels.build.builds import build
from kernels.build.product import DEFAULT_ARCH, Mode
from kernels.core.expressions import ceil_div
from kernels.core.launch import Constant
from kernels.core.problem import Problem
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import BuildError, ProblemError

Settings = Mapping[str, int] | tuple[tuple[str, int], ...]
REGISTERS = 65536  # of an SM
REGISTER_UNIT, PARTITIONS = 256, 4  # a warp gets a multiple of 256, each partition of an SM holds a fourth


@dataclass(frozen=True)
class Machine:
    """The limits of one SM of an architecture.

    gpu: a well-known GPU of the architecture.
    warps, blocks, shared_bytes: of an SM.
    shared_bytes_per_block: the most of a block.
    reserved_bytes: CUDA's own, in each block.
    unit: a block gets a multiple of these shared bytes."""

    gpu: str
    multiprocessors: int
    warps: int
    blocks: int
    shared_bytes: int
    shared_bytes_per_block: int
    reserved_bytes: int = 1024
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
    """The architecture in MACHINES of a device, such as sm_90 for "NVIDIA H200", or ""."""
    return next((arch for arch, m in MACHINES.items() if re.search(rf"\b{re.escape(m.gpu)}\b", device)), "")


@dataclass(frozen=True)
class Occupancy:
    """One launch on one architecture.

    registers: of a thread.
    shared_bytes: of a block.
    limits: resource -> the blocks per SM that it allows.
    blocks, warps: per SM, with the smallest limit.
    percent: warps per SM, of the most possible.
    limited_by: each resource with the smallest limit, in words.
    waves: the grid's blocks over the blocks of the whole GPU at once.
    local_bytes: local memory of a thread."""

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
    local_bytes: int = 0

    @property
    def limiters(self) -> tuple[str, ...]:
        return tuple(name for name, count in self.limits.items() if count == self.blocks)

    def lacks(self, arch: str) -> str:
        """The need of a block that no SM of the architecture meets, or "" if the SM holds a block."""
        if not self.limits["shared memory"]:
            allowed = machine(arch).shared_bytes_per_block
            return f"{self.shared_bytes:,} bytes of shared memory per block, and {arch} allows {allowed:,}"
        if not self.limits["registers"]:
            each = f"{self.registers} registers for each of {self.threads:,} threads"
            return f"{each}, and an SM has {REGISTERS:,}"
        return ""


@dataclass(frozen=True)
class Needs:
    """The resources of one block.

    registers_per_warp: rounded up.
    warps_by_registers: the warps per SM that the registers allow.
    shared_bytes: with CUDA's own, rounded up."""

    warps: int
    registers_per_warp: int
    warps_by_registers: int
    shared_bytes: int


def machine(arch: str) -> Machine:
    """The Machine of an architecture such as sm_90a. ProblemError lists the known ones."""
    known = MACHINES.get(arch.rstrip("af"))
    if not known:
        names = ", ".join(MACHINES)
        raise ProblemError(f"The limits of {arch!r} are not known here. Choose {names}, or one of these with an a.")
    return known


def needs(threads: int, registers: int, shared_bytes: int, machine: Machine) -> Needs:
    per_warp = ceil_div(registers * 32, REGISTER_UNIT) * REGISTER_UNIT
    by_registers = REGISTERS // PARTITIONS // per_warp * PARTITIONS if registers else machine.warps
    shared = ceil_div(shared_bytes + machine.reserved_bytes, machine.unit) * machine.unit
    return Needs(ceil_div(threads, 32), per_warp, by_registers, shared)


def limits(threads: int, registers: int, shared_bytes: int, machine: Machine) -> dict[str, int]:
    """Resource (warps, blocks, registers, shared memory) -> the blocks per SM that it allows."""
    block = needs(threads, registers, shared_bytes, machine)
    fits = shared_bytes <= machine.shared_bytes_per_block
    by_shared = machine.shared_bytes // block.shared_bytes if block.shared_bytes else machine.blocks
    return {
        "warps": machine.warps // block.warps,
        "blocks": machine.blocks,
        "registers": block.warps_by_registers // block.warps,
        "shared memory": by_shared if fits else 0,
    }


class Cure(NamedTuple):
    """A smaller need of a block with which more blocks fit.

    need: registers (of a thread) or shared bytes (of a block).
    less: by how much it is smaller, the least that helps.
    blocks: per SM then."""

    need: str
    less: int
    blocks: int


def cures(threads: int, registers: int, shared_bytes: int, machine: Machine) -> list[Cure]:
    """Changes that fit more blocks, each alone: fewer registers of a thread, or fewer shared bytes of a block."""
    now = min(limits(threads, registers, shared_bytes, machine).values())
    unit = machine.unit
    by_need = {
        "registers": ((r, (r, shared_bytes)) for r in range(registers - 1, 0, -1)),
        "shared bytes": ((s, (registers, s)) for s in range((ceil_div(shared_bytes, unit) - 1) * unit, -1, -unit)),
    }
    found = []
    for need, tried in by_need.items():
        for value, given in tried:
            blocks = min(limits(threads, *given, machine).values())
            if blocks > now:
                found.append(Cure(need, (registers if need == "registers" else shared_bytes) - value, blocks))
                break
    return found


def occupancy(
    kernel: KernelSpec,
    problem: Problem,
    settings: Settings,
    arch: str = DEFAULT_ARCH,
    mode: Mode = Mode.TIMED,
    multiprocessors: int | None = None,
) -> tuple[Occupancy, ...]:
    """An Occupancy for each launch. Needs no GPU.

    multiprocessors: the SMs of the GPU. The default is the architecture's well-known GPU.
    Raises ProblemError (unknown architecture or constants), BuildError, BackendUnavailable."""
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
                blocks, blocks * warps, percent, limited, waves, fact.stack_bytes,
            )
        )  # fmt: skip
    return tuple(found)


@cache
def block_constants(kernel: KernelSpec) -> tuple[Constant, ...]:
    """The constants for the size of a block: the sizes in its launches, without what-if builds."""
    texts = " ".join(f"{launch.block} {launch.shared_bytes} {launch.grid}" for launch in kernel.launch_texts)
    return tuple(c for c in kernel.constants if c.name in texts and not c.what_if and 0 not in c.values)


def alternatives(
    kernel: KernelSpec,
    problem: Problem,
    settings: Settings,
    arch: str = DEFAULT_ARCH,
    multiprocessors: int | None = None,
) -> list[tuple[dict[str, int], Occupancy | str]]:
    """[(settings, the Occupancy of the launch with the most blocks, or an error)] for each size of a block."""
    sizes = block_constants(kernel)
    found: list[tuple[dict[str, int], Occupancy | str]] = []
    for values in product(*(c.values for c in sizes)):
        chosen = {**kernel.settings(settings), **{c.name: value for c, value in zip(sizes, values)}}
        try:
            launches = occupancy(kernel, problem, chosen, arch, multiprocessors=multiprocessors)
            found.append((chosen, max(launches, key=lambda o: (o.grid_blocks, o.shared_bytes))))
        except (ProblemError, BuildError) as error:
            found.append((chosen, str(error)))
    return found
