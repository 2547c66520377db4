"""Duels: kernels in turns with cuDNN, and duels that a problem declares, size by size, in words, charts and tables."""

import altair as alt
import pandas as pd

from explainers.charts import palette
from explainers.models.recorded_times import shown_name
from explainers.stories.timing.sweeps import WORDS, not_timed
from explainers.story import stage
from explainers.story.glossary import count, listed
from explainers.story.stage import Block
from kernels import catalog
from kernels.measure import duels
from kernels.measure.peers import PEERS, TITLES
from kernels.recordings.tables import Provenance

SHAPE = ["seq_len", "head_dim", "causal", "dtype"]


# ---- of both kinds of duels ----


def heads_of(row: pd.Series) -> str:
    """The number of query heads in words, and of KV heads if they differ."""
    grouped = row.num_kv_heads != row.num_heads
    return f"{row.num_heads} heads" + (f" on {row.num_kv_heads} KV heads" if grouped else "")


def scores_of(row: pd.Series) -> str:
    return WORDS.table("scores")[row.scores] + (f" x {row.score_scale:g}" if row.score_scale != 1 else "")


def said_of(row: pd.Series) -> str:
    """The problem of a row in words. Usual scores and equal heads have no word."""
    heads = f", {heads_of(row)}" if row.num_heads != row.num_kv_heads else ""
    scores = "" if row.scores == "random" and row.score_scale == 1 else f", scores {scores_of(row)}"
    mask = ", causal" if row.causal else ""
    return f"{row.seq_len:,} tokens, head_dim {row.head_dim}, {row['dtype']}{mask}{heads}{scores}"


def columns_of(row: pd.Series) -> dict[str, object]:
    """The columns of a problem in a table."""
    sizes = {"kernel": row["name"], "type": row["dtype"], "head_dim": row.head_dim, "tokens": row.seq_len}
    return sizes | {"heads": heads_of(row), "mask": "causal" if row.causal else "none"}


def over_tokens(rows: pd.DataFrame, value: str, title: str, colours: dict[str, str]) -> alt.Chart:
    """The lines of a value over the tokens of a sequence. rows: with line, shape and seq_len."""
    ticks = sorted(rows.seq_len.unique().tolist())
    x = alt.X("seq_len:Q", title="tokens of a sequence").scale(type="log", base=2).axis(format=",d", values=ticks)
    scale = alt.Scale(domain=[*colours], range=[*colours.values()])
    colour = alt.Color("line:N", title=None, scale=scale).legend(orient="top")
    tips = ["line:N", "shape:N", *(f"{name}:Q" for name in rows.columns if name not in ("line", "shape"))]
    y = alt.Y(f"{value}:Q", title=title).scale(zero=value != "ratio")
    return alt.Chart(rows).mark_line(point=True).encode(x, y, colour, tooltip=tips)


# ---- with cuDNN ----


