"""Duels that a problem declares: its rungs next to each other and to their peers, size by size."""

import altair as alt
import pandas as pd

from explainers.charts import palette
from explainers.models.recorded_times import shown_name
from explainers.story import stage
from explainers.story.glossary import count, listed
from explainers.story.stage import Block
from kernels import catalog
from kernels.measure import duels
from kernels.measure.peers import PEERS
from kernels.recordings.tables import Provenance

SHAPE = ["seq_len", "head_dim", "causal", "dtype"]
ACROSS = 2  # charts in a row


def titles(made: pd.DataFrame) -> str:
    """Returns the kinds of problems in the table."""
    return listed(list(dict.fromkeys(catalog.find(name).problem_type.title for name in made["name"])))


def blocks(made: pd.DataFrame, where: Provenance) -> list[Block]:
    """Returns the blocks for a recorded table of declared duels of the kernels' present code."""
    rows = sustained(made)
    own = rows[duels.as_tuned(rows)]
    said = (
        f"Recorded on {where.device}, {where.date}. All take turns of 400 ms in one process, on a chip at work. "
        "Each chart has one head_dim and one mask, in bfloat16. Grouped heads are in the table."
    )
    return [
        stage.heading(titles(made)),
        *(stage.text(text) for name, part in own.groupby("name", sort=False) for text in said_of(name, part)),
        stage.chart(chart(lines(own)), "TFLOP/s of each kernel and peer over the tokens, for each shape", said),
        *(stage.text(text) for text in prices(rows)),
        stage.table(table(own), "Sustained TFLOP/s of every problem. A ratio is a peer's time over ours."),
    ]


def sustained(made: pd.DataFrame) -> pd.DataFrame:
    """Returns the rows with a sustained time on both sides, in the order of rungs."""
    rows = made[(made.status == "ok") & (made.peer_status == "ok") & made.sustained_ratio.notna()]
    rung = rows["name"].map(lambda name: catalog.find(name).rung)
    return rows.assign(rung=rung).sort_values(["rung", *SHAPE, "peer"], kind="stable")


def said_of(name: str, own: pd.DataFrame) -> list[str]:
    """Returns the sentences on a kernel's times, and its costs in its own words."""
    costs = catalog.find(name).costs
    return [sentence(name, own), f"Its costs: {costs}"] if costs else [sentence(name, own)]


def sentence(name: str, own: pd.DataFrame) -> str:
    """Returns a kernel's range of TFLOP/s, and its range of ratios to each peer."""
    low, high = (f"{edge:,.0f}" for edge in (own.sustained_tflops.min(), own.sustained_tflops.max()))
    said = f"{name} runs at {low} to {high} TFLOP/s, in {count(own.problem.nunique(), 'problem')}."
    for peer in (peer for peer in PEERS if peer in set(own.peer)):
        ratio = own.sustained_ratio[own.peer == peer]
        said += f" It is {ratio.min():.2f} to {ratio.max():.2f} times as fast as {shown_name(peer)}."
        slower = own.loc[ratio.index[ratio < 1]]
        if len(slower) == 1 < len(ratio):
            said += f" It is slower only with {shape_of(slower.iloc[0])}."
    return said


def shape_of(row: pd.Series) -> str:
    """Returns the sizes of a row's problem."""
    mask = "causal" if row.causal else "full"
    return f"{row.seq_len:,} tokens, {heads_of(row)}, head_dim {row.head_dim}, {mask}, {row['dtype']}"


def heads_of(row: pd.Series) -> str:
    """Returns the number of query heads in words, and of KV heads if they differ."""
    grouped = row.num_kv_heads != row.num_heads
    return f"{row.num_heads} heads" + (f" on {row.num_kv_heads} KV heads" if grouped else "")


def lines(own: pd.DataFrame) -> pd.DataFrame:
    """Returns a row for each kernel, peer and shape in bfloat16: line, tokens, TFLOP/s and shape. Problems with grouped
    heads are in the table only."""
    rows = own[(own["dtype"] == "bfloat16") & (own.num_heads == own.num_kv_heads)]
    mask = rows.causal.map({True: ", causal", False: ", full"})
    rows = rows.assign(shape="head_dim " + rows.head_dim.astype(str) + mask)
    kernels = rows.assign(line=rows["name"], tflops=rows.sustained_tflops)
    rivals = rows.assign(line=rows.peer.map(shown_name), tflops=rows.sustained_peer_tflops)
    found = pd.concat([kernels, rivals])[["line", "shape", "seq_len", "tflops"]]
    return found.drop_duplicates(["line", "shape", "seq_len"]).reset_index(drop=True)


def chart(rows: pd.DataFrame) -> alt.TopLevelMixin:
    """Returns a small chart for each shape, with a line for each kernel and peer."""
    names = list(dict.fromkeys(rows.line))
    peers = dict(zip(map(shown_name, PEERS), palette.PEERS))
    colours = palette.told_apart({name: peers.get(name) or palette.kernel_colour(name) for name in names})
    return (
        alt.Chart(rows)
        .mark_line(point=True)
        .encode(
            alt.X("seq_len:Q", title="tokens")
            .scale(type="log", base=2)
            .axis(format=",d", values=sorted(rows.seq_len.unique().tolist())),
            alt.Y("tflops:Q", title="TFLOP/s, sustained"),
            alt.Color("line:N", title=None).scale(domain=names, range=list(colours.values())).legend(orient="top"),
            tooltip=["line:N", "shape:N", "seq_len:Q", "tflops:Q"],
        )
        .properties(width=300, height=170)
        .facet(alt.Facet("shape:N").title(None), columns=ACROSS)
    )


def prices(rows: pd.DataFrame) -> list[str]:
    """Returns a sentence for each other value of a constant: its time over the tuned kernel's, at equal problems."""
    times = rows.drop_duplicates(["name", "problem", "settings"])
    tuned = duels.as_tuned(times)
    both = times[~tuned].merge(times[tuned], on=["name", "problem"], suffixes=("", "_tuned"))
    changed = [
        " ".join(pair for pair in other.split() if pair not in own.split())
        for other, own in zip(both.settings, both.settings_tuned)
    ]
    longer = 100 * (both.sustained_us / both.sustained_us_tuned - 1)
    both = both.assign(changed=changed, longer=longer)
    return [
        f"{name} with {constants} takes {part.longer.min():.0f} to {part.longer.max():.0f} % longer."
        for (name, constants), part in both.groupby(["name", "changed"], sort=False)
    ]


def table(own: pd.DataFrame) -> pd.DataFrame:
    """Returns a row for each kernel and problem, with the TFLOP/s of all, and each peer's time over the kernel's."""
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
