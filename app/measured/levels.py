"""The figures of the memory hierarchy that its page shows: recorded on named GPUs, or measured on this one just now."""

import pandas as pd

from app.measured import measuring
from app.measured.times import NOW
from kernels.errors import BackendUnavailable
from kernels.measure import hierarchy
from kernels.measure.hierarchy import Measured


def names() -> list[str]:
    """The names of the sources, this GPU first."""
    return [*([NOW] if measuring.levels().rows else []), *hierarchy.devices()]


def recorded() -> Measured | None:
    """The latest recording."""
    try:
        return hierarchy.recorded()
    except BackendUnavailable:
        return None


def measured(source: str, now: measuring.Now) -> Measured | None:
    """The figures of a source, by default of the first one, or None."""
    if now.rows and source in ("", NOW):
        table = pd.DataFrame(now.records())
        latest = recorded()
        wanted = list(latest.table.columns) if latest else [*table.columns]
        return Measured(table.reindex(columns=wanted), now.device, now.driver, now.date, "")
    if source and source != NOW:
        return hierarchy.recorded(source)
    return recorded()
