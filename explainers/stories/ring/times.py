"""Recorded times of attention over several GPUs: products and copies, the gain, and the ways side by side."""

import json
from collections.abc import Hashable, Mapping
from typing import Any

import altair as alt
import pandas as pd

from explainers.charts.palette import OKABE_ITO
from explainers.story import stage
from explainers.story.glossary import short
from explainers.story.stage import Block
from explainers.story.words import Names, Row, Words
from kernels.measure import ring_peers, rings
from kernels.recordings.tables import Provenance

WORDS = Words.of(str(__package__))
Recorded = Mapping[Hashable, Any]  # a row of a recorded table
WAYS = {
    rings.RING: "ring, copies meanwhile",
    rings.SPLIT: "whole heads on each GPU",
    rings.ONE: "the same kernel on one GPU",
    rings.LAST_RUNG: "{name} on one GPU",
    rings.NO_COPIES: "the ring's launches without copies",
    rings.COPIES: "the ring's copies only",
}
"""A way -> its words. name: of its kernel."""


def place_of(where: Provenance) -> str:
    return where.device.replace("NVIDIA ", "")


def hiding(causal: bool, order: str = "") -> Row | None:
    """The recorded products and copies of a ring with this mask and order, sustained. None without a recording.

    order: "" for any. place, date, both_ways: of the recording, and GB/s of its links. kernel: its name.
    lengths: tokens, and us of all products and of all copies. gpus: of the recording.
    tokens: on each GPU, of the longest text. products, copy: us of one round of it.
    equal: tokens on each GPU at which both take equal time, as products grow with the square of the tokens.
    orders: name -> us of the whole ring with a causal mask and the longest text.
    """
    recorded = rings.recorded()
    if recorded is None:
        return None
    table, where = recorded
    table = table[(table.status == "ok") & (table.sustained_us > 0)]
    mine = table[(table.causal == causal) & ((table.order == order) | (not order))]
    mine = mine.drop_duplicates(["seq_len", "way"]).set_index(["seq_len", "way"])
    us = mine.sustained_us.unstack().reindex(columns=[rings.NO_COPIES, rings.COPIES]).dropna()
    if us.empty:
        return None
    longest, gpus = int(us.index[-1]), int(where.more["gpus"])
    products, copy = us.iloc[-1, 0] / gpus, us.iloc[-1, 1] / (gpus - 1)
    most = table[(table.way == rings.RING) & table.causal & (table.seq_len == longest)]
    return {
        "order": order,
        "place": place_of(where),
        "date": where.date,
        "both_ways": where.more["link"]["both_ways"],
        "kernel": mine.loc[(longest, rings.NO_COPIES), "name"],
        "lengths": [
            {"tokens": int(str(n)), "products": row.iloc[0], "copies": row.iloc[1]} for n, row in us.iterrows()
        ],
        "gpus": gpus,
        "tokens": longest // gpus,
        "products": products,
        "copy": copy,
        "equal": round(longest // gpus * copy / products),
        "orders": dict(zip(most.order, most.sustained_us)),
    }


def gains() -> list[Row]:
    """The longest causal text of each recording, sustained: gpus, place, date, tokens. alone: us of the fastest way on
    one GPU. orders: name -> us of the ring, the slowest first. hides: a sentence about the fastest one."""
    found = []
    for table, where in rings.all_recorded():
        timed = table[(table.status == "ok") & (table.sustained_us > 0) & table.causal]
        turns = [ways for ways in rings.in_turns(timed[timed.seq_len == timed.seq_len.max()]) if len(ways)]
        turns.sort(key=lambda ways: -float(ways.sustained_us.iloc[0]))
        if not turns or not turns[-1].way.isin([rings.ONE, rings.LAST_RUNG]).any():
            continue
        fastest = turns[-1].to_dict("records")
        found.append(
            {
                "gpus": int(where.more["gpus"]),
                "place": place_of(where),
                "date": where.date,
                "tokens": int(timed.seq_len.max()),
                "alone": float(str(rings.fastest_alone(fastest, "sustained_us")["sustained_us"])),
                "orders": {str(ways.order.iloc[0]): float(ways.sustained_us.iloc[0]) for ways in turns},
                "hides": hides(fastest[0]),
            }
        )
    return found


def hidden_question() -> Row | None:
    """The longest ring without a mask: tokens, gpus, device. share: of the hidden copies, at least. hides: in a
    sentence. percent: of its time that the copies take without products, rested. None without a recording."""
    recorded = rings.recorded()
    if recorded is None:
        return None
    table, where = recorded
    longest = table[~table.causal & (table.seq_len == table.seq_len[~table.causal].max())].drop_duplicates("way")
    ring, copies = (longest[longest.way == way].iloc[0].to_dict() for way in (rings.RING, rings.COPIES))
    found = {"tokens": int(ring["seq_len"]), "gpus": where.more["gpus"], "device": where.device}
    return found | {"share": shares(ring)[0], "hides": hides(ring), "percent": 100 * copies["us"] / ring["us"]}


def shares(ring: Recorded) -> list[float]:
    """The share of the copies' time during which their GPU multiplies: of each recorded run, the least first."""
    if isinstance(ring.get("hidden"), str):
        return sorted(json.loads(ring["hidden"]))
    return [rings.hidden(json.loads(ring["launches"]), json.loads(ring["copies"]))]


def hides(ring: Recorded) -> str:
    found = shares(ring)
    least, most = (f"{share:.1%}".replace(".0%", "%") for share in (found[0], found[-1]))
    return WORDS.say("hides", {"runs": len(found), "least": least, "most": most, "share": found[0]})


# ---- the tab ----


def blocks() -> list[Block]:
    """The tables and timelines, or a note without a recording."""
    recorded = rings.recorded()
    if recorded is None:
        return [stage.note(WORDS.say("no_times", {}))]
    table, where = recorded
    limits = {"rows": ring_peers.ROWS, "limit": ring_peers.LIMIT}
    made: list[Block] = [stage.text(WORDS.say("times", {**vars(where), **where.more, **limits}), "recorded")]
    for turns in rings.in_turns(table):
        rows, ring = ways_of(table, turns), turns.iloc[0].to_dict()
        mask = f"causal, {ring['order']} order" if ring["causal"] else "every key"
        said = f"{ring['seq_len']:,} tokens, {mask}"
        shown = pd.DataFrame([way_row(row, rows) for row in rows if row["status"] == "ok"]).convert_dtypes()
        made += [stage.heading(said), stage.table(shown, f"{said}. {WORDS.say('columns', {})}")]
        lost = [f"{row['name']} ({str(row['reason']).splitlines()[0]})" for row in rows if row["status"] != "ok"]
        if lost:
            made.append(stage.text(f"Without a time: {'; '.join(lost)}"))
        if ring["seq_len"] == table.seq_len.max():
            busy = ", ".join(f"{gpu} multiplies {share:.0%} of the time" for gpu, share in multiplies(ring).items())
            caption = f"Recorded, one run in the picture. {hides(ring)}. {busy}."
            made.append(stage.chart(timeline(ring), f"Launches and copies of each GPU, {said}", caption))
    return made


def ways_of(table: pd.DataFrame, turns: pd.DataFrame) -> list[Row]:
    """The ways that took turns, with the peers, and whole heads under the same mask. The fastest at work is first.
    Ways without a right output are last."""
    ring = turns.iloc[0]
    same = table[(table.seq_len == ring.seq_len) & (table.causal == ring.causal)]
    more = same[(same.order == ring.order) | (same.way == rings.SPLIT)]
    rows = pd.concat([turns, more]).drop_duplicates(["name", "way"]).to_dict("records")
    return sorted(
        ({str(k): v for k, v in row.items()} for row in rows),
        key=lambda r: (r["status"] != "ok", not answers(r), r["sustained_us"]),
    )


def answers(row: Names) -> bool:
    """Whether the way has a right output. Launches only, and copies only, have none."""
    return row["way"] not in (rings.NO_COPIES, rings.COPIES) and row["flops"] == row["flops"]


def way_row(row: Names, rows: list[Row]) -> Row:
    """A row of the table of a length, mask and order. rows: its ways."""

    def over(best: Names, time: str) -> str | None:
        return f"{best[time] / row[time]:.2f}" if answers(row) and row["gpus"] != 1 else None

    single = next(one for one in rows if one["way"] == rings.ONE)
    states = json.loads(row["states"]) if isinstance(row.get("states"), str) else []
    clock, power = row.get("sustained_clock"), row.get("sustained_power")
    return {
        "way": WAYS.get(row["way"], "{way}: {name}").format(**row),
        "rested": f"{short(row['us'] / 1000)} ms",
        "speedup, rested": over(rings.fastest_alone(rows, "us"), "us"),
        "sustained": f"{short(row['sustained_us'] / 1000)} ms",
        "speedup, sustained": over(rings.fastest_alone(rows, "sustained_us"), "sustained_us"),
        "over the same kernel": over(single, "sustained_us"),
        "GPU 0 meanwhile": None if pd.isna([clock, power]).any() else gpu_state(clock, power),
        "each GPU in later runs": "; ".join(gpu_state(**state) for state in states[: int(row["gpus"])]) or None,
    }


def gpu_state(clock: float | None, power: float | None, capped: float | None = None, hot: float | None = None) -> str:
    """The clock and power of a GPU, and the shares of the readings with a limit of the clock."""
    limits = [f"{share:.0%} {name}" for name, share in (("capped", capped), ("hot", hot)) if share]
    said = [f"{value:.0f} {unit}" for value, unit in ((clock, "MHz"), (power, "W")) if value is not None]
    return ", ".join(said) + (f" ({', '.join(limits)})" if limits else "")


def spans(ring: Recorded) -> pd.DataFrame:
    """GPU, kind, step, start and end in ms of each launch and copy."""
    rows = [
        {"GPU": f"GPU {gpu}", "kind": kind, "step": step, "start": begin / 1000, "end": end / 1000}
        for kind, column in (("products", "launches"), ("copy", "copies"))
        for gpu, step, begin, end in json.loads(ring[column])
    ]
    return pd.DataFrame(rows)


def multiplies(ring: Recorded) -> dict[str, float]:
    """GPU -> the share of the run during which it multiplies."""
    found = spans(ring)
    launches, end = found[found.kind == "products"], found.end.max()
    return {str(gpu): float((own.end - own.start).sum() / end) for gpu, own in launches.groupby("GPU")}


def timeline(ring: Recorded) -> alt.Chart:
    """A row for each GPU and kind."""
    found = spans(ring)
    found["row"] = found.GPU + ", " + found.kind
    colours = alt.Scale(domain=["products", "copy"], range=[OKABE_ITO["blue"], OKABE_ITO["orange"]])
    return (
        alt.Chart(found, height=90)
        .mark_bar()
        .encode(
            x=alt.X("start:Q", title="ms"),
            x2="end:Q",
            y=alt.Y("row:N", title=None),
            color=alt.Color("kind:N", scale=colours, title=None),
            tooltip=["GPU", "kind", "step", "start", "end"],
        )
    )
