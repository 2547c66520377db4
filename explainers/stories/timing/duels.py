"""Kernels in turns on one GPU, in words, a chart and a table: duels with libraries, and the choice among kernels."""

import json
from collections.abc import Sequence

import altair as alt
import pandas as pd

from explainers.charts import palette
from explainers.models.recorded_times import shown_name
from explainers.stories.timing.sweeps import WORDS
from explainers.story import stage
from explainers.story.glossary import count, listed
from explainers.story.stage import Block
from kernels import catalog
from kernels.measure import choices, duels
from kernels.measure.bench_rows import pairs_of
from kernels.measure.meeting import FIGURES, MEANWHILE
from kernels.measure.peers import PEERS, TITLES
from kernels.recordings.tables import Provenance


def blocks(made: pd.DataFrame, where: Provenance, absent: Sequence[str] = ()) -> list[Block]:
    """The blocks for a recorded table of duels of the kernels' present code. absent: sentences about missing peers."""
    rows = at_work(made)
    tuned, said = rows[rows.changed == ""], {"device": where.device, "date": where.dates}
    drawn = lines(tuned)
    return [
        stage.heading(f"{titles(made)}, in turns with {peer(rows)}"),
        stage.text(state(rows[rows.strongest])),
        *(stage.text(one) for name, part in tuned.groupby("name", sort=False) for one in sentences(name, part)),
        *map(stage.text, [*without_time(made), *absent, *prices(rows)]),
        stage.chart(
            chart(drawn), "TFLOP/s of each kernel and peer over the tokens, for each shape", WORDS.say("duels", said)
        ),
        stage.table(table(rows), "Every problem, with the least and the largest ratio of the rounds."),
    ]


def titles(made: pd.DataFrame) -> str:
    """The kinds of problems in the table."""
    return listed(list(dict.fromkeys(catalog.find(name).problem_type.title for name in made["name"])))


def peer(rows: pd.DataFrame) -> str:
    """The name of the peer of these rows."""
    names = list(dict.fromkeys(rows.peer))
    return peer_name(names[0]) if len(names) == 1 else "the fastest accurate peer"


def peer_name(name: str) -> str:
    return TITLES[name] if name == duels.PEER else shown_name(name)


def at_work(made: pd.DataFrame) -> pd.DataFrame:
    """The rows with a time of both, rung by rung, with these columns.

    us, ratio and the like: of the sustained state, if all rows have it.
    changed: the constants other than the tuned ones, as text.
    rms: the RMS error over the peer's.
    strongest: whether the peer is the fastest accurate one on the problem.
    """
    rows = duels.timed(made)
    rows = rows[rows.peer_status == "ok"]
    if len(rows) and rows.sustained_ratio.notna().all():
        rows = rows.assign(**{name: rows[f"sustained_{name}"] for name in (*FIGURES, *MEANWHILE)})
    tuned = rows[duels.as_tuned(rows)].drop_duplicates(["name", "problem"]).set_index(["name", "problem"]).settings
    own = [str(tuned.get(key, "")).split() for key in zip(rows["name"], rows.problem)]
    changed = [" ".join(p for p in str(s).split() if p not in pairs) for s, pairs in zip(rows.settings, own)]
    changed = [text if at else "" for text, at in zip(changed, ~duels.as_tuned(rows))]
    return rows.assign(
        changed=changed,
        rms=rows.rms_error / rows.peer_rms_error,
        strongest=rows.index.isin(duels.strongest(made).index),
        rung=[catalog.find(name).rung for name in rows["name"]],
    ).sort_values(["rung", "dtype", "head_dim", "causal", "seq_len"], kind="stable")


def state(rows: pd.DataFrame) -> str:
    """The clock and power of the chip during these duels."""
    medians = {name: rows[name].median() for name in MEANWHILE}
    rested = rows.sustained_ratio.isna().any()
    return WORDS.say("duel_state", {"rested": rested, "peer": peer(rows), **medians})


