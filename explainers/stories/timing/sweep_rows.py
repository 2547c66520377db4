"""The rows of one sweep: their labels, colours and baselines, and the comparison with a baseline."""

from collections.abc import Iterable, Mapping

import pandas as pd

from explainers.charts import palette
from explainers.models.recorded_times import shown_name, sizes
from explainers.stories.timing.sweep_search import SWEPT, constant_of, without_constants
from explainers.stories.timing.timed_row import Value
from explainers.stories.timing.wording import plain, title_of
from kernels import catalog
from kernels.measure import flashinfer_calls
from kernels.measure.peers import NAMES, PAGED, PEERS, SDPA
from kernels.measure.reports import RATIO, labelled, speedups

ITSELF = "itself"  # a baseline of sweeps over a constant: the same kernel at the constant's first value


def _fixed(table: pd.DataFrame, fixed: Mapping[str, Value]) -> pd.Series:
    keep = pd.Series(True, index=table.index)
    for name, value in fixed.items():
        column = table[name] if name in table else constant_of(table, name)
        keep &= column.isna() if pd.isna(value) else column == value
    return keep


def _of_lines(part: pd.DataFrame, field: str) -> pd.DataFrame:
    """Returns the rows without constants that somebody chose at one size only. Those rows belong to another sweep."""
    sizes = part.groupby(["name", part.settings.fillna("")])[field].transform("nunique")
    return part[part.own_settings.astype(bool) | (sizes > 1)]


def slice_of(table: pd.DataFrame, field: str, fixed: Mapping[str, Value]) -> pd.DataFrame:
    """Returns the rows of one sweep with their labels, sorted by the field. Rows without a time remain."""
    part = table[_fixed(table, fixed) & table.seq_len.notna()]
    if field in SWEPT:
        part = labelled(_of_lines(_of_one_layout(part, field), field))
    else:
        part = part.assign(**{field: constant_of(part, field)})
        part = part[part[field].notna()]
        said = part.settings.map(lambda text: without_constants(text, {field, *fixed}))
        part = labelled(part.assign(settings=said)).assign(settings=part.settings)
        part = part[part.groupby("label")[field].transform("nunique") > 1]  # one value is no line
    return at_work(part.sort_values([field, "name"], kind="stable").reset_index(drop=True))


def at_work(part: pd.DataFrame) -> pd.DataFrame:
    """Returns the rows of a sweep with the column `state`: sustained or rested.

    If every timed row has a sustained time, that time replaces the rested one.
    """
    timed = part.status == "ok"
    if "sustained_us" not in part or not timed.any() or part.sustained_us[timed].isna().any():
        return part.assign(state="rested")
    slower = part.sustained_us / part.median_us
    times = {f"{name}_us": part[f"sustained{end}_us"] for name, end in _SUSTAINED}
    rates = {name: part[name] / slower for name in ("tflops", "tokens_per_s", "gb_per_s", "roof_percent")}
    return part.assign(**times, **rates, state="sustained")


LAST = 10**6  # the position of the first peer, after all kernels
_SUSTAINED = (("median", ""), ("p10", "_p10"), ("p90", "_p90"))


def _of_one_layout(part: pd.DataFrame, field: str) -> pd.DataFrame:
    """Returns the rows without the slower one of FlashInfer's two layouts of a cache, on each GPU.

    The largest size with a time in both layouts decides. Else the layout with fewer times goes.
    """
    slower = []
    for _, own in part[part["name"].isin(PAGED)].groupby(["device", "source"], sort=False):
        times = own.assign(median_us=own.median_us.where(own.status == "ok")).pivot_table(
            index=field, columns="name", values="median_us", dropna=False
        )
        for one in times:
            other = flashinfer_calls.other_layout(one)
            if other not in times or one < other:
                continue
            pair = times[[one, other]]
            both = pair.dropna()
            dropped = both.iloc[-1].idxmax() if len(both) else pair.count().idxmin()
            slower += own.index[own["name"] == dropped].tolist()
    return part.drop(index=slower)


def drawn_layout(name: str, present: Iterable[str]) -> str:
    """Returns a label. For FlashInfer it is the label of the present layout."""
    if name not in PAGED or name in present:
        return name
    other = flashinfer_calls.other_layout(name)
    return other if other in present else name


def labels(part: pd.DataFrame) -> list[str]:
    """Returns the labels with a time: kernels in the catalogue's order, other kernels, peers in their order."""
    kernels = {name: number for number, name in enumerate(catalog.current().kernels)}
    peers = {name: LAST + number for number, name in enumerate(NAMES)}
    position = kernels | peers
    timed = part[part.status == "ok"].drop_duplicates("label")
    order = {label: position.get(name, LAST - 1) for label, name in zip(timed.label, timed["name"])}
    return sorted(order, key=lambda label: (order[label], label))


def baselines(part: pd.DataFrame, field: str) -> list[str]:
    """Returns the possible baselines. The first is the default: the fastest peer, else the first kernel."""
    names = labels(part)
    first = fastest_peer(part, field) or (names[0] if names else "")
    return [first, *(n for n in names if n != first)] if field in SWEPT else [ITSELF, *names]


def fastest_peer(part: pd.DataFrame, field: str) -> str:
    """Returns the label of the fastest peer at the largest size with a peer, or "". Only a right result has a time."""
    timed = part[(part.status == "ok") & (part.kind == "peer")]
    last = timed[timed[field] == timed[field].max()]
    return "" if last.empty else str(last.label[last.median_us.idxmin()])


def baseline_name(baseline: str, part: pd.DataFrame, field: str) -> str:
    """Returns a baseline in words."""
    return (
        f"itself at {field} {plain(sizes(part, field)[0])}"
        if baseline == ITSELF
        else shown_name(baseline, title_of(part))
    )


def compared(part: pd.DataFrame, field: str, baseline: str) -> pd.DataFrame:
    """Returns the timed rows with speedup, speedup_low and speedup_high against the baseline.

    A row and its baseline have one problem. In a sweep over a constant they also have one value of the constant, or the
    baseline is the kernel's own first value.
    """
    if field in SWEPT:
        return speedups(part, baseline)
    timed = part[part.status == "ok"].copy()
    same = ["l2", "device", "date", "source"]
    if baseline == ITSELF:
        on, candidates = [*same, "label"], timed.sort_values(field, kind="stable")
    else:
        on, candidates = [*same, field], timed[timed.label == baseline]
    base = candidates.drop_duplicates(on)
    found = timed[on].merge(base[[*on, "median_us", "p10_us", "p90_us"]], on=on, how="left")
    for end, (above, below) in RATIO.items():
        timed[f"speedup{end}"] = found[above].to_numpy(float) / timed[below].to_numpy(float)
    return timed


def colours(names: Iterable[str]) -> dict[str, str]:
    """Returns label -> colour. A kernel's colour follows its place in its family, a peer's its place among the peers.

    Other settings of a kernel take the remaining colours.
    """
    return palette.told_apart({name: _own_colour(name.split()[0]) for name in names})


def _own_colour(name: str) -> str:
    if name in PAGED:  # no chart has both these and the peers after torch's SDPA
        ways = list(dict.fromkeys(flashinfer_calls.ways(one)[1] for one in PAGED))
        after = palette.PEERS[len(SDPA) :]
        return after[ways.index(flashinfer_calls.ways(name)[1]) % len(after)]
    if name in PEERS:
        return palette.PEERS[PEERS.index(name)]
    return palette.kernel_colour(name)
