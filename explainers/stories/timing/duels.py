"""Duels: kernels in turns with cuDNN, problem by problem, in words and as a table."""

import altair as alt
import pandas as pd

from explainers.charts import palette
from explainers.charts.palette import kernel_colour
from explainers.stories.timing.wording import not_timed
from explainers.story import stage
from explainers.story.glossary import count
from explainers.story.stage import Block
from kernels.measure import duels
from kernels.measure.peers import TITLES
from kernels.recordings.tables import Provenance

SCORES = {
    "random": "normal",
    "rising": "rising",
    "sink": "one far above",
    "low_rank": "of low rank",
    "climb_5": "5 higher from tile to tile",
    "climb_9.5": "9.5 higher from tile to tile",
}
MOST_LOSSES = 4  # the most losses in a sentence


def blocks(made: pd.DataFrame, where: Provenance) -> list[Block]:
    """Returns the blocks for a recorded table of duels of the kernels' present code."""
    ran = duels.headline(made)
    timed = ran[duels.as_tuned(ran)]
    said = (
        f"Recorded on {where.device}, {where.date}: all run again and again in one process and take turns, since "
        "a chip that is limited by power is slower next to a fast neighbour. The ratio is the median of the rounds. "
        f"Above 1, ours is faster. RMS error: over {peer(ran)}'s, both against float64."
    )
    return [
        stage.heading(f"In turns with {peer(ran)}"),
        stage.text(state(ran)),
        *(stage.text(sentence(name, part)) for name, part in timed.groupby("name", sort=False)),
        *(stage.text(text) for text in without_time(made)),
        *(stage.text(text) for text in not_timed(made.peer)),
        stage.chart(chart(timed), f"How many times as fast as {peer(ran)} each kernel is, over the tokens", said),
        stage.table(table(timed), "Every problem, with the least and the largest ratio of the rounds."),
        *(block for name, part in ran.groupby("name", sort=False) for block in price(name, part)),
    ]


def peer(rows: pd.DataFrame) -> str:
    """Returns the name of the peer of these rows."""
    names = list(dict.fromkeys(rows.peer))
    return TITLES.get(names[0], names[0]) if len(names) == 1 else "the fastest accurate peer"


def state(ran: pd.DataFrame) -> str:
    """Returns a sentence about the clock and power of the chip during these duels."""
    if ran.sustained_ratio.isna().any():
        return "Times are rested: turns of 50 ms."
    mhz, watts = (f"{ran[f'sustained_{figure}'].median():,.0f}" for figure in ("clock", "power"))
    other = [f"{ran[f'sustained_peer_{figure}'].median():,.0f}" for figure in ("clock", "power")]
    return (
        f"Times are sustained: turns of 400 ms on a chip at work. Ours run at {mhz} MHz and {watts} W in the median, "
        f"{peer(ran)} at {other[0]} MHz and {other[1]} W."
    )


def without_time(table: pd.DataFrame) -> list[str]:
    """Returns a sentence for each kernel or peer that missed the rule, with its reason on the first problem."""
    said = []
    for name, part in table[table.status == "wrong"].drop_duplicates(["name", "problem", "settings"]).groupby("name"):
        said.append(f"{name} gets no time on {count(len(part), 'row')}. {part.iloc[0].reason}")
    for who, status in (("is less accurate", "less accurate"), ("gets no time", "wrong")):
        rows = table[table.peer_status == status]
        for name, part in rows.drop_duplicates(["peer", "problem"]).groupby("peer"):
            said.append(f"{TITLES.get(name, name)} {who} on {count(len(part), 'problem')}. {part.iloc[0].reason}")
    return said


