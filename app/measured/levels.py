"""The sources of the memory hierarchy's figures: recordings on named GPUs, and the points of this GPU."""

from app.measured import measuring
from explainers.stories.timing.times import NOW
from kernels.measure import hierarchy


def names() -> list[str]:
    """The names of the sources, this GPU first."""
    return [*([NOW] if measuring.levels().rows else []), *hierarchy.devices()]
