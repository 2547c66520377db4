"""Duels: kernels in turns with cuDNN, and duels that a problem declares, size by size, in words, charts and tables."""

import altair as alt
import pandas as pd

from explainers.charts import palette
from explainers.charts.palette import kernel_colour
from explainers.models.recorded_times import shown_name
from explainers.stories.timing.wording import WORDS, not_timed
from explainers.story import stage
from explainers.story.glossary import count, listed
from explainers.story.stage import Block
from kernels import catalog
from kernels.measure import duels
from kernels.measure.peers import PEERS, TITLES
from kernels.recordings.tables import Provenance

SHAPE = ["seq_len", "head_dim", "causal", "dtype"]


def blocks(made: pd.DataFrame, where: Provenance) -> list[Block]:
    """The blocks for a recorded table of duels of the kernels' present code."""
    ran = duels.headline(made)
    timed, other = ran[duels.as_tuned(ran)], peer(ran)
    said = WORDS.say("duel_source", {"device": where.device, "date": where.date, "peer": other})
    return [
        stage.heading(f"In turns with {other}"),
        stage.text(state(ran)),
        *(stage.text(sentence(name, part)) for name, part in timed.groupby("name", sort=False)),
        *(stage.text(text) for text in without_time(made)),
        *(stage.text(text) for text in not_timed(made.peer)),
        stage.chart(chart(timed), f"How many times as fast as {other} each kernel is, over the tokens", said),
        stage.table(table(timed), "Every problem, with the least and the largest ratio of the rounds."),
        *(block for name, part in ran.groupby("name", sort=False) for block in price(name, part)),
    ]


def peer(rows: pd.DataFrame) -> str:
    """The name of the peer of these rows."""
    names = list(dict.fromkeys(rows.peer))
    return TITLES.get(names[0], names[0]) if len(names) == 1 else "the fastest accurate peer"


def state(ran: pd.DataFrame) -> str:
    """The clock and power of the chip during these duels."""
    figures = ("clock", "power", "peer_clock", "peer_power")
    medians = {figure: ran[f"sustained_{figure}"].median() for figure in figures if f"sustained_{figure}" in ran}
    return WORDS.say("duel_state", {"rested": ran.sustained_ratio.isna().any(), "peer": peer(ran), **medians})


def without_time(table: pd.DataFrame) -> list[str]:
    """A sentence for each kernel or peer that missed the rule, with its reason on the first problem."""
    said = []
    for name, part in table[table.status == "wrong"].drop_duplicates(["name", "problem", "settings"]).groupby("name"):
        said.append(f"{name} gets no time on {count(len(part), 'row')}. {part.iloc[0].reason}")
    for who, status in (("is less accurate", "less accurate"), ("gets no time", "wrong")):
        rows = table[table.peer_status == status]
        for name, part in rows.drop_duplicates(["peer", "problem"]).groupby("peer"):
            said.append(f"{TITLES.get(name, name)} {who} on {count(len(part), 'problem')}. {part.iloc[0].reason}")
    return said


def price(name: str, ran: pd.DataFrame) -> list[Block]:
    """A kernel's error and speed at each value of each constant that trades one for the other.

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
    rows = rows.assign(rms=rows.rms_error / rows.peer_rms_error).sort_values("value")
    worst, slowest = rows.groupby("value").rms.max(), rows.groupby("value").ratio.min()
    each = [{"value": v, "error": worst[v], "speed": slowest[v]} for v in worst.index]
    names = {"kinds": rows.problem.nunique(), "peer": peer(rows), "constant": constant, "each": each}
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
        stage.text(WORDS.say("price", names)),
        stage.table(pd.DataFrame(shown), f"{name} with each {constant}. Ratio and error are over {peer(rows)}'s."),
    ]


def _tokens(rows: pd.DataFrame, title: str) -> alt.X:
    ticks = sorted(rows.seq_len.unique().tolist())
    return alt.X("seq_len:Q", title=title).scale(type="log", base=2).axis(format=",d", values=ticks)


def chart(timed: pd.DataFrame) -> alt.TopLevelMixin:
    """The chart of the ratio over the tokens of a sequence, for each kernel, head_dim and mask.

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
            _tokens(plain, "tokens of a sequence"),
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
    """The number of problems that a kernel wins, its best and worst ratio, and its losses, the largest first."""
    wins = []
    for met, part in sorted(timed.groupby("met", sort=False), key=lambda pair: -len(pair[0].split())):
        rivals = " and ".join(TITLES.get(one, one) for one in met.split())
        wins.append(f"faster than {rivals} in {(part.ratio > 1).sum()} of {count(len(part), 'problem')}")
    rms = timed.rms_error / timed.peer_rms_error
    least, largest = f"{rms.min():.2f}", f"{rms.max():.2f}"
    ends = {"best": timed.loc[timed.ratio.idxmax()], "worst": timed.loc[timed.ratio.idxmin()]}
    lost = timed[timed.ratio < 1].sort_values("ratio")
    names = {
        **{what: {"ratio": row.ratio, "said": _named(row)} for what, row in ends.items()},
        "lost": [{"ratio": row.ratio, "said": _named(row)} for _, row in lost.iterrows()],
        "rms": least if least == largest else f"{least} to {largest}",
    }
    return WORDS.say("duel", {"name": name, "wins": wins, "peer": peer(timed), **names})