def price(name: str, ran: pd.DataFrame) -> list[Block]:
    """Returns a kernel's error and speed at each value of each constant that trades one for the other.

    The result is empty for a kernel that ran only with its own constants.
    """
    rows = ran[ran.duplicated("problem", keep=False)]
    values = {c: rows.settings.str.extract(rf"\b{c}=(\d+)", expand=False).astype(float) for c in duels.PRICED}
    varied = {c: part for c, part in values.items() if part.nunique() > 1}
    usual = {c: part.mode()[0] for c, part in varied.items()}
    found = []
    for constant, part in varied.items():
        own = [other == usual[c] for c, other in varied.items() if c != constant]
        kept = rows[pd.concat(own, axis=1).all(axis=1)] if own else rows
        found += _price(name, constant, kept.assign(value=part.astype(int)))
    return found


def _price(name: str, constant: str, rows: pd.DataFrame) -> list[Block]:
    """Returns a kernel's error and speed at each value of one constant."""
    rows = rows.assign(rms=rows.rms_error / rows.peer_rms_error).sort_values("value")
    worst, slowest = rows.groupby("value").rms.max(), rows.groupby("value").ratio.min()
    other = peer(rows)
    each = "; ".join(f"{v:,}: error {worst[v]:.2f}, speed {slowest[v]:.2f}" for v in worst.index)
    shown = [
        {
            "scores": _scores(row),
            constant: row.value,
            "TFLOP/s": f"{row.tflops:.0f}",
            "ratio": f"{row.ratio:.3f}",
            "RMS error": f"{row.rms:.3f}",
        }
        for _, row in rows.sort_values(["problem", "value"]).iterrows()
    ]
    return [
        stage.heading(f"The cost of {constant} in {name}"),
        stage.text(
            f"Its largest RMS error and its lowest speed over {count(rows.problem.nunique(), 'kind')} of scores, both "
            f"as multiples of {other}'s, for each {constant}. {each}."
        ),
        stage.table(pd.DataFrame(shown), f"{name} with each {constant}. Ratio and error are over {other}'s."),
    ]


def chart(timed: pd.DataFrame) -> alt.TopLevelMixin:
    """Returns the chart of the ratio over the tokens of a sequence, for each kernel, head_dim and mask.

    It has only plain fp16 problems with as many KV heads as heads. The line at 1 is the peer.
    """
    plain = timed[
        (timed.dtype == "float16")
        & (timed.scores == "random")
        & (timed.score_scale == 1)
        & (timed.num_heads == timed.num_kv_heads)
    ]
    plain = plain.assign(
        shape=[f"head_dim {row.head_dim}{', causal' if row.causal else ''}" for _, row in plain.iterrows()]
    )
    kernels = list(dict.fromkeys(plain["name"]))
    rows = plain[["name", "shape", "seq_len", "ratio", "tflops", "peer_tflops"]]
    lines = (
        alt.Chart(rows)
        .mark_line(point=True)
        .encode(
            alt.X("seq_len:Q", title="tokens of a sequence")
            .scale(type="log", base=2)
            .axis(format=",d", values=sorted(plain.seq_len.unique().tolist())),
            alt.Y("ratio:Q", title=f"ratio: {peer(timed)}'s time over ours").scale(zero=False),
            alt.Color("name:N", title="kernel").scale(domain=kernels, range=[kernel_colour(name) for name in kernels]),
            alt.StrokeDash("shape:N").legend(None),
            alt.Shape("shape:N", title="shape").legend(symbolFillColor=palette.AXIS, symbolStrokeColor=palette.AXIS),
            tooltip=["name:N", "shape:N", "seq_len:Q", "ratio:Q", "tflops:Q", "peer_tflops:Q"],
        )
    )
    even = alt.Chart(pd.DataFrame({"ratio": [1.0]})).mark_rule(color=palette.AXIS).encode(y="ratio:Q")
    return alt.layer(even, lines).properties(height=260)


