"""Two kernels side by side: their steps aligned by what they do, what differs in words, their outputs and state compared, their source's diff."""

import difflib
from dataclasses import dataclass

import altair as alt
import numpy as np
import pandas as pd

from explainers.palette import OKABE_ITO
from explainers.tiling import query_rows
from explainers.timing import LOG, equal_line, microseconds, size_axis
from kernels import bench, memory
from kernels.probes import READS

WAITING = {"touched": [], "uses": [], "scores": None, "lines": {}}


@dataclass(frozen=True)
class Aligned:
    """frames: one per common step, for the clock. a, b: that side's frame at each step; where only the other side steps, its last one, waiting."""

    frames: list[dict]
    a: list[dict]
    b: list[dict]


def align(a, b, requests):
    """Aligns two lists of tiling frames. Steps are the same if they are of one phase and begin at the same key; where only one side has a step
    the other waits. requests: of a and b, for their BLOCK_KV."""
    keys = [[(frame["title"].split(" · ")[-1], frame["tile"] * request.constants["BLOCK_KV"] if frame["tile"] >= 0 else -1) for frame in side]
            for side, request in zip((a, b), requests)]
    steps, at = [], (0, 0)
    for block in difflib.SequenceMatcher(None, *keys, autojunk=False).get_matching_blocks():
        steps += [(n, None) for n in range(at[0], block.a)] + [(None, n) for n in range(at[1], block.b)]
        steps += [(block.a + n, block.b + n) for n in range(block.size)]
        at = (block.a + block.size, block.b + block.size)
    frames, sides, last = [], ([], []), [None, None]
    for pair in steps:
        shown = []
        for side, (given, number) in enumerate(zip((a, b), pair)):
            last[side] = last[side] if number is None else number
            if number is not None:
                shown.append(given[number])
                sides[side].append(given[number])
            else:
                held = given[last[side]] if last[side] is not None else {**given[0], "resident": {}, "bytes": {}, "o": -1}
                waits = "has not begun" if last[side] is None else f"waits after {held['title']}"
                sides[side].append({**held, **WAITING, "sentence": f"{'AB'[side]} {waits}."})
        alone = "" if len(shown) == 2 else f" ({'A' if pair[1] is None else 'B'} alone)"
        frames.append({"tile": shown[0]["tile"], "title": shown[0]["title"] + alone})
    return Aligned(frames, *sides)


def diff(a, b):
    """The unified diff of two kernels' sources, three lines of context."""
    lines = difflib.unified_diff(a.source.splitlines(), b.source.splitlines(), a.path.name, b.path.name, lineterm="")
    return "\n".join(lines)


# ---- outputs and state ----


def state(run):
    """The row's m and l after its last tile, in the traced query tile: DataFrame by row, columns m and l."""
    table = run.trace.frame("launch", "seq", "event", "row", "value")
    found = {}
    for name in ("m", "l"):
        part = table[table.event == name]
        found[name] = part.sort_values("seq", kind="stable").groupby("row").value.last()
    return pd.DataFrame(found)


def outputs(run_a, run_b):
    """What of the two runs is equal within what: rows of (what, over, largest difference), where both logged it."""
    rows = []
    difference = np.abs(run_a.arrays["o"].astype(np.float64) - run_b.arrays["o"].astype(np.float64))
    rows.append(("O", f"all {difference.size:,} numbers", float(difference.max()) if not np.isnan(difference).any() else float("nan")))
    both = state(run_a).merge(state(run_b), left_index=True, right_index=True, suffixes=("_a", "_b"))
    for name in ("m", "l"):
        if len(both):
            gap = (both[f"{name}_a"] - both[f"{name}_b"]).abs()
            rows.append((f"{name} after the last tile", f"{len(both)} rows that both traced", float(gap.max(skipna=False))))
    return pd.DataFrame(rows, columns=["what", "over", "largest difference"])


def output_sentence(table, run_a, run_b):
    """Whether they agree, in a sentence."""
    said = ", ".join(f"{what} {gap:.2g}" for what, gap in zip(table["what"], table["largest difference"]))
    return f"Equal within: {said}. Against float64 A is off by at most {run_a.max_abs_error:.2g}, B by {run_b.max_abs_error:.2g}."


# ---- what differs, in words ----


def costs(run):
    """Shared wavefronts and global sectors of the traced query tile, derived from its addresses, by what is done."""
    shared, sectors = memory.requests(run.trace, "shared").costs, memory.requests(run.trace, "global").costs
    reads = shared.kind.isin(READS)
    return {"shared wavefronts, reads": int(shared.wavefronts[reads].sum()), "shared wavefronts, writes": int(shared.wavefronts[~reads].sum()),
            "shared wavefronts without conflicts": int(shared.ideal.sum()), "global sectors": int(sectors.sectors.sum())}


