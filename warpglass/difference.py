"""The counts and the outputs of two runs, next to each other."""

from difflib import SequenceMatcher

import numpy as np
import pandas as pd

from kernels.core.spec import KernelSpec

KEYS = ["file", "line", "kind", "space", "tensor"]
COUNTS = ["requests", "wavefronts", "conflicts", "sectors", "bytes"]
Places = dict[tuple[str, int], tuple[str, int]]


def of_lines(this: pd.DataFrame, other: pd.DataFrame, places: Places) -> pd.DataFrame:
    """A row for each line and count above 0: file, line, other_line, the other KEYS, count, this, other, difference.

    this, other: tables of by_line.
    places: of in_this."""
    one = _long(this, {}).drop(columns="other_line")
    two = _long(other, {at: places.get(at, (at[0], -at[1])) for at in zip(other.file, other.line)})
    rows = one.merge(two, "outer", [*KEYS, "count"], suffixes=("_this", "_other"))
    counted = rows[["value_this", "value_other"]].astype(float).fillna(0.0)
    rows = rows.assign(this=counted.value_this, other=counted.value_other)
    rows = rows[(rows.this != 0) | (rows.other != 0)].assign(difference=rows.other - rows.this)
    rows["at"], rows["number"] = rows.line.abs(), rows["count"].map(COUNTS.index)
    rows = rows.sort_values(["file", "at", "kind", "space", "tensor", "number"])
    rows["line"] = rows.line.astype("Int64").where(rows.line > 0)
    rows["other_line"] = rows.other_line.astype("Int64")
    return rows[["file", "line", "other_line", *KEYS[2:], "count", "this", "other", "difference"]]


def of_outputs(this: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> pd.DataFrame:
    """A row for each output, with the columns of of_lines."""
    none = np.full(0, np.nan)
    found = []
    for name in {**this, **other}:
        a, b = (arrays.get(name, none).astype(np.float64) for arrays in (this, other))
        alone = [float(np.abs(array).max()) if array.size else np.nan for array in (a, b)]
        largest = float(np.abs(a - b).max()) if a.shape == b.shape and a.size else np.nan
        row = {"file": "", "kind": "output", "space": "", "tensor": name, "count": "largest value"}
        found.append({**row, "this": alone[0], "other": alone[1], "difference": largest})
    return pd.DataFrame(found)


def in_this(this: KernelSpec, other: KernelSpec) -> Places:
    """(file, line) of the other kernel -> the same line of this one. A line that moved or changed keeps its pair."""
    texts, found = dict(this.files), Places()
    for file, text in other.files:
        own = this.path.name if file == other.path.name else file
        if own not in texts:
            continue
        matcher = SequenceMatcher(None, texts[own].splitlines(), text.splitlines(), autojunk=False)
        for _, a, b, c, d in matcher.get_opcodes():
            if b - a == d - c:
                found |= {(file, c + n + 1): (own, a + n + 1) for n in range(b - a)}
    return found


def _long(lines: pd.DataFrame, places: Places) -> pd.DataFrame:
    """A row for each place and count, with the columns value and other_line, its own line."""
    at = [places.get(one, one) for one in zip(lines.file, lines.line)]
    lines = lines.rename(columns={"bytes_used": "bytes"}).assign(
        other_line=lines.line, file=[file for file, _ in at], line=[line for _, line in at]
    )
    long = lines.melt([*KEYS, "other_line"], COUNTS, "count")
    return long.groupby([*KEYS, "count"], as_index=False).agg(
        value=("value", "sum"), other_line=("other_line", "first")
    )
