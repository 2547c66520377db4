"""The recorded table of the operator attention next to torch's, and its text in operator-times.md and README.md."""

from collections.abc import Iterable

import pandas as pd

from kernels.measure.meeting import FIGURES, MEANWHILE
from kernels.recordings import tables

KIND, OURS, IN_PYTHON = "operators", "warpglass", "warpglass in Python"
TITLES = {"sdpa_cudnn": "cuDNN", "sdpa_flash": "flash", "sdpa_efficient": "efficient", "sdpa_math": "math"}
"""peer -> its name in the table, the usual winner first."""
CASE = ["model", "batch", "tokens", "trains"]
COLUMNS = (
    *("name", "backward", "peer", "status", "peer_status"),
    *("model", "batch", "tokens", "num_heads", "num_kv_heads", "head_dim", "trains"),
    *(*FIGURES, *MEANWHILE, "pairs", "code_hash", "reason"),
)
"""name, backward: our kernels of the call. peer: the backend of torch's attention.
trains: whether the time includes the backward through autograd.
us, peer_us: of a call on the wall. pairs: JSON, [our us, the peer's us] of each round.
Other columns are as in meeting.COLUMNS."""


def present(table: pd.DataFrame, where: tables.Provenance) -> pd.DataFrame:
    """The rows whose forward and backward kernels have the present code."""
    rows = tables.of_present_code(table, where).fillna({"backward": ""})
    return rows[~rows.backward.isin(tables.changed_code(where.codes))]


def recorded() -> tuple[pd.DataFrame, tables.Provenance] | None:
    found = _newest()
    return (present(*found).reset_index(drop=True), found[1]) if found else None


def _newest() -> tuple[pd.DataFrame, tables.Provenance] | None:
    """The newest table with a forward kernel of the present code."""
    return next((pair for pair in tables.recorded(KIND).values() if len(tables.of_present_code(*pair))), None)


def waiting() -> list[str]:
    """The cases left out because their backward has changed since, in a sentence. Empty if there are none."""
    if not (found := _newest()):
        return []
    rows = tables.of_present_code(*found)
    old = rows.drop(index=present(*found).index)
    if old.empty:
        return []
    names = ", ".join(f"`{name}`" for name in sorted(set(old.backward)))
    left, every = len(old.groupby(CASE)), len(rows.groupby(CASE))
    said = f"Not shown: {left} of {every} cases, with gradients by an earlier {names}."
    return [said + " They wait for a new recording."]


def strongest(rows: pd.DataFrame) -> pd.DataFrame:
    """The row of each case against the fastest backend of torch."""
    timed = rows[rows.ratio.notna()]
    return timed.loc[timed.groupby(CASE, sort=False).peer_us.idxmin()]


def sentence() -> list[str]:
    """The result in a sentence, losses next to wins. Empty without a table."""
    found = recorded()
    if found is None:
        return []
    best = strongest(found[0])
    lost, won = best[best.ratio < 1], best[best.ratio >= 1]
    said = f"Sustained, with its overhead, a call of `ops.attention` is faster than torch's attention in {len(won)} of "
    said += f"{len(best)} cases ({_range(best.ratio)} times as fast)."
    if len(lost):
        said += f" The slower cases have {_tokens(lost.tokens)} tokens."
    return [" ".join([said, *waiting()])]


def text() -> str:
    """The table of operator-times.md, with its sentences."""
    found = recorded()
    if found is None:
        return "No time of the present code is recorded."
    rows, where = found
    cost = where.more.get("overhead_us", {})
    best = strongest(rows)
    lost = best[best.ratio < 1]
    lines = [f"{where.device}, {where.date}, torch {where.torch}, bf16, causal, sustained."]
    lines.append(f"A call is faster than each backend of torch in {len(best) - len(lost)} of {len(best)} cases.")
    if len(lost):
        lines.append(f"The losses have {_tokens(lost.tokens)} tokens: {_range(lost.ratio)} times the speed.")
    lines += waiting()
    if cost:
        others = ", ".join(f"{TITLES[name]} {us:.0f} us" for name, us in cost.items() if name in TITLES)
        python = f", and {cost[IN_PYTHON]:.0f} us without the compiled launcher" if IN_PYTHON in cost else ""
        lines.append(f"A tiny call takes {cost[OURS]:.0f} us{python}.")
        lines.append(f"The backends of torch take: {others}.")
    return "\n".join([" ".join(lines), "", *_table(rows)])


def _table(rows: pd.DataFrame) -> list[str]:
    heads = ["case", "ours", *TITLES.values(), "ratio to the fastest"]
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    ratios = strongest(rows).set_index(CASE).ratio
    for case, part in rows.groupby(CASE, sort=False):
        model, batch, tokens, trains = case
        times = part.set_index("peer").peer_us
        said = f"{model}, {batch} x {tokens:,} tokens" + (", with gradients" if trains else "")
        cells = [said, _us(part.us.iloc[0]), *[_us(times.get(name)) for name in TITLES]]
        lines.append(f"| {' | '.join([*cells, f'{ratios[case]:.2f}' if case in ratios.index else 'none'])} |")
    return lines


def _us(value: float | None) -> str:
    if value is None or pd.isna(value):
        return "none"
    return f"{value / 1000:.2f} ms" if value >= 10000 else f"{value:.0f} us"


def _range(ratios: "pd.Series[float]") -> str:
    return f"{ratios.min():.2f}" + (f" to {ratios.max():.2f}" if len(ratios) > 1 else "")


def _tokens(counts: Iterable[int]) -> str:
    *others, last = (f"{n:,}" for n in sorted(set(counts)))
    return f"{', '.join(others)} and {last}" if others else last