def sentences(name: str, rows: pd.DataFrame) -> list[str]:
    """A kernel's rates, the number of problems that it wins, its best and worst ratio, its losses, the largest first,
    its range of ratios to each peer, its error, and its costs in its own words."""
    won, strongest = list[str](), rows[rows.strongest]
    met = rows.groupby("problem").peer.agg(lambda peers: listed([*map(peer_name, dict.fromkeys(peers))]))
    for rivals, part in strongest.groupby(strongest.problem.map(met), sort=False):
        won.append(f"faster than {rivals} in {(part.ratio > 1).sum()} of {count(len(part), 'problem')}")
    each = [{"ratio": row.ratio, "said": problem_said(row)} for _, row in strongest.sort_values("ratio").iterrows()]
    ranges = rows.groupby("peer").ratio.agg(["min", "max"])
    names = {
        "name": name,
        "wins": won,
        "worst": each[0],
        "best": each[-1],
        "lost": [one for one in each if one["ratio"] < 1],
        "low": rows.tflops.min(),
        "high": rows.tflops.max(),
        "peers": [(peer_name(one), *ranges.loc[one]) for one in PEERS if one in ranges.index]
        if len(ranges) > 1
        else [],
        "rms": dict.fromkeys(f"{rms:.2f}" for rms in (strongest.rms.min(), strongest.rms.max())),
        "peer": peer(strongest),
    }
    costs = catalog.find(name).costs
    return [*WORDS.parts("duel", names), *([f"Its costs: {costs}"] if costs else [])]


def problem_said(row: pd.Series) -> str:
    """The problem of a row in words. Usual scores and equal heads have no word."""
    heads = f", {heads_of(row)}" if row.num_heads != row.num_kv_heads else ""
    scores = "" if row.scores == "random" and row.score_scale == 1 else f", scores {scores_of(row)}"
    mask = ", causal" if row.causal else ""
    return f"{row.seq_len:,} tokens, head_dim {row.head_dim}, {row['dtype']}{mask}{heads}{scores}"


def heads_of(row: pd.Series) -> str:
    """The number of query heads in words, and of KV heads if they differ."""
    return count(row.num_heads, "head") + (
        f" on {count(row.num_kv_heads, 'KV head')}" if row.num_kv_heads != row.num_heads else ""
    )


def scores_of(row: pd.Series) -> str:
    if pd.isna(row.scores):
        return ""
    return WORDS.table("scores")[row.scores] + (f" x {row.score_scale:g}" if row.score_scale != 1 else "")


def without_time(made: pd.DataFrame) -> list[str]:
    """A sentence for each kernel or peer that missed the rule, with its reason on the first problem."""
    said = []
    for name, part in made[made.status == "wrong"].drop_duplicates(["name", "problem", "settings"]).groupby("name"):
        said.append(f"{name} gets no time on {count(len(part), 'row')}. {part.iloc[0].reason}")
    for who, status in (("is less accurate", "less accurate"), ("gets no time", "wrong")):
        for name, part in made[made.peer_status == status].drop_duplicates(["peer", "problem"]).groupby("peer"):
            said.append(f"{peer_name(name)} {who} on {count(len(part), 'problem')}. {part.iloc[0].reason}")
    return said


def prices(rows: pd.DataFrame) -> list[str]:
    """A sentence for each other value of a constant: its time over the tuned kernel's at equal problems, and the
    largest error and the lowest speed of both, next to the strongest peer."""
    strongest, said = rows[rows.strongest], []
    tuned = strongest[strongest.changed == ""]
    both = strongest[strongest.changed != ""].merge(tuned, on=["name", "problem"], suffixes=("", "_tuned"))
    for (name, changed), part in both.groupby(["name", "changed"], sort=False):
        longer = 100 * (part.us / part.us_tuned - 1)
        names = {"name": name, "changed": changed, "least": longer.min(), "most": longer.max(), "peer": peer(part)}
        names |= {
            "errors": (part.rms.max(), part.rms_tuned.max()),
            "speeds": (part.ratio.min(), part.ratio_tuned.min()),
        }
        said.append(WORDS.say("price", names | {"problems": len(part)}))
    return said


