"""Duels: kernels that took turns with cuDNN, problem by problem, in words and as a table."""

from typing import Any

import altair as alt
import pandas as pd

from explainers import palette, stage
from explainers.glossary import count
from explainers.palette import kernel_colour
from explainers.stage import Block
from kernels.timing import duels
from kernels.timing.tables import Provenance

SCORES = {"random": "normal", "rising": "rising", "sink": "one far above", "low_rank": "of low rank"}


def blocks(made: pd.DataFrame, where: Provenance) -> list[Block]:
    """What is shown of a recorded table of duels (timing.duels) whose rows are of kernels' present code."""
    ran = made[made.status == "ok"]
    timed = ran[duels.as_tuned(ran)]
    said = (
        f"Recorded on {where.device}, {where.date}: both run again and again in one process and take turns, since a "
        "chip that is limited by power is slower beside a fast neighbour: so cuDNN's own figure differs from kernel to "
        "kernel. The ratio is the median of the rounds; above 1 ours is faster. RMS error: over cuDNN's, both against "
        "float64."
    )
    return [
        stage.heading("In turns with cuDNN"),
        *(stage.text(sentence(name, part)) for name, part in timed.groupby("name", sort=False)),
        stage.chart(chart(timed), "How many times as fast as cuDNN each kernel is, over the tokens", said),
        stage.table(table(timed), "Every problem, with the least and the largest ratio of the rounds."),
        *(block for name, part in ran.groupby("name", sort=False) for block in price(name, part)),
    ]


def price(name: str, ran: pd.DataFrame) -> list[Block]:
    """What a kernel's error and its speed are at each value of the constant that trades one for the other, on every
    kind of scores; nothing of a kernel that was run with its own constants alone."""
    rows = ran[ran.duplicated("problem", keep=False)]
    if rows.empty:
        return []
    value = rows.settings.str.extract(rf"\b{duels.PRICED}=(\d+)", expand=False).astype(int)
    rows = rows.assign(value=value, rms=rows.rms_error / rows.peer_rms_error).sort_values("value")
    worst, slowest = rows.groupby("value").rms.max(), rows.groupby("value").ratio.min()
    each = "; ".join(f"{v:,}: error {worst[v]:.2f}, speed {slowest[v]:.2f}" for v in worst.index)
    shown = [
        {
            "scores": _scores(row),
            duels.PRICED: row.value,
            "TFLOP/s": f"{row.tflops:.0f}",
            "ratio": f"{row.ratio:.3f}",
            "RMS error": f"{row.rms:.3f}",
        }
        for _, row in rows.sort_values(["problem", "value"]).iterrows()
    ]
    return [
        stage.heading(f"What accuracy costs {name}"),
        stage.text(
            f"Its largest RMS error and its lowest speed over {count(rows.problem.nunique(), 'kind')} of scores, both "
            f"as multiples of cuDNN's, for each {duels.PRICED}. {each}."
        ),
        stage.table(pd.DataFrame(shown), f"{name} with each {duels.PRICED}; ratio and error over cuDNN's."),
    ]


def chart(timed: pd.DataFrame) -> alt.TopLevelMixin:
    """The ratio over the tokens of a sequence, for each kernel, head_dim and mask, of plain fp16 problems with as many
    KV heads as heads; the line at 1 is cuDNN."""
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
            alt.Y("ratio:Q", title="ratio: cuDNN's time over ours").scale(zero=False),
            alt.Color("name:N", title="kernel").scale(domain=kernels, range=[kernel_colour(name) for name in kernels]),
            alt.StrokeDash("shape:N").legend(None),
            alt.Shape("shape:N", title="shape").legend(symbolFillColor=palette.AXIS, symbolStrokeColor=palette.AXIS),
            tooltip=["name:N", "shape:N", "seq_len:Q", "ratio:Q", "tflops:Q", "peer_tflops:Q"],
        )
    )
    even = alt.Chart(pd.DataFrame({"ratio": [1.0]})).mark_rule(color=palette.AXIS).encode(y="ratio:Q")
    return alt.layer(even, lines).properties(height=260)


def sentence(name: str, timed: pd.DataFrame) -> str:
    """In how many problems a kernel is the faster one, and its best and worst."""
    faster = timed[timed.ratio > 1]
    best, worst = timed.loc[timed.ratio.idxmax()], timed.loc[timed.ratio.idxmin()]
    won = f"{name} is faster than cuDNN in {len(faster)} of {count(len(timed), 'problem')}"
    rms = timed.rms_error / timed.peer_rms_error
    least, largest = f"{rms.min():.2f}", f"{rms.max():.2f}"
    return (
        f"{won}: from {worst.ratio:.2f} times as fast ({_named(worst)}) to {best.ratio:.2f} times ({_named(best)}). "
        f"Its RMS error is {least if least == largest else f'{least} to {largest}'} times cuDNN's."
    )


def _named(row: Any) -> str:
    mask = ", causal" if row.causal else ""
    heads = f", {row.num_heads} heads on {row.num_kv_heads} KV heads" if row.num_heads != row.num_kv_heads else ""
    scores = "" if row.scores == "random" and row.score_scale == 1 else f", scores {_scores(row)}"
    return f"{row.seq_len:,} tokens, head_dim {row.head_dim}, {row['dtype']}{mask}{heads}{scores}"


def _scores(row: Any) -> str:
    return SCORES[row.scores] + (f" x {row.score_scale:g}" if row.score_scale != 1 else "")


def table(timed: pd.DataFrame) -> pd.DataFrame:
    """A row for each kernel and problem."""
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
            "cuDNN": f"{row.peer_tflops:.0f}",
            "ratio": f"{row.ratio:.3f} ({row.ratio_low:.3f} to {row.ratio_high:.3f})",
            "RMS error": f"{row.rms_error / row.peer_rms_error:.3f}",
        }
        for _, row in timed.iterrows()
    ]
    return pd.DataFrame(rows)