def _named(row: pd.Series) -> str:
    mask = ", causal" if row.causal else ""
    heads = f", {row.num_heads} heads on {row.num_kv_heads} KV heads" if row.num_heads != row.num_kv_heads else ""
    scores = "" if row.scores == "random" and row.score_scale == 1 else f", scores {_scores(row)}"
    return f"{row.seq_len:,} tokens, head_dim {row.head_dim}, {row['dtype']}{mask}{heads}{scores}"


def _scores(row: pd.Series) -> str:
    return WORDS.table("scores")[row.scores] + (f" x {row.score_scale:g}" if row.score_scale != 1 else "")


def table(timed: pd.DataFrame) -> pd.DataFrame:
    """A row for each kernel and problem, with clock and power during sustained turns, and a column for the peer if the
    table has several."""
    other, alone, rows = peer(timed), timed.peer.nunique() == 1, []
    for _, row in timed.iterrows():
        pairs = {unit: (row[f"sustained_{one}"], row[f"sustained_peer_{one}"]) for unit, one in _MEANWHILE.items()}
        meanwhile = {unit: f"{a:,.0f} / {b:,.0f}" for unit, (a, b) in pairs.items() if pd.notna([a, b]).all()}
        rows.append(
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
                **meanwhile,
                "RMS error": f"{row.rms_error / row.peer_rms_error:.3f}",
            }
        )
    return pd.DataFrame(rows)


_MEANWHILE = {"MHz": "clock", "W": "power"}


# ---- declared duels ----


def titles(made: pd.DataFrame) -> str:
    """The kinds of problems in the table."""
    return listed(list(dict.fromkeys(catalog.find(name).problem_type.title for name in made["name"])))


def turns(made: pd.DataFrame, where: Provenance) -> list[Block]:
    """The blocks for a recorded table of declared duels of the kernels' present code."""
    rows = sustained(made)
    own = rows[duels.as_tuned(rows)]
    said = WORDS.say("turns_source", {"device": where.device, "date": where.date})
    return [
        stage.heading(titles(made)),
        *(stage.text(text) for name, part in own.groupby("name", sort=False) for text in said_of(name, part)),
        stage.chart(turns_chart(lines(own)), "TFLOP/s of each kernel and peer over the tokens, for each shape", said),
        *(stage.text(text) for text in prices(rows)),
        stage.table(turns_table(own), "Sustained TFLOP/s of every problem. A ratio is a peer's time over ours."),
    ]


def sustained(made: pd.DataFrame) -> pd.DataFrame:
    """The rows with a sustained time on both sides, in the order of rungs."""
    rows = made[(made.status == "ok") & (made.peer_status == "ok") & made.sustained_ratio.notna()]
    rung = rows["name"].map(lambda name: catalog.find(name).rung)
    return rows.assign(rung=rung).sort_values(["rung", *SHAPE, "peer"], kind="stable")


def said_of(name: str, own: pd.DataFrame) -> list[str]:
    """A kernel's range of TFLOP/s and of ratios to each peer, and its costs in its own words."""
    peers = []
    for rival in (rival for rival in PEERS if rival in set(own.peer)):
        ratio = own.sustained_ratio[own.peer == rival]
        slower, said = own.loc[ratio.index[ratio < 1]], ""
        if len(slower) == 1 < len(ratio):
            row = slower.iloc[0]
            mask = "causal" if row.causal else "full"
            said = f"{row.seq_len:,} tokens, {heads_of(row)}, head_dim {row.head_dim}, {mask}, {row['dtype']}"
        peers.append({"name": shown_name(rival), "low": ratio.min(), "high": ratio.max(), "slower": said})
    rates = {"low": own.sustained_tflops.min(), "high": own.sustained_tflops.max()}
    said = WORDS.say("turns", {"name": name, "problems": own.problem.nunique(), "peers": peers, **rates})
    costs = catalog.find(name).costs
    return [said, f"Its costs: {costs}"] if costs else [said]