def lines(rows: pd.DataFrame) -> pd.DataFrame:
    """A row for each kernel, peer and shape in the most frequent type: line, tokens, TFLOP/s and shape. Problems with
    grouped heads and with other scores are in the table only."""
    usual = rows.scores.isna() | (rows.scores == "random") & (rows.score_scale == 1)
    rows = rows[usual & (rows.num_heads == rows.num_kv_heads)]
    rows = rows[rows["dtype"] == rows["dtype"].mode()[0]]
    mask = rows.causal.map({True: ", causal", False: ", full"})
    rows = rows.assign(shape="head_dim " + rows.head_dim.astype(str) + mask + ", " + rows["dtype"])
    kernels = rows.assign(line=rows["name"])
    rivals = rows.assign(line=rows.peer.map(peer_name), tflops=rows.peer_tflops)
    found = pd.concat([kernels, rivals])[["line", "shape", "seq_len", "tflops"]]
    return found.drop_duplicates(["line", "shape", "seq_len"]).reset_index(drop=True)


def chart(rows: pd.DataFrame) -> alt.FacetChart:
    """A small chart for each shape, with a line for each kernel and peer."""
    peers = dict(zip(map(peer_name, PEERS), palette.PEERS))
    colours = {name: peers.get(name) or palette.kernel_colour(name) for name in dict.fromkeys(rows.line)}
    ticks, colours = sorted(rows.seq_len.unique().tolist()), palette.told_apart(colours)
    scale = alt.Scale(domain=[*colours], range=[*colours.values()])
    return (
        alt.Chart(rows)
        .mark_line(point=True)
        .encode(
            alt.X("seq_len:Q", title="tokens of a sequence").scale(type="log", base=2).axis(format=",d", values=ticks),
            alt.Y("tflops:Q", title="TFLOP/s"),
            alt.Color("line:N", title=None, scale=scale).legend(orient="top"),
            tooltip=["line:N", "shape:N", "seq_len:Q", "tflops:Q"],
        )
        .properties(width=460, height=170)
        .facet(alt.Facet("shape:N").title(None), columns=2)
    )


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """A row for each kernel, its constants if they are not the tuned ones, problem and peer."""
    made = []
    for _, row in rows.iterrows():
        pairs = {"MHz": (row.clock, row.peer_clock), "W": (row.power, row.peer_power)}
        made.append(
            {
                "kernel": row["name"],
                "constants": row.changed,
                "type": row["dtype"],
                "head_dim": row.head_dim,
                "tokens": row.seq_len,
                "batch": row.batch,
                "heads": heads_of(row),
                "mask": "causal" if row.causal else "none",
                "scores": scores_of(row),
                "TFLOP/s": f"{row.tflops:.0f}",
                "peer": peer_name(row.peer),
                "its TFLOP/s": f"{row.peer_tflops:.0f}",
                "ratio": f"{row.ratio:.3f} ({row.ratio_low:.3f} to {row.ratio_high:.3f})",
                **{unit: f"{a:,.0f} / {b:,.0f}" for unit, (a, b) in pairs.items() if pd.notna([a, b]).all()},
                "RMS error": f"{row.rms:.3f}",
            }
        )
    found = pd.DataFrame(made)
    return found[[name for name in found if (found[name] != "").any()]]


# ---- the choice among kernels ----


