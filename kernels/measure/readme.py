"""The tables of times in results.md and operator-times.md, the results in README.md, and the GPUs in kernels/README.md.

    python -m kernels.measure.readme            prints them
    python -m kernels.measure.readme --write    writes them into the files, each between its two comments

Times come from the recorded tables, and GPUs from the catalogue. A claim is sustained if both sides have a sustained
time, and rested otherwise. Each table of times states its wins and its losses in front.
"""

import json
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from kernels import catalog
from kernels.build.occupancy import MACHINES
from kernels.core.cases import sample
from kernels.core.problem import Problem
from kernels.core.spec import KernelSpec
from kernels.families.dense.problem import DenseProblem
from kernels.families.tensor_cores.problem import SixteenBitProblem
from kernels.measure import bench, duels, gradient_duels, operator_rows
from kernels.measure.bench_rows import SUSTAINED, problem_text
from kernels.measure.peers import TITLES
from kernels.run.backends import Device

ROOT = Path(__file__).parents[2]
FILES = (ROOT / "README.md", *(ROOT / "kernels" / name for name in ("README.md", "results.md", "operator-times.md")))
GPUS = tuple(
    Device("gpu", machine.gpu, "sm_90a" if arch == "sm_90" else arch, machine.shared_bytes_per_block)
    for arch, machine in MACHINES.items()
)
NONE = "not measured"
WAYS = {"cuda_cores": "CUDA cores", "tensor_cores": "tensor cores", "fa3": "FA3", "xqa": "XQA"}
WAYS |= {"cascade_fa2": "its cascade", "cascade_fa3": "its cascade with FA3"}
FP32 = (
    DenseProblem(1024, 64, 1, 8),
    DenseProblem(4096, 64, 1, 8),
    DenseProblem(4096, 128, 4, 16),
    DenseProblem(1024, 128, 1, 8),
)
_SQUARE = SixteenBitProblem(4096, 128, 4, 16)
DENSE = (
    *(replace(_SQUARE, seq_len=n, batch=16384 // n, causal=c) for n in (512, 1024, 4096, 16384) for c in (False, True)),
    *(
        replace(_SQUARE, seq_len=n, batch=16384 // n, head_dim=64, num_heads=32, causal=c)
        for n in (512, 1024, 4096)
        for c in (False, True)
    ),
    *(SixteenBitProblem(16384, 128, 1, 64, c, "bfloat16", num_kv_heads=8) for c in (False, True)),
    *(problem for problem in duels.distributions() if problem != _SQUARE),
)
"""The problems in the table of 16 bits. The sentence before the table counts every duel."""


def tables() -> dict[str, str]:
    """name -> the lines of each table, with the sentences before the table."""
    made, _ = next(iter(bench.recorded().values()))
    floor = made[(made.status == "ok") & (made["name"] == "sdpa_cudnn") & (made.l2 == "cold")]
    return {
        "results": _results(made),
        "GPUs": _gpus(),
        "fp32": _section(_benched(made, "08b_three_bfloat16", ["sdpa_efficient"], _wanted(FP32))),
        "16 bits": _dense(),
        "decode": _section(
            _benched(made, ("paged_v3", "paged_cascade"), _flashinfer(made)), dict(zip(floor.problem, floor.median_us))
        ),
        "sparse": _section(_benched(made, "block_sparse_hopper", ["flashinfer"])),
        "operators": operator_rows.text(),
    }


def written(text: str) -> str:
    """A file's text with each table between its two comments replaced. KeyError for an unknown table."""
    made = tables()

    def put(found: re.Match) -> str:
        return f"<!-- {found[1]} -->\n{made[found[2]]}\n<!-- end -->"

    return re.sub(r"<!-- ((?:times|table): ([\w ]+)) -->\n.*?<!-- end -->", put, text, flags=re.DOTALL)


# ---- the results in the README ----


LENGTHS = {"Short": 1024, "Medium": 4096, "Long": 10**9}  # name -> most tokens
BACKWARD = "Grouped, backward"
ROUNDED = (
    "`12_optimistic` and an optimistic `13_short` round a row's largest weight. The operators take them only by name."
)


def _results(made: pd.DataFrame) -> str:
    """The wins of the dense and of the paged kernels and of the operators against the strongest peer, and losses."""
    lines = [_length(name, part) for name, part in _by_length().items()]
    pairs = _benched(made, ("paged_v3", "paged_cascade"), _flashinfer(made))
    ratios = [pair.peer.median_us / pair.ours.median_us for pair in pairs]
    won = sum(ratio > 1 for ratio in ratios)
    worst = pairs[int(np.argmin(ratios))]
    lines += [
        f"Rested, decoding over a paged cache is faster than FlashInfer on {won} of {len(pairs)} problems "
        f"({min(ratios):.2f} to {max(ratios):.2f} times as fast). "
        f"The largest loss of decoding is {min(ratios):.2f} times the speed of {_peer(worst.peer['name'])}: "
        f"`{worst.ours['name']}`, {_words(worst.ours)}.",
    ]
    return "\n".join(f"- {line}" for line in [*lines, *operator_rows.sentence()])


def _by_length() -> dict[str, pd.DataFrame]:
    """Name of a group of problems -> all our kernels there, as tuned, each against its fastest accurate peer."""
    groups: dict[str, pd.DataFrame] = {}
    if found := duels.recorded():
        rows = _claimed(found[0])
        grouped = rows.num_kv_heads != rows.num_heads
        length = pd.cut(rows.seq_len, [0, *LENGTHS.values()], labels=[*LENGTHS])
        groups |= {name: rows[(length == name) & ~grouped] for name in LENGTHS} | {"Grouped": rows[grouped]}
    if found := gradient_duels.recorded():
        rows = _claimed(found[0])
        groups[BACKWARD] = rows[rows.num_kv_heads != rows.num_heads]
    return {name: part for name, part in groups.items() if len(part)}


def _claimed(made: pd.DataFrame) -> pd.DataFrame:
    rows = duels.headline(made.assign(rested_ratio=made.ratio))
    return rows[duels.as_tuned(rows)]


def _length(group: str, rows: pd.DataFrame) -> str:
    """The wins and the losses of a group's fastest kernel on average, in a sentence each."""
    name = rows.groupby("name").ratio.mean().idxmax()
    part = rows[rows["name"] == name]
    lost, lengths = part[part.ratio < 1], sorted({part.seq_len.min(), part.seq_len.max()})
    met = sorted(part.groupby("met", sort=False), key=lambda pair: -len(pair[0].split()))
    tokens = " to ".join(f"{length:,}" for length in lengths)
    said = (
        f"{group}, {tokens} tokens, {_state(part).lower()}: `{name}` is {', and '.join(_won(*pair) for pair in met)}."
    )
    if len(lost):
        worst = lost.loc[lost.ratio.idxmin()]
        said += f" It is slower on {len(lost)}, at worst {worst.ratio:.2f} times as fast as {_peer(worst.peer)}: "
        said += f"{_words(worst)}."
    missing = rows.problem.nunique() - part.problem.nunique()
    said += f" No time yet: {_counted(missing)}." if missing else ""
    return f"{said} {ROUNDED}" if group == "Long" else said


def _state(part: pd.DataFrame) -> str:
    return "Rested" if part.sustained_ratio.isna().any() else "Sustained"


def _words(row: pd.Series) -> str:
    return _problem(json.loads(row.problem))


# ---- the table of GPUs ----


def _gpus() -> str:
    """A row for the kernels that run on the same architectures, each with its default problem, and what they need."""
    rows: dict[tuple[str, ...], dict[str, list[str]]] = {}
    for spec in catalog.current().kernels.values():
        runs, needs = list[str](), dict[str, None]()
        for gpu in GPUS:
            need = needed(spec, gpu)
            runs.append("no" if need else "runs")
            needs |= {need: None} if need else {}
        rows.setdefault(tuple(runs), {}).setdefault(", ".join(needs), []).append(f"`{spec.name}`")
    heads = ["kernels and their needs", *(f"{gpu.target} ({gpu.name})" for gpu in GPUS)]
    lines = []
    for cells, kernels in rows.items():
        named = [
            f"{', '.join(names)}: {need}" if need else f"the other {len(names)} kernels: nothing more"
            for need, names in kernels.items()
        ]
        lines.append([". ".join(named), *cells])
    return "\n".join(_markdown(heads, lines))


def needed(spec: KernelSpec, gpu: Device) -> str:
    """The need of a kernel for its default problem that a GPU does not meet, or "" if it runs there."""
    problem = sample(spec).problem
    settings = spec.settings_for(problem, sample(spec).settings, gpu.shared_bytes_per_block)
    if spec.cannot_run(problem, settings, gpu) is None:
        return ""
    return spec.lacks(problem, gpu.target) or f"{spec.shared_bytes_of(problem, settings):,} shared bytes per block"


# ---- tables of the bench ----


def _wanted(problems: Iterable[Problem]) -> list[str]:
    return [problem_text(problem) for problem in problems]


def _flashinfer(made: pd.DataFrame) -> list[str]:
    return [name for name in made["name"].unique() if name.startswith("flashinfer_")]


class Pair(NamedTuple):
    """The rows of a kernel and of its fastest peer on a problem."""

    problem: str
    ours: pd.Series
    peer: pd.Series


def _benched(
    made: pd.DataFrame, names: str | Iterable[str], others: list[str], problems: list[str] | None = None
) -> list[Pair]:
    """A Pair for each problem with a time of a kernel and of one of the others."""
    names = [names] if isinstance(names, str) else list(names)
    timed, found = made[(made.status == "ok") & (made.l2 == "cold")], []
    for _, ours in timed[timed["name"].isin(names) & timed.own_settings.astype(bool)].iterrows():
        there = timed[(timed.problem == ours.problem) & timed["name"].isin(others)].sort_values("median_us")
        if len(there) and (problems is None or ours.problem in problems):
            found.append(Pair(ours.problem, ours, there.iloc[0]))
    order = problems or [pair.problem for pair in found]
    return sorted(found, key=lambda pair: order.index(pair.problem))


def _section(pairs: list[Pair], floor: Mapping[str, float] | None = None) -> str:
    """The sentence and the table of pairs of the bench. floor: problem -> the time of torch's cuDNN over contiguous K
    and V, for a column of its own."""
    heads = ["problem", "kernel", "peer", "rested", "ratio (p10 to p90)", "sustained", "ratio"]
    heads += ["cuDNN, contiguous K and V"] if floor is not None else []
    ratios, rows = {}, []
    for pair in pairs:
        ours, peer = pair.ours, pair.peer
        rested, hot = peer.median_us / ours.median_us, peer.sustained_us / ours.sustained_us
        spread = f"{peer.p10_us / ours.p90_us:.2f} to {peer.p90_us / ours.p10_us:.2f}"
        said = _problem(json.loads(pair.problem))
        cells = [said, f"`{ours['name']}`", _peer(peer["name"])]
        cells += [f"{_us(ours.median_us)} / {_us(peer.median_us)}", f"{rested:.2f} ({spread})"]
        cells += [" / ".join(dict.fromkeys((_hot(ours), _hot(peer)))), NONE if pd.isna(hot) else f"{hot:.2f}"]
        cells += [_us(floor.get(pair.problem))] if floor is not None else []
        rows.append(cells)
        ratios[said, ours["name"]] = (rested, hot)
    both = len([1 for _, hot in ratios.values() if pd.notna(hot)])
    sentences = [_wins("rested", {key: rested for key, (rested, _) in ratios.items()})]
    if both:
        hot_ones = {key: hot for key, (_, hot) in ratios.items() if pd.notna(hot)}
        sentences.insert(0, _wins("sustained", hot_ones))
    if both < len(ratios):
        sentences.append(f"{len(ratios) - both} of {len(ratios)} comparisons are rested only.")
    return "\n".join([" ".join(sentences), "", *_markdown(heads, rows)])


def _wins(state: str, ratios: Mapping[tuple[str, str], float]) -> str:
    lost = {key: ratio for key, ratio in ratios.items() if ratio < 1}
    said = f"{state.capitalize()}, the kernel is faster on {len(ratios) - len(lost)} of {len(ratios)} problems"
    if not lost:
        return f"{said}."
    named = _numbered(f"{key[0]} ({ratio:.2f})" for key, ratio in sorted(lost.items(), key=lambda item: item[1]))
    return f"{said}, and slower on {len(lost)}: {named}."


def _hot(row: pd.Series) -> str:
    if pd.isna(row[SUSTAINED[0]]):
        return NONE
    load = _load(row.sustained_clock, row.sustained_power)
    return _us(row.sustained_us) + (f" at {load}" if load != NONE else "")


def _peer(name: str) -> str:
    way = re.sub(r"flashinfer_(nhd|hnd)_", "", name)
    return f"FlashInfer, {WAYS[way]}" if way in WAYS else TITLES.get(name, "FlashInfer")


# ---- the table of duels ----


def _dense() -> str:
    found = duels.recorded()
    if found is None:
        return "No duel of the present code is recorded."
    made, where = found
    claimed = _claimed(made)
    sentences = [_duels_said(name, part) for name, part in claimed.groupby("name", sort=False)]
    wrong = made[(made.status == "wrong") | made.peer_status.isin(["wrong", "less accurate"])]
    if len(wrong):
        sentences.append(f"{len(wrong)} rows have no time or a less accurate peer. How fast shows each reason.")
    sentences.append("In a row, a kernel that has not met the fastest peer comes later.")
    heads = ["problem", "fastest kernel", "peer", "kernel, peer", "sustained ratio (least to largest)", "MHz, W"]
    heads += ["rested ratio", "other kernels, ratio"]
    rows = []
    for text in _wanted(DENSE):
        here = claimed[claimed.problem == text]
        if here.empty:
            continue
        ordered = here.assign(met_it=here.peer == here.peer[here.peer_us.idxmin()])
        ordered = ordered.sort_values(["met_it", "ratio"], ascending=False)
        best, others = ordered.iloc[0], ordered.iloc[1:]
        cells = [_problem(json.loads(text)), f"`{best['name']}`", _peer(best.peer), *_duel(best)]
        rows.append([*cells, ", ".join(_other(row, best.peer) for _, row in others.iterrows())])
    sentences.append(f"The table shows {len(rows)} of the {claimed.problem.nunique()} problems.")
    return "\n".join([f"{where.device}, {where.dates}.", *sentences, "", *_markdown(heads, rows)])


def _other(row: pd.Series, peer: str) -> str:
    """A kernel with its ratio, and its peer's name if the peer is not `peer`."""
    return f"`{row['name']}` {row.ratio:.3f}" + (f" to {_peer(row.peer)}" if row.peer != peer else "")


def _duel(row: pd.Series) -> list[str]:
    """The cells of a kernel in a row of duels: times, sustained ratio, clock and power of both, rested ratio."""
    hot, rested = pd.notna(row.sustained_ratio), row.rested_ratio
    ratio = f"{row.ratio:.3f} ({row.ratio_low:.3f} to {row.ratio_high:.3f})" if hot else NONE
    sides = [_load(row.sustained_clock, row.sustained_power), _load(row.sustained_peer_clock, row.sustained_peer_power)]
    return [f"{_us(row.us)} / {_us(row.peer_us)}", ratio, " / ".join(sides) if hot else NONE, f"{rested:.3f}"]


def _duels_said(name: str, part: pd.DataFrame) -> str:
    lost = part[part.ratio < 1].sort_values("ratio")
    met = sorted(part.groupby("met", sort=False), key=lambda pair: -len(pair[0].split()))
    said = f"{_state(part)}, `{name}` is {', and '.join(_won(*pair) for pair in met)}."
    if lost.empty:
        return said
    named = _numbered(f"{_words(r)} ({r.ratio:.2f})" for _, r in lost.head(3).iterrows())
    return f"{said} It is slower on {len(lost)} of all {len(part)}. The largest losses: {named}."


def _won(met: str, part: pd.DataFrame) -> str:
    *first, last = (_peer(name) for name in met.split())
    rivals = f"{', '.join(first)} and {last}" if first else last
    span = " to ".join(dict.fromkeys(f"{ratio:.2f}" for ratio in (part.ratio.min(), part.ratio.max())))
    return f"faster than {rivals} on {(part.ratio > 1).sum()} of {_counted(len(part))} ({span} times as fast)"


def _counted(problems: int) -> str:
    return f"{problems} problem{'' if problems == 1 else 's'}"


# ---- words ----


def _numbered(items: Iterable[str]) -> str:
    """Items with commas of their own, as one line."""
    return ", ".join(f"({number}) {item}" for number, item in enumerate(items, 1))


def _problem(p: dict[str, Any]) -> str:
    lengths = p.get("context_lens")
    kinds = " and ".join(f"{n:,}" for n in dict.fromkeys(lengths or ()))
    said = [f"batch {len(lengths)}, {kinds} tokens" if lengths else f"seq_len {p['seq_len']:,}, batch {p['batch']}"]
    kv = p.get("num_kv_heads") or p["num_heads"]
    said.append(f"{p['num_heads']} heads" + (f" on {kv} KV heads" if kv != p["num_heads"] else ""))
    said.append(f"head_dim {p['head_dim']}")
    said += [p.get("cache_dtype") and "fp8 cache" or p["dtype"]] if "dtype" in p else []
    said += [f"pages of {p['block_size']}"] if p.get("block_size", 16) != 16 else []
    said += [f"{p['prefix']:,} tokens shared"] if p.get("prefix") else []
    said += ["causal"] if p.get("causal") else []
    masks = {"window": f"a window of {p.get('window', 0):,}"}
    masks["random_blocks"] = f"{p.get('density', 0):.0%} of the blocks"
    said += [masks.get(p["mask"], p["mask"])] if "mask" in p else []
    said += [f"tiles of {p['block_q']} x {p['block_kv']}"] if p.get("block_kv", 128) != 128 else []
    said += [f"scores {p['scores']}"] if p.get("scores", "random") != "random" else []
    said += [f"scores x {p['score_scale']:g}"] if p.get("score_scale", 1.0) != 1 else []
    return ", ".join(said)


def _us(value: float | None) -> str:
    if value is None or pd.isna(value):
        return NONE
    return f"{value / 1000:.2f} ms" if value >= 10000 else f"{value:.0f} us" if value >= 100 else f"{value:.1f} us"


def _load(mhz: float, watts: float) -> str:
    known = [f"{value:,.0f} {unit}" for value, unit in ((mhz, "MHz"), (watts, "W")) if pd.notna(value)]
    return ", ".join(known) or NONE


def _markdown(heads: list[str], rows: Iterable[list[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows)]


if __name__ == "__main__":
    if "--write" in sys.argv:
        for file in FILES:
            file.write_text(written(file.read_text()))
    else:
        print("\n\n".join(f"## {name}\n\n{text}" for name, text in tables().items()))