def blocks(made: pd.DataFrame, where: Provenance) -> list[Block]:
    """The blocks for a recorded table of duels of the kernels' present code."""
    ran = duels.headline(made)
    timed, other = ran[duels.as_tuned(ran)], peer(ran)
    said = WORDS.say("duel_source", {"device": where.device, "date": where.date, "peer": other})
    return [
        stage.heading(f"In turns with {other}"),
        stage.text(state(ran)),
        *(stage.text(sentence(name, part)) for name, part in timed.groupby("name", sort=False)),
        *(stage.text(text) for text in [*without_time(made), *not_timed(made.peer)]),
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
    rows, found = ran[ran.duplicated("problem", keep=False)], list[Block]()
    rows = rows.assign(rms=rows.rms_error / rows.peer_rms_error)
    values = {c: rows.settings.str.extract(rf"\b{c}=(\d+)", expand=False).astype(float) for c in duels.PRICED}
    varied = {c: part for c, part in values.items() if part.nunique() > 1}
    for constant, part in varied.items():
        kept = pd.Series(True, index=rows.index)
        for other, of in varied.items():
            kept &= (of == of.mode()[0]) | (other == constant)
        own = rows[kept].assign(value=part[kept].astype(int))
        worst, slowest = own.groupby("value").rms.max(), own.groupby("value").ratio.min()
        each = [{"value": v, "error": worst[v], "speed": slowest[v]} for v in worst.index]
        names = {"kinds": own.problem.nunique(), "peer": peer(own), "constant": constant, "each": each}
        own = own.sort_values(["problem", "value"])
        shown = pd.DataFrame({"scores": [scores_of(row) for _, row in own.iterrows()], constant: [*own.value]})
        for title, column, form in (
            ("TFLOP/s", "tflops", ".0f"),
            ("ratio", "ratio", ".3f"),
            ("RMS error", "rms", ".3f"),
        ):
            shown[title] = [f"{value:{form}}" for value in own[column]]
        found += [
            stage.heading(f"The cost of {constant} in {name}"),
            stage.text(WORDS.say("price", names)),
            stage.table(shown, f"{name} with each {constant}. Ratio and error are over {peer(own)}'s."),
        ]
    return found


def chart(timed: pd.DataFrame) -> alt.LayerChart:
    """The chart of the ratio over the tokens of a sequence, for each kernel, head_dim and mask.

    It has only plain fp16 problems with as many KV heads as heads. The line at 1 is the peer.
    """
    plain = timed[(timed["dtype"] == "float16") & (timed.scores == "random") & (timed.score_scale == 1)]
    plain = plain[plain.num_heads == plain.num_kv_heads]
    shape = "head_dim " + plain.head_dim.astype(str) + plain.causal.map({True: ", causal", False: ""})
    rows = plain.assign(line=plain["name"], shape=shape)[["line", "shape", "seq_len", "ratio", "tflops", "peer_tflops"]]
    colours = {name: palette.kernel_colour(name) for name in dict.fromkeys(rows.line)}
    lines = over_tokens(rows, "ratio", f"ratio: {peer(timed)}'s time over ours", colours)
    legend = alt.Legend(symbolFillColor=palette.AXIS, symbolStrokeColor=palette.AXIS)
    lines = lines.encode(alt.StrokeDash("shape:N", legend=None), alt.Shape("shape:N", title="shape", legend=legend))
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
    each = [{"ratio": row.ratio, "said": said_of(row)} for _, row in timed.sort_values("ratio").iterrows()]
    names = {"worst": each[0], "best": each[-1], "lost": [one for one in each if one["ratio"] < 1]}
    names |= {"rms": least if least == largest else f"{least} to {largest}", "peer": peer(timed)}
    return WORDS.say("duel", {"name": name, "wins": wins, **names})


def table(timed: pd.DataFrame) -> pd.DataFrame:
    """A row for each kernel and problem, with clock and power during sustained turns, and a column for the peer if the
    table has several."""
    other, alone, rows = peer(timed), timed.peer.nunique() == 1, []
    for _, row in timed.iterrows():
        pairs = {
            unit: (row[f"sustained_{of}"], row[f"sustained_peer_{of}"])
            for unit, of in (("MHz", "clock"), ("W", "power"))
        }
        rows.append(
            {
                **columns_of(row),
                "batch": row.batch,
                "scores": scores_of(row),
                "TFLOP/s": f"{row.tflops:.0f}",
                **({} if alone else {"peer": TITLES.get(row.peer, row.peer)}),
                other: f"{row.peer_tflops:.0f}",
                "ratio": f"{row.ratio:.3f} ({row.ratio_low:.3f} to {row.ratio_high:.3f})",
                **{unit: f"{a:,.0f} / {b:,.0f}" for unit, (a, b) in pairs.items() if pd.notna([a, b]).all()},
                "RMS error": f"{row.rms_error / row.peer_rms_error:.3f}",
            }
        )
    return pd.DataFrame(rows)


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
        *(stage.text(text) for name, part in own.groupby("name", sort=False) for text in rates(name, part)),
        stage.chart(turns_chart(lines(own)), "TFLOP/s of each kernel and peer over the tokens, for each shape", said),
        *(stage.text(text) for text in prices(rows)),
        stage.table(turns_table(own), "Sustained TFLOP/s of every problem. A ratio is a peer's time over ours."),
    ]