def choice_blocks(made: pd.DataFrame, where: Provenance) -> list[Block]:
    """The blocks for a recorded table of choices: the winner of each problem, as a map and as a table."""
    rows = winners(made)
    won = rows.kernel.value_counts()
    slowest = f"{choices.SLOWER - 1:.0%}".replace("%", " %")
    said = {"device": where.device, "date": where.dates, "problems": len(rows), "won": won.to_dict(), "slower": slowest}
    kept = rows.drop(columns=["shape", "text", "share"])
    return [
        stage.heading("Which kernel wins, and by how much"),
        stage.text(WORDS.say("choice", said), "recorded"),
        stage.chart(
            choice_map(rows), "The fastest kernel for each length and number of query tiles", WORDS.say("map", said)
        ),
        stage.table(kept, WORDS.say("choice_table", said)),
    ]


def winners(made: pd.DataFrame) -> pd.DataFrame:
    """A row for each problem of a table of choices: its fastest kernel with its constants and its time, the next kernel
    with its time over the fastest one's, and the fastest exact kernel, which the operators take."""
    found = []
    for text, part in choices.timed(made).groupby("problem", sort=False):
        first = part.iloc[0]
        problem = catalog.find(first["name"]).problem_type(**json.loads(str(text)))
        others = part[part["name"] != first["name"]]
        lead = others.us.iloc[0] / first.us - 1 if len(others) else None
        exact = [
            not choices.may_round(catalog.find(row["name"]), problem, pairs_of(_constants(row)))
            for _, row in part.iterrows()
        ]
        taken = part[exact].iloc[0] if any(exact) else None
        more = f"more than {choices.SLOWER - 1:.0%}" if lead is None else f"{lead:.1%}"
        star = "" if exact[0] else "*"
        found.append(
            {
                "type": first["dtype"],
                "head_dim": first.head_dim,
                "mask": "causal" if first.causal else "full",
                "tokens": first.tokens,
                "query tiles": first.blocks,
                "kernel": first["name"],
                "constants": _constants(first),
                "us": first.us,
                "next kernel": others["name"].iloc[0] if len(others) else "",
                "lead": more.replace("%", " %"),
                "operators take": " ".join([taken["name"], _constants(taken)]).strip() if taken is not None else "",
                "shape": f"head_dim {first.head_dim}, {'causal' if first.causal else 'full'}, {first['dtype']}",
                "text": f"{catalog.find(first['name']).rung}{star} · {'>' if lead is None else ''}"
                f"{choices.SLOWER - 1 if lead is None else lead:.0%}",
                "share": min(choices.SLOWER - 1 if lead is None else lead, choices.SLOWER - 1),
            }
        )
    order = ["type", "head_dim", "mask", "tokens", "query tiles"]
    return pd.DataFrame(found).sort_values(order, kind="stable").reset_index(drop=True)


def _constants(row: pd.Series) -> str:
    return "" if pd.isna(row.variant) else row.variant


def choice_map(rows: pd.DataFrame) -> alt.FacetChart:
    """A grid for each type, head_dim and mask: the colour is the fastest kernel, its strength and the text its lead."""
    colours = palette.told_apart({name: palette.kernel_colour(name) for name in sorted(set(rows.kernel))})
    base = alt.Chart(rows).encode(
        alt.X("tokens:O", title="tokens of a sequence").axis(labelAngle=0, labelExpr="format(datum.value, ',d')"),
        alt.Y("query tiles:O", title="tiles of 128 queries").axis(labelExpr="format(datum.value, ',d')"),
        tooltip=["kernel:N", "constants:N", "lead:N", "next kernel:N", "us:Q", "tokens:Q", "query tiles:Q", "shape:N"],
    )
    scale = alt.Scale(domain=[*colours], range=[*colours.values()])
    strength = alt.Scale(domain=[0, choices.SLOWER - 1], range=[0.12, 0.5])
    cells = base.mark_rect().encode(
        alt.Color("kernel:N", title=None, scale=scale).legend(orient="top", symbolOpacity=1),
        alt.Opacity("share:Q", scale=strength, legend=None),
    )
    return (
        alt.layer(cells, base.mark_text().encode(text="text:N"))
        .properties(width=460, height=150)
        .facet(alt.Facet("shape:N").title(None), columns=2)
    )
