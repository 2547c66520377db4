"""Recorded times of attention over several GPUs: the ways side by side, and the timeline of one run."""

import json
import math
from dataclasses import dataclass

import altair as alt
import pandas as pd

from explainers.charts.palette import OKABE_ITO
from explainers.stories.ring.orders import Against, Hiding
from explainers.story import stage
from explainers.story.stage import Block
from kernels.measure import ring_peers, rings
from kernels.recordings.tables import Provenance

WAYS = {
    rings.RING: "ring, copies meanwhile",
    rings.SPLIT: "whole heads on each GPU",
    rings.ONE: "the same kernel on one GPU",
    rings.LAST_RUNG: "{name} on one GPU",
    rings.NO_COPIES: "the ring's launches without copies",
    rings.COPIES: "the ring's copies only",
}
"""A way -> its words. name: of its kernel."""
CAPTION = (
    "Medians. The speedups are over the fastest way on one GPU: rested, sustained, and last over the same kernel, "
    "sustained. Meanwhile: in the sustained turns. Capped: the share of the readings at which the power limit held the "
    "clock down. Hot: the same for heat or another slowdown by the hardware."
)
HEIGHT = 90


def blocks() -> list[Block]:
    """The tables and timelines, or a note without a recording."""
    found = rings.recorded()
    if found is None:
        return [stage.note("No recording of the present code on several GPUs exists. A CPU yields no time.")]
    table, where = found
    link = where.more["link"]
    said = (
        f"Recorded on {where.device}, {where.date}. A copy from GPU to GPU moves {link['one_way']:g} GB/s, or "
        f"{link['both_ways']:g} GB/s if another copy comes back. All ways of our kernels took turns, after their "
        "outputs had passed the project's limit. torch ran in processes of its own, before. In its outputs, "
        f"{ring_peers.ROWS} rows of each head had to be within {ring_peers.LIMIT:g} of float64. "
        f"{str(where.more['protocol']).capitalize()}."
    )
    made: list[Block] = [stage.text(said, "recorded")]
    for (length, causal, order), rows in groups(table):
        mask = f"causal, {order} order" if causal else "every key"
        made += [
            stage.heading(f"{length:,} tokens, {mask}"),
            stage.table(
                pd.DataFrame([_row(row, rows) for row in _in_order(rows)]).convert_dtypes(),
                f"{length:,} tokens, {mask}. {CAPTION}",
            ),
        ]
        if failed := [f"{row['name']} ({_first_line(row)})" for row in rows if row["status"] != "ok"]:
            made.append(stage.text(f"Without a time: {'; '.join(failed)}"))
        ring = next(row for row in rows if row["way"] == rings.RING)
        if length == table.seq_len.max():
            made.append(stage.chart(timeline(ring), f"Launches and copies of each GPU, {mask}", _gaps(ring)))
    return made


def groups(table: pd.DataFrame) -> list[tuple[tuple[int, bool, str], list[dict[str, object]]]]:
    """The rows of each length, mask and order: ways that took turns, peers, and whole heads under the same mask."""
    found = []
    for turns in rings.in_turns(table):
        ring = next(turns.itertuples())
        same = table[(table.seq_len == ring.seq_len) & (table.causal == ring.causal)]
        more = same[(same.order == ring.order) | (same.way == rings.SPLIT)]
        own = pd.concat([turns, more]).drop_duplicates(["name", "way"])
        found.append(((int(ring.seq_len), bool(ring.causal), str(ring.order)), own.to_dict("records")))
    return found  # type: ignore[return-value]


def single(rows: list[dict[str, object]]) -> dict[str, object]:
    """The row of the same kernel on one GPU."""
    return next(row for row in rows if row["way"] == rings.ONE)