def heads_of(row: pd.Series) -> str:
    """The number of query heads in words, and of KV heads if they differ."""
    grouped = row.num_kv_heads != row.num_heads
    return f"{row.num_heads} heads" + (f" on {row.num_kv_heads} KV heads" if grouped else "")


def lines(own: pd.DataFrame) -> pd.DataFrame:
    """A row for each kernel, peer and shape in bfloat16: line, tokens, TFLOP/s and shape. Problems with grouped heads
    are in the table only."""
    rows = own[(own["dtype"] == "bfloat16") & (own.num_heads == own.num_kv_heads)]
    mask = rows.causal.map({True: ", causal", False: ", full"})
    rows = rows.assign(shape="head_dim " + rows.head_dim.astype(str) + mask)
    kernels = rows.assign(line=rows["name"], tflops=rows.sustained_tflops)
    rivals = rows.assign(line=rows.peer.map(shown_name), tflops=rows.sustained_peer_tflops)
    found = pd.concat([kernels, rivals])[["line", "shape", "seq_len", "tflops"]]
    return found.drop_duplicates(["line", "shape", "seq_len"]).reset_index(drop=True)


def turns_chart(rows: pd.DataFrame) -> alt.TopLevelMixin:
    """A small chart for each shape, with a line for each kernel and peer."""
    names = list(dict.fromkeys(rows.line))
    peers = dict(zip(map(shown_name, PEERS), palette.PEERS))
    colours = palette.told_apart({name: peers.get(name) or kernel_colour(name) for name in names})
    return (
        alt.Chart(rows)
        .mark_line(point=True)
        .encode(
            _tokens(rows, "tokens"),
            alt.Y("tflops:Q", title="TFLOP/s, sustained"),
            alt.Color("line:N", title=None).scale(domain=names, range=list(colours.values())).legend(orient="top"),
            tooltip=["line:N", "shape:N", "seq_len:Q", "tflops:Q"],
        )
        .properties(width=300, height=170)
        .facet(alt.Facet("shape:N").title(None), columns=2)
    )


def prices(rows: pd.DataFrame) -> list[str]:
    """A sentence for each other value of a constant: its time over the tuned kernel's, at equal problems."""
    times = rows.drop_duplicates(["name", "problem", "settings"])
    tuned = duels.as_tuned(times)
    both = times[~tuned].merge(times[tuned], on=["name", "problem"], suffixes=("", "_tuned"))
    changed = [
        " ".join(pair for pair in other.split() if pair not in own.split())
        for other, own in zip(both.settings, both.settings_tuned)
    ]
    longer = 100 * (both.sustained_us / both.sustained_us_tuned - 1)
    return [
        f"{name} with {constants} takes {part.longer.min():.0f} to {part.longer.max():.0f} % longer."
        for (name, constants), part in both.assign(changed=changed, longer=longer).groupby(
            ["name", "changed"], sort=False
        )
    ]


def turns_table(own: pd.DataFrame) -> pd.DataFrame:
    """A row for each kernel and problem, with the TFLOP/s of all, and each peer's time over the kernel's."""
    made = []
    for (name, _), part in own.groupby(["name", "problem"], sort=False):
        first, peers = part.iloc[0], part.set_index("peer")
        known = [peer for peer in PEERS if peer in peers.index]
        made.append(
            {
                "kernel": name,
                "type": first["dtype"],
                "head_dim": first.head_dim,
                "tokens": first.seq_len,
                "heads": heads_of(first),
                "mask": "causal" if first.causal else "none",
                "TFLOP/s": f"{first.sustained_tflops:.0f}",
                **{shown_name(peer): f"{peers.sustained_peer_tflops[peer]:.0f}" for peer in known},
                **{f"{shown_name(peer)}, ratio": f"{peers.sustained_ratio[peer]:.3f}" for peer in known},
            }
        )
    return pd.DataFrame(made)
