"""A build whose threads take twice the registers: its blocks on an SM, for a question and a last step."""

from dataclasses import replace

from kernels.build.occupancy import Machine, Occupancy, limits
from kernels.core.expressions import ceil_div

MOST_REGISTERS = 255  # of a thread


def twice(o: Occupancy, machine: Machine) -> Occupancy | None:
    """The same launch with twice the registers. None if no block fits now, or if a thread cannot have so many."""
    registers = 2 * o.registers
    if registers > MOST_REGISTERS or not o.blocks:
        return None
    allowed = limits(o.threads, registers, o.shared_bytes, machine)
    blocks = min(allowed.values())
    warps = blocks * ceil_div(o.threads, 32)
    limited = " and ".join(name for name, count in allowed.items() if count == blocks)
    return replace(
        o,
        registers=registers,
        limits=allowed,
        blocks=blocks,
        warps=warps,
        percent=100 * warps / machine.warps,
        limited_by=limited,
    )