def sentence(name: str, timed: pd.DataFrame) -> str:
    """Returns a sentence: the number of problems that a kernel wins, its best and worst ratio, and its losses."""
    other = peer(timed)
    best, worst = timed.loc[timed.ratio.idxmax()], timed.loc[timed.ratio.idxmin()]
    by_peers = sorted(timed.groupby("met", sort=False), key=lambda pair: -len(pair[0].split()))
    won = f"{name} is {', and '.join(_won(part) for _, part in by_peers)}"
    rms = timed.rms_error / timed.peer_rms_error
    least, largest = f"{rms.min():.2f}", f"{rms.max():.2f}"
    return (
        f"{won}: from {worst.ratio:.2f} times as fast ({_named(worst)}) to {best.ratio:.2f} times ({_named(best)}). "
        f"{losses(timed)}Its RMS error is {least if least == largest else f'{least} to {largest}'} times {other}'s."
    )


def _won(part: pd.DataFrame) -> str:
    """Returns the number of a kernel's problems in which it is faster than all its peers."""
    names = part.met.iloc[0].split()
    rivals = " and ".join(TITLES.get(name, name) for name in names)
    return f"faster than {rivals} in {(part.ratio > 1).sum()} of {count(len(part), 'problem')}"


def losses(timed: pd.DataFrame) -> str:
    """Returns a sentence about the lost problems, the largest loss first. Empty without a loss."""
    lost = timed[timed.ratio < 1].sort_values("ratio")
    if lost.empty:
        return ""
    named = "; ".join(f"{row.ratio:.2f} at {_named(row)}" for _, row in lost.head(MOST_LOSSES).iterrows())
    most = " The largest losses:" if len(lost) > MOST_LOSSES else ""
    return f"It is slower in {count(len(lost), 'problem')}{'.' if most else ':'}{most} {named}. "


def _meanwhile(row: pd.Series) -> dict[str, str]:
    """Returns the clock and power of both during their sustained turns, if the row has them."""
    pairs = {"MHz": "clock", "W": "power"}
    both = {unit: (row[f"sustained_{figure}"], row[f"sustained_peer_{figure}"]) for unit, figure in pairs.items()}
    return {
        unit: f"{ours:,.0f} / {theirs:,.0f}" for unit, (ours, theirs) in both.items() if pd.notna([ours, theirs]).all()
    }


def _named(row: pd.Series) -> str:
    mask = ", causal" if row.causal else ""
    heads = f", {row.num_heads} heads on {row.num_kv_heads} KV heads" if row.num_heads != row.num_kv_heads else ""
    scores = "" if row.scores == "random" and row.score_scale == 1 else f", scores {_scores(row)}"
    return f"{row.seq_len:,} tokens, head_dim {row.head_dim}, {row['dtype']}{mask}{heads}{scores}"


def _scores(row: pd.Series) -> str:
    return SCORES[row.scores] + (f" x {row.score_scale:g}" if row.score_scale != 1 else "")


def table(timed: pd.DataFrame) -> pd.DataFrame:
    """Returns a row for each kernel and problem, and a column for the peer if the table has several."""
    other, alone = peer(timed), timed.peer.nunique() == 1
    rows = [
        {
            "kernel": row["name"],
            "type": row["dtype"],
            "head_dim": row.head_dim,
            "tokens": row.seq_len,
            "batch": row.batch,
            "heads": f"{row.num_heads}" + (f", {row.num_kv_heads} KV" if row.num_kv_heads != row.num_heads else ""),
            "mask": "causal" if row.causal else "none",
            "scores": _scores(row),
            "TFLOP/s": f"{row.tflops:.0f}",
            **({} if alone else {"peer": TITLES.get(row.peer, row.peer)}),
            other: f"{row.peer_tflops:.0f}",
            "ratio": f"{row.ratio:.3f} ({row.ratio_low:.3f} to {row.ratio_high:.3f})",
            **_meanwhile(row),
            "RMS error": f"{row.rms_error / row.peer_rms_error:.3f}",
        }
        for _, row in timed.iterrows()
    ]
    return pd.DataFrame(rows)
