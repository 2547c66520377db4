"""The waits of a producer: the part of its turns beyond the copies.

A turn starts with a mark. The producer then waits for free shared memory, and starts the copies. Rule: the shortest
turn has no wait, so a longer turn waits for the rest. The wait is drawn first.
"""

import pandas as pd

WAIT = "wait_free"


def drawn(own: pd.DataFrame) -> pd.DataFrame:
    """The bars of a writer, with each turn of a producer as a wait and its copies."""
    turns = own[(own.role == "producer") & own.event.str.contains("load|prefetch")]
    if turns.empty:
        return own
    lasts = turns.end_ns - turns.start_ns
    until = turns.end_ns - lasts.groupby(turns.event).transform("min")
    waits = turns.assign(event=WAIT, end_ns=until)[until > turns.start_ns]
    copies = own.assign(start_ns=until.reindex(own.index).fillna(own.start_ns))
    return pd.concat([waits, copies]).sort_values("start_ns", kind="stable")
