"""The overlap of two writers: the work of one during a phase of the other, from the marks."""

import numpy as np
import pandas as pd

from kernels.measure import pipeline_bars

PRODUCTS, SOFTMAX, OTHER = "products", "softmax", "other"
ACTIVITIES = {event: PRODUCTS for event in pipeline_bars.PRODUCTS}
ACTIVITIES |= {event: SOFTMAX for event in ("softmax", "check_sums", "weights", "score_gradients")}


def activity(event: str) -> str:
    """The work of a writer at a mark.

    Rule: the marks of PRODUCTS start products. Their bars last until the products or the scores are ready. Marks of a
    softmax are softmax, with the waits in it, and in the backward those of P and dS. All other marks are other work.
    """
    return ACTIVITIES.get(event, OTHER)


def shared(bars: pd.DataFrame, spans: pd.DataFrame) -> dict[str, float]:
    """activity -> ns of the bars of one writer inside the spans."""
    start, end = bars.start_ns.to_numpy(), bars.end_ns.to_numpy()
    inside = np.zeros(len(bars))
    for first, last in zip(spans.start_ns, spans.end_ns):
        inside += np.clip(np.minimum(end, last) - np.maximum(start, first), 0, None)
    met = inside > 0
    found = pd.Series(inside[met]).groupby(bars.event[met].map(activity).to_numpy()).sum()
    return {name: float(found.get(name, 0.0)) for name in (PRODUCTS, SOFTMAX, OTHER)}


def softmax_of(bars: pd.DataFrame, writer: int) -> pd.DataFrame:
    """The bars of a writer's softmax."""
    return bars[(bars.writer == writer) & (bars.event.map(activity) == SOFTMAX)]


def partner(bars: pd.DataFrame, leader: int) -> int | None:
    """The next writer with a softmax, or None."""
    others = bars[(bars.event.map(activity) == SOFTMAX) & (bars.writer > leader)].writer
    return int(others.min()) if len(others) else None


def during_softmax(bars: pd.DataFrame, leader: int) -> dict[str, float]:
    """activity -> the partner's share of the time in which the leader is in its softmax. Empty without a partner."""
    other, spans = partner(bars, leader), softmax_of(bars, leader)
    if other is None or spans.empty:
        return {}
    ns = shared(bars[bars.writer == other], spans)
    whole = float((spans.end_ns - spans.start_ns).sum())
    return {name: time / whole for name, time in ns.items()}
