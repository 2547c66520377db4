"""The timeline of a grid: when each block ran, and on which SM."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from explainers.models.frames import GridFrame
from explainers.models.schedules import Schedule
from explainers.story.words import Row
from kernels.measure.timelines import Timeline


def data_of(timeline: Timeline, label: str) -> Row:
    """Every number of the page. label: the build and its problem.

    us: from the first begin to the last end. at_once: the most running blocks. shortest_us, median_us, longest_us: of
    single blocks. busy: the mean share of SMs with a block. tail_us: at the end, with fewer than half of them busy.
    multiprocessors: with a block.
    """
    table = timeline.table
    length, end = (table.end_ns - table.start_ns).to_numpy(), table.end_ns.max()
    moments = np.linspace(0, end, 400, endpoint=False) + end / 800
    busy = sum((_running(part, moments) > 0).astype(int) for _, part in table.groupby("sm"))
    full = np.flatnonzero(busy >= timeline.multiprocessors / 2)
    facts = {
        "blocks": len(table),
        "us": end / 1000,
        "at_once": int(_running(table, moments).max()),
        "shortest_us": length.min() / 1000,
        "median_us": float(np.median(length)) / 1000,
        "longest_us": length.max() / 1000,
        "busy": float(np.mean(busy) / timeline.multiprocessors),
        "tail_us": (end - moments[full[-1]] if len(full) else end) / 1000,
        "multiprocessors": int(table.sm.nunique()),
    }
    where = {"device": timeline.device, "date": timeline.date, "source": timeline.provenance, "label": label}
    return {"about": "timeline", "facts": facts, "sms": timeline.multiprocessors, "left": timeline.left, **where}


def asked(schedule: Schedule, frames: Sequence[GridFrame]) -> Row:
    """The numbers of the questions about a grid with known times.

    at_once: the most blocks at a begin of one, busiest: the last step up to it. last: the block that ends last, or {}.
    """
    table = schedule.table
    begun, ended = np.sort(table.start), np.sort(table.end)
    running = np.searchsorted(begun, begun, "right") - np.searchsorted(ended, begun, "right")
    moment = begun[running.argmax()]
    last = table[table.end == table.end.max()].assign(took=lambda ends: ends.end - ends.start)
    return {
        "about": "timeline",
        "blocks": len(table),
        "used": int(table.sm.nunique()),
        "at_once": int(running.max()),
        "busiest": max((n for n, frame in enumerate(frames) if frame["at"] <= moment), default=0),
        "last": last.iloc[0].to_dict() if len(last) == 1 and len(table) > 1 else {},
        "middle": float((table.end - table.start).median()),
        "unit": schedule.unit,
    }


def _running(table: pd.DataFrame, moments: np.ndarray) -> np.ndarray:
    """The number of running blocks at each moment (ns)."""
    begun, ended = (np.searchsorted(np.sort(times), moments, "right") for times in (table.start_ns, table.end_ns))
    return begun - ended
