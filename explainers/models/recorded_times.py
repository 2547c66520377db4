"""Names and axes of recorded times, for the charts and sentences of several stories."""

import re
from collections.abc import Mapping
from functools import cache

import altair as alt
import pandas as pd

from explainers.charts.palette import AXIS
from kernels import catalog
from kernels.measure.bench_rows import problem_type_of
from kernels.measure.peers import PAGED
from kernels.recordings import tables

READ = {
    "sdpa_flash": "FlashAttention-2 (torch flash)",
    "flash_attn_3": "FlashAttention 3",
    "flash_attn_4": "FlashAttention 4",
    "flashinfer": "FlashInfer",
    **PAGED,
}  # names of peers in words


FLOOR = "sdpa_cudnn"  # torch's fastest implementation over contiguous K and V


def shown_name(label: str, title: str = "") -> str:
    """Returns a label in words: torch's implementations and libraries by their usual names.

    title: the title of the problem. Over a paged cache it marks FLOOR as a floor.
    """
    name = READ.get(label) or re.sub(r"^sdpa_", "torch ", label)
    return f"{name} (floor)" if label == FLOOR and is_paged(title) else name


@cache
def is_paged(title: str) -> bool:
    """Whether problems with this title read a paged cache."""
    kind = problem_type_of(title)
    return kind is not None and kind.attends_to_cache()


MAIN = {"batch": 4, "num_heads": 16, "head_dim": 128}  # the problem with times of all our forward kernels
LENGTH = 4096  # with all of them


def of_problem(table: pd.DataFrame, wanted: Mapping[str, object]) -> pd.DataFrame:
    """The timed rows of a problem, with their ids in `key`: kernels of the present code, as tuned, and peers."""
    rows = table[table.status.isin(tables.TIMED) & (table.num_kv_heads == table.num_heads)]
    for field, value in wanted.items():
        rows = rows[rows[field] == value]
    here = {name: spec.code_hash for name, spec in catalog.current().kernels.items()}
    is_peer = ~rows["name"].isin(here)
    rows = rows[is_peer | (rows.code_hash == rows["name"].map(here))]
    if "own_settings" in rows:
        rows = rows[rows.own_settings.astype(bool)]
    ids = [name if name in here else f"{name} {dtype}" for name, dtype in zip(rows["name"], rows["dtype"])]
    return rows.assign(key=ids)


UNITS = {"seq_len": "tokens"}  # the sizes with a plain name


LOG = alt.Scale(type="log", nice=False, padding=12)


def size_axis(rows: pd.DataFrame, field: str) -> alt.X:
    """Returns the x axis: a tick at each timed value of a size or a constant."""
    ticks = sizes(rows, field)
    log = min(ticks, default=1) > 0
    scale = (
        alt.Scale(type="log", base=2, nice=False, padding=14) if log else alt.Scale(zero=False, nice=False, padding=14)
    )
    title = f"{UNITS[field]} ({field})" if field in UNITS else field
    axis = alt.Axis(values=ticks, format=",d", grid=False)
    return alt.X(f"{field}:Q", title=title, scale=scale, axis=axis)


def sizes(part: pd.DataFrame, field: str) -> list[float]:
    """Returns the values of the field, in order. A value may have no time."""
    return sorted(float(v) for v in part[field].dropna().unique())


def equal_line() -> alt.Chart:
    """Returns a rule at the ratio 1."""
    return alt.Chart(pd.DataFrame({"one": [1.0]})).mark_rule(color=AXIS, strokeDash=[4, 4]).encode(y="one:Q")