def differences(requests, facts, occupancies, cost, traffics):
    """A table of what differs: what, A, B, in words. facts: inspection.inspect of each, or None; occupancies: of each launch, or None;
    cost: `costs` of each; traffics: execute.Traffic of each."""
    a, b = requests
    rows = [("launches", *(_launches(r.plan) for r in requests), None)]
    constants = dict.fromkeys([*a.constants, *b.constants])
    rows += [(name, a.constants.get(name, "none"), b.constants.get(name, "none"), None) for name in constants]
    queries = [query_rows(r)[2] - query_rows(r)[1] for r in requests]
    rows.append(("queries of a tile", *queries, _ratio(*queries)))
    smem = [max(launch.shared_bytes for launch in r.plan.launches) for r in requests]
    rows.append(("shared bytes of a block", *smem, _ratio(*smem)))
    if all(facts):
        for mode in ("timed", "probed"):
            registers = [max(e["registers"] for e in fact["builds"][mode]["entries"]) for fact in facts]
            rows.append((f"registers of a thread, {mode} build", *registers, _ratio(*registers)))
    if all(occupancies):
        warps = [min(launch.warps for launch in o) for o in occupancies]
        rows.append(("warps a multiprocessor holds", *(f"{w} (limited by {min(o, key=lambda x: x.warps).limited_by})" for w, o in zip(warps, occupancies)),
                     _ratio(*warps)))
    for tensor in "QKVSPO":
        for kind, verb in (("load", "read"), ("store", "written")):
            moved = [int(t.table[(t.table.space == "global") & (t.table.tensor == tensor) & (t.table.kind == kind)].bytes.sum()) for t in traffics]
            if any(moved):
                rows.append((f"bytes of {tensor} {verb}, global", *moved, _ratio(*moved)))
    for name in cost[0]:
        each = [c[name] / q for c, q in zip(cost, queries)]
        rows.append((f"{name}, per query", *(round(v, 2) for v in each), _ratio(*each)))
    named = [(what, _text(left), _text(right), words or ("the same" if left == right else "differ")) for what, left, right, words in rows]
    return pd.DataFrame(named, columns=["what", f"A: {a.kernel.name}", f"B: {b.kernel.name}", "in words"])


def _launches(plan):
    return "; ".join(f"{launch.entry}: {' x '.join(str(n) for n in launch.grid)} blocks of {launch.threads} threads" for launch in plan.launches)


def _text(value):
    return f"{value:,}" if isinstance(value, (int, float)) else str(value)


def _ratio(a, b):
    """B against A in words."""
    if a == b:
        return "the same"
    if not a or not b:
        return "only A" if a else "only B"
    return f"B {b / a:.3g} times A" if b > a else f"B 1/{a / b:.3g} of A"


# ---- times ----


def times(table, requests):
    """Rows of a bench table at which both requests' kernels have a time: one per problem, with the ratio A / B and its spread. Two builds of one
    kernel are told apart by their constants; two kernels take the rows of any constants, which the table names."""
    timed = table[(table.status == "ok") & table.seq_len.notna()]
    sides, same = [], requests[0].kernel is requests[1].kernel
    for request in requests:
        own = timed[timed.name == request.kernel.name]
        if same:
            own = own[own.settings == bench.settings_text(request.constants.items())]
        sides.append(own.drop_duplicates(["problem", "l2", "source", "device"]))
    both = sides[0].merge(sides[1], on=["problem", "l2", "source", "device", "date"], suffixes=("", "_b"))
    return both.assign(**{f"ratio{end}": both[above] / both[f"{below}_b"] for end, (above, below) in bench.RATIO.items()})


def _sizes(r):
    return f"seq_len {r.seq_len:g}, batch {r.batch:g}, heads {r.heads:g}, head_dim {r.head_dim:g}"


def _problem(r):
    return _sizes(r) + (", causal" if r.causal else "")


def times_table(both, names):
    """`times` as texts."""
    rows = [{"problem": _problem(r),
             f"A: {names[0]}": f"{microseconds(r.median_us)} ({microseconds(r.p10_us)} to {microseconds(r.p90_us)})",
             f"B: {names[1]}": f"{microseconds(r.median_us_b)} ({microseconds(r.p10_us_b)} to {microseconds(r.p90_us_b)})",
             "A / B": f"{r.ratio:.3g} ({r.ratio_low:.3g} to {r.ratio_high:.3g})", "constants": f"A: {r.settings}; B: {r.settings_b}",
             "from": f"{r.source}, {r.device}, {r.date}"} for r in both.itertuples()]
    return pd.DataFrame(rows)


def times_sentence(both, names):
    """The ratio at the largest problem with its spread: a measured one where there is one, else recorded."""
    if both.empty:
        return f"No problem has a time of both {names[0]} and {names[1]}."
    now = both[both.source == "measured"]
    r = (now if len(now) else both).sort_values(["seq_len", "batch", "heads", "head_dim"]).iloc[-1]
    faster, ratio, low, high = (1, r.ratio, r.ratio_low, r.ratio_high) if r.ratio >= 1 else (0, 1 / r.ratio, 1 / r.ratio_high, 1 / r.ratio_low)
    return (f"At {_sizes(r)} {names[faster]} is {ratio:.3g} times ({low:.3g} to {high:.3g}) as fast as {names[1 - faster]} "
            f"({r.source}, {r.device}).")


def ratio_chart(both):
    """A's time over B's at every problem, with its spread, against seq_len."""
    rows = both.assign(where=[_problem(r) for r in both.itertuples()])
    x = size_axis(rows, "seq_len")
    tips = ["where:N", alt.Tooltip("ratio:Q", format=".4g"), alt.Tooltip("ratio_low:Q", format=".4g"), alt.Tooltip("ratio_high:Q", format=".4g"),
            alt.Tooltip("median_us:Q", title="A, us", format=",.5g"), alt.Tooltip("median_us_b:Q", title="B, us", format=",.5g"),
            "source:N", "device:N", "date:N"]
    base, low = alt.Chart(rows), alt.Y("ratio_low:Q", scale=LOG, title="A / B")
    spread = base.mark_rule(strokeWidth=5, opacity=0.45, color=OKABE_ITO["blue"]).encode(x=x, y=low, y2="ratio_high:Q")
    points = base.mark_point(filled=True, size=60, opacity=1).encode(
        x=x, y=alt.Y("ratio:Q", scale=LOG, title="A / B"), tooltip=tips, color=alt.Color("source:N", title=None, scale=alt.Scale(
            domain=["recorded", "measured"], range=[OKABE_ITO["blue"], OKABE_ITO["vermillion"]]), legend=alt.Legend(orient="top")))
    return (equal_line() + spread + points).properties(height=300)