def _in_order(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """The rows with a time, the fastest at work first. Ways without a right output follow."""
    timed = [row for row in rows if row["status"] == "ok"]
    return sorted(timed, key=lambda row: (not _answers(row), float(str(row["sustained_us"]))))


def _answers(row: dict[str, object]) -> bool:
    """Whether the way has a right output. Launches only, and copies only, have none."""
    return row["way"] not in (rings.NO_COPIES, rings.COPIES) and row["flops"] == row["flops"]


def _row(row: dict[str, object], rows: list[dict[str, object]]) -> dict[str, object]:
    compares, of_all = _answers(row) and row["gpus"] != 1, rings.fastest_alone
    return {
        "way": WAYS.get(str(row["way"]), "{way}: {name}").format(**row),
        "rested": _ms(row["us"]),
        "speedup, rested": _ratio(of_all(rows, "us")["us"], row["us"]) if compares else None,
        "sustained": _ms(row["sustained_us"]),
        "speedup, sustained": _ratio(of_all(rows, "sustained_us")["sustained_us"], row["sustained_us"])
        if compares
        else None,
        "over the same kernel": _ratio(single(rows)["sustained_us"], row["sustained_us"]) if compares else None,
        "GPU 0 meanwhile": _meanwhile(row),
        "each GPU in later runs": _clocks(row),
    }


def _first_line(row: dict[str, object]) -> str:
    return str(row["reason"]).splitlines()[0]


def _clocks(row: dict[str, object]) -> str | None:
    """The clock and power of each GPU during runs, and the shares of the readings with a limit of the clock."""
    states = json.loads(str(row["states"])) if isinstance(row.get("states"), str) else []
    return "; ".join(_state(**state) for state in states[: int(str(row["gpus"]))]) or None


def _state(clock: float | None, power: float | None, capped: float | None, hot: float | None) -> str:
    limits = [f"{share:.0%} {name}" for name, share in (("capped", capped), ("hot", hot)) if share]
    said = [f"{value:.0f} {unit}" for value, unit in ((clock, "MHz"), (power, "W")) if value is not None]
    return ", ".join(said) + (f" ({', '.join(limits)})" if limits else "")


def _meanwhile(row: dict[str, object]) -> str | None:
    """The clock and power of GPU 0 in the sustained turns."""
    clock, power = (float(str(row.get(f"sustained_{name}"))) for name in ("clock", "power"))
    return None if math.isnan(clock + power) else _state(clock, power, None, None)


def _ms(us: object) -> str:
    return f"{float(str(us)) / 1000:.4g} ms"


def _ratio(before: object, now: object) -> str:
    return f"{float(str(before)) / float(str(now)):.2f}"


@dataclass(frozen=True)
class Rate:
    """A round of the longest recorded ring, sustained.

    tokens: on each GPU. products_us, copy_us: of a round. flops, bytes: a second, on each GPU.
    equal: tokens on each GPU at which products and copy take equal time, as products grow with their square.
    place: of the recording. name: of the kernel.
    """

    tokens: int
    products_us: float
    copy_us: float
    flops: float
    bytes: float
    equal: int
    place: str
    name: str


def rate(causal: bool, order: str = "") -> Rate | None:
    """The Rate of a recorded ring with this mask and order. None without a recording. order: "" for any."""
    found = rings.recorded()
    if found is None:
        return None
    table, where = found
    table = table[(table.status == "ok") & (table.sustained_us > 0) & (table.causal == causal)]
    mine = table[(table.order == order) | (not order)].sort_values("seq_len")
    ways = [mine[mine.way == way].to_dict("records") for way in (rings.NO_COPIES, rings.COPIES)]
    if not all(ways):
        return None
    products, copies = (way[-1] for way in ways)
    gpus = int(products["gpus"])
    tokens, rounds, hops = int(products["seq_len"]) // gpus, gpus, gpus - 1
    one, copy = products["sustained_us"] / rounds, copies["sustained_us"] / hops
    flops = products["flops"] / gpus / products["sustained_us"] * 1e6
    moved = copies["copied_bytes"] / gpus / copies["sustained_us"] * 1e6
    return Rate(tokens, one, copy, flops, moved, round(tokens * copy / one), place_of(where), str(products["name"]))


def place_of(where: Provenance) -> str:
    """The GPUs of a recording and its date."""
    return f"{where.device.replace('NVIDIA ', '')}, {where.date}"


def speedups(table: pd.DataFrame) -> tuple[int, float, dict[str, float]] | None:
    """The longest causal text: (tokens, us of the fastest way on one GPU, ring in an order -> us), sustained."""
    timed = table[(table.status == "ok") & (table.sustained_us > 0) & table.causal]
    turns = [one for one in rings.in_turns(timed[timed.seq_len == timed.seq_len.max()]) if len(one)]
    found = {str(one.order.iloc[0]): float(one.sustained_us.iloc[0]) for one in turns}
    if not found:
        return None
    fastest = min(turns, key=lambda one: float(one.sustained_us.iloc[0]))
    best = [{str(name): value for name, value in row.items()} for row in fastest.to_dict("records")]
    if not any(row["way"] in (rings.ONE, rings.LAST_RUNG) for row in best):
        return None
    alone = float(str(rings.fastest_alone(best, "sustained_us")["sustained_us"]))
    slowest_first = dict(sorted(found.items(), key=lambda item: -item[1]))
    return int(timed.seq_len.max()), alone, {f"{order} order": us for order, us in slowest_first.items()}


def hidden_in(table: pd.DataFrame) -> str:
    """The share of hidden copies of the longest causal ring in its fastest order, in words."""
    timed = table[(table.status == "ok") & (table.way == rings.RING) & table.causal]
    longest = timed[timed.seq_len == timed.seq_len.max()].sort_values("sustained_us")
    return "" if longest.empty else f"{hidden_said(longest.iloc[0].to_dict())}."


def hiding(causal: bool, order: str = "") -> Hiding | None:
    """The recorded products and copies of a ring with this mask and order, sustained. None without a recording.

    order: "" for any.
    """
    found = rings.recorded()
    if found is None:
        return None
    table, where = found
    table = table[(table.status == "ok") & (table.sustained_us > 0)]
    mine = table[(table.causal == causal) & ((table.order == order) | (not order))].sort_values("seq_len")
    lengths = list[Against]()
    for length, rows in mine.groupby("seq_len"):
        us = [rows[rows.way == way].sustained_us for way in (rings.NO_COPIES, rings.COPIES)]
        if all(len(one) for one in us):
            lengths.append({"tokens": int(str(length)), "us": [float(one.iloc[0]) for one in us]})
    if not lengths:
        return None
    found_rate = rate(causal, order)
    place = where.device.replace("NVIDIA ", "")
    most = table[(table.way == rings.RING) & table.causal & (table.seq_len == lengths[-1]["tokens"])]
    return {
        "said": f"recorded on {place}, {where.date}, {where.more['link']['both_ways']:.0f} GB/s",
        "place": place,
        "lengths": lengths,
        "equal": found_rate.equal if found_rate else 0,
        "orders": {str(row.order): float(str(row.sustained_us)) for row in most.itertuples()},
    }


def spans(ring: dict[str, object]) -> pd.DataFrame:
    """GPU, kind, step, start and end in ms of each launch and copy."""
    rows = [
        {"GPU": f"GPU {device}", "kind": kind, "step": step, "start": begin / 1000, "end": end / 1000}
        for kind, column in (("products", "launches"), ("copy", "copies"))
        for device, step, begin, end in json.loads(str(ring[column]))
    ]
    return pd.DataFrame(rows)


def hidden(ring: dict[str, object]) -> list[float]:
    """The share of the copies' time during which their GPU multiplies: of each recorded run, the least first."""
    if isinstance(ring.get("hidden"), str):
        return sorted(json.loads(str(ring["hidden"])))
    return [rings.hidden(json.loads(str(ring["launches"])), json.loads(str(ring["copies"])))]


def hidden_said(ring: dict[str, object]) -> str:
    """The share of hidden copies in words."""
    shares = hidden(ring)
    if len(shares) == 1:
        return f"{shares[0]:.0%} of the copies' time is hidden behind products"
    least, most = (f"{share:.1%}".replace(".0%", "%") for share in (shares[0], shares[-1]))
    said = least if least == most else f"{least} to {most}"
    if shares[0] == 1:
        return f"In all {len(shares)} runs, every copy ran during products"
    return f"In {len(shares)} runs, products hide {said} of the copies' time"


def busy(ring: dict[str, object]) -> dict[str, float]:
    """GPU -> the share of the run during which it multiplies."""
    found = spans(ring)
    launches, end = found[found.kind == "products"], found.end.max()
    return {str(gpu): float((own.end - own.start).sum() / end) for gpu, own in launches.groupby("GPU")}


def _gaps(ring: dict[str, object]) -> str:
    shares = ", ".join(f"{gpu} multiplies {share:.0%} of the time" for gpu, share in busy(ring).items())
    return f"Recorded, one run in the picture. {hidden_said(ring)}. {shares}."


def timeline(ring: dict[str, object]) -> alt.Chart:
    """A row for each GPU and kind."""
    found = spans(ring)
    found["row"] = found.GPU + ", " + found.kind
    colours = alt.Scale(domain=["products", "copy"], range=[OKABE_ITO["blue"], OKABE_ITO["orange"]])
    return (
        alt.Chart(found, height=HEIGHT)
        .mark_bar()
        .encode(
            x=alt.X("start:Q", title="ms"),
            x2="end:Q",
            y=alt.Y("row:N", title=None),
            color=alt.Color("kind:N", scale=colours, title=None),
            tooltip=["GPU", "kind", "step", "start", "end"],
        )
    )