def sustained(made: pd.DataFrame) -> pd.DataFrame:
    """The rows with a sustained time on both sides, in the order of rungs."""
    rows = made[(made.status == "ok") & (made.peer_status == "ok") & made.sustained_ratio.notna()]
    rung = rows["name"].map(lambda name: catalog.find(name).rung)
    return rows.assign(rung=rung).sort_values(["rung", *SHAPE, "peer"], kind="stable")


def rates(name: str, own: pd.DataFrame) -> list[str]:
    """A kernel's range of TFLOP/s and of ratios to each peer, and its costs in its own words."""
    peers = []
    for rival in (rival for rival in PEERS if rival in set(own.peer)):
        met = own[own.peer == rival]
        slower = met[met.sustained_ratio < 1]
        only = said_of(slower.iloc[0]) if len(slower) == 1 < len(met) else ""
        low, high = met.sustained_ratio.min(), met.sustained_ratio.max()
        peers.append({"name": shown_name(rival), "low": low, "high": high, "slower": only})
    names = {"low": own.sustained_tflops.min(), "high": own.sustained_tflops.max(), "peers": peers}
    said = WORDS.say("turns", {"name": name, "problems": own.problem.nunique(), **names})
    costs = catalog.find(name).costs
    return [said, f"Its costs: {costs}"] if costs else [said]


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


def turns_chart(rows: pd.DataFrame) -> alt.FacetChart:
    """A small chart for each shape, with a line for each kernel and peer."""
    peers = dict(zip(map(shown_name, PEERS), palette.PEERS))
    colours = {name: peers.get(name) or palette.kernel_colour(name) for name in dict.fromkeys(rows.line)}
    small = over_tokens(rows, "tflops", "TFLOP/s, sustained", palette.told_apart(colours))
    return small.properties(width=300, height=170).facet(alt.Facet("shape:N").title(None), columns=2)


def prices(rows: pd.DataFrame) -> list[str]:
    """A sentence for each other value of a constant: its time over the tuned kernel's, at equal problems."""
    times = rows.drop_duplicates(["name", "problem", "settings"])
    tuned = duels.as_tuned(times)
    both = times[~tuned].merge(times[tuned], on=["name", "problem"], suffixes=("", "_tuned"))
    pairs = zip(both.settings.str.split(), both.settings_tuned.str.split())
    both["changed"] = [" ".join(pair for pair in other if pair not in own) for other, own in pairs]
    both["longer"] = 100 * (both.sustained_us / both.sustained_us_tuned - 1)
    return [
        f"{name} with {constants} takes {part.longer.min():.0f} to {part.longer.max():.0f} % longer."
        for (name, constants), part in both.groupby(["name", "changed"], sort=False)
    ]


def turns_table(own: pd.DataFrame) -> pd.DataFrame:
    """A row for each kernel and problem, with the TFLOP/s of all, and each peer's time over the kernel's."""
    made = []
    for _, part in own.groupby(["name", "problem"], sort=False):
        peers, row = part.set_index("peer"), columns_of(part.iloc[0])
        known = [peer for peer in PEERS if peer in peers.index]
        row |= {"TFLOP/s": f"{part.iloc[0].sustained_tflops:.0f}"}
        row |= {shown_name(peer): f"{peers.sustained_peer_tflops[peer]:.0f}" for peer in known}
        made.append(row | {f"{shown_name(peer)}, ratio": f"{peers.sustained_ratio[peer]:.3f}" for peer in known})
    return pd.DataFrame(made)
