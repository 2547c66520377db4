"""Sweeps of timings, their table, and what follows from it: speed-ups with their spread, scaling exponents, points on the roofline.

A row of the table is one kernel or peer on one problem (COLUMNS). Recorded tables lie in kernels/recordings/bench/, one for each GPU.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from itertools import product

import numpy as np
import pandas as pd

from kernels import catalog, measure, peers, tables
from kernels.errors import ProblemError
from kernels.measure import Point
from kernels.paged import CacheCopyProblem, CacheWriteProblem, PagedProblem
from kernels.problem import AttentionProblem, check_value

FOLDER = tables.FOLDER / "bench"
MOST_POINTS = 400
WIDTH = "width"  # of the model: heads x head_dim; sweeping it chooses the heads
SIZES = ("seq_len", "batch", "heads", "kv_heads", "head_dim", "causal", "dtype")
STATES = tuple(f"{what}_{when}" for what in ("clock", "temperature", "power") for when in ("before", "after"))
RATIO = {"": ("median_us", "median_us"), "_low": ("p10_us", "p90_us"), "_high": ("p90_us", "p10_us")}  # of two times, with its spread: what over what
COLUMNS = ("name", "kind", "status", *SIZES, "settings", "l2", "runs", "median_us", "p10_us", "p90_us", "tflops", "tokens_per_s", "bytes", "gb_per_s",
           "intensity", "roof", "roof_percent", "peak_bytes", "max_abs_error", "baseline_max_abs_error", *STATES, "problem", "reason")
BEGIN = {  # what a bench times where nothing else is asked for
    AttentionProblem: AttentionProblem(seq_len=1024, head_dim=64, heads=8),
    PagedProblem: PagedProblem((1024,) * 8, 32, 8, 128, dtype="float16"),
    CacheWriteProblem: CacheWriteProblem(8, 128, 16, "float16", 256, slots=tuple(range(0, 4096, 2))),
    CacheCopyProblem: CacheCopyProblem(8, 128, 16, "float16", 512, copies=tuple((n, n + 256) for n in range(256))),
}


@dataclass(frozen=True)
class Skipped:
    """A place of a sweep that is no problem at all, and why."""

    name: str
    at: dict
    reason: str


def begin(kernel):
    """The problem that a bench of the kernel begins with."""
    return BEGIN.get(kernel.problem_type) or kernel.problem_type()


def sweep_field(text):
    """(field, its values as text) of a --sweep such as seq_len=128,256. ProblemError if it is none."""
    name, equals, values = text.partition("=")
    listed = [value.strip() for value in values.split(",") if value.strip()]
    if not equals or not name.strip() or not listed:
        raise ProblemError(f"--sweep takes FIELD=VALUE,VALUE,...; got {text!r}.")
    return name.strip(), listed


def set_field(text):
    """(field, its value as text) of one that holds for every point, such as head_dim=64; a tuple's value holds commas. ProblemError if it is none."""
    name, values = sweep_field(text)
    return name, ",".join(values)


def points(names, sweeps=(), chosen=(), with_peers=False, cold=True):
    """The Points (and Skipped places) of a bench, problem by problem. names: kernels; sweeps: pairs of field and values; chosen: pairs of
    field and value that hold for all. A field is one of the problem, a compile-time constant, batch or seq_len (of paged problems too), or
    width. ProblemError for an unknown field, a value that cannot be, or more than MOST_POINTS points."""
    kernels = [catalog.find(name) for name in names]
    sweeps = [(field, list(values)) for field, values in sweeps]
    if len({field for field, _ in sweeps}) < len(sweeps):
        raise ProblemError(f"A field can be swept once; got {', '.join(field for field, _ in sweeps)}.")
    count = math.prod(len(values) for _, values in sweeps) * (len(kernels) + with_peers * len(peers.PEERS))
    if count > MOST_POINTS:
        raise ProblemError(f"This sweep has {count:,} points; at most {MOST_POINTS} are run at a time. Give fewer values or fewer kernels.")
    found = {}
    for values in product(*(values for _, values in sweeps)):
        place = dict(zip((field for field, _ in sweeps), values))
        for kernel in kernels:
            made = _point(kernel, dict(chosen) | place, set(place), cold)
            found[made if isinstance(made, Point) else (kernel.name, *place.items())] = made
            if with_peers and isinstance(made, Point) and isinstance(made.problem, (AttentionProblem, PagedProblem)):
                found |= {p: p for p in (Point(peer, made.problem, (), cold) for peer in peers.PEERS)}
    return _by_problem(found.values())


def _by_problem(made):
    """The same, those of one problem together: its inputs, float64 and torch's error are then computed once."""
    groups = {}
    for point in made:
        groups.setdefault(getattr(point, "problem", None) or json.dumps(point.at), []).append(point)
    return [point for group in groups.values() for point in group]


def _point(kernel, wanted, swept, cold):
    base = begin(kernel)
    known, constants = {f.name: f for f in fields(base)}, {c.name: c for c in kernel.constants}
    extra = {WIDTH} if isinstance(base, AttentionProblem) else {"seq_len", "batch"} if isinstance(base, PagedProblem) else set()
    problem, settings, special = {}, {}, {}
    for name, text in wanted.items():
        if name in extra:
            special[name] = check_value(name, text, 0, {"low": 1, "high": 2**16})
        elif name in known:
            problem[name] = check_value(name, text, known[name].default, known[name].metadata)
        elif name in constants:
            settings[name] = text
        else:
            raise ProblemError(f"{kernel.name} has no field or constant {name!r}; it has {', '.join([*known, *sorted(extra), *constants])}.")
    at = {name: wanted[name] for name in swept}
    if WIDTH in special:
        head_dim = problem.get("head_dim", base.head_dim)
        if special[WIDTH] % head_dim:
            return Skipped(kernel.name, at, f"A width of {special[WIDTH]} is no whole number of heads of {head_dim}.")
        problem["heads"] = check_value("heads", special[WIDTH] // head_dim, 1, known["heads"].metadata)
    elif special:
        lens = base.context_lens
        problem["context_lens"] = (special.get("seq_len", lens[0]),) * special.get("batch", len(lens))
    if isinstance(base, PagedProblem):  # what follows from the sizes is made anew
        problem = {"num_blocks": 0, "block_tables": (), **problem}
    made = replace(base, **problem)
    return Point(kernel.name, made, tuple(kernel.settings_for(made, settings).items()), cold)


# ---- the table ----


def settings_text(settings):
    """Pairs of constants as the column `settings` holds them."""
    return " ".join(f"{name}={value}" for name, value in settings)


def row(timing, roofs):
    """The table's row of a measure.Timing; roofs as measure.roofs gives them."""
    point = timing.point
    made = {**sizes(point.problem), "name": point.name, "kind": "peer" if point.is_peer else "kernel", "status": timing.status, "reason": timing.reason,
            "settings": settings_text(point.settings), "l2": "cold" if point.cold else "warm", "problem": json.dumps(asdict(point.problem))}
    made |= {name: getattr(timing, name) for name in ("runs", "median_us", "p10_us", "p90_us", "peak_bytes", "max_abs_error", "baseline_max_abs_error")}
    for name in ("clock", "temperature", "power"):
        made[f"{name}_before"], made[f"{name}_after"] = getattr(timing, name)
    if timing.status == "ok" and getattr(point.problem, "work", None):
        made |= figures(timing, roofs)
    return {name: made.get(name) for name in COLUMNS}


def skipped_row(skipped):
    """The row of a Skipped."""
    made = {"name": skipped.name, "kind": "kernel", "status": "skipped", "reason": skipped.reason, **{k: v for k, v in skipped.at.items() if k in SIZES}}
    return {name: made.get(name) for name in COLUMNS}


def sizes(problem):
    """SIZES of an attention problem; of a paged one where all contexts have one length; nothing of others."""
    if isinstance(problem, AttentionProblem):
        return {"seq_len": problem.seq_len, "batch": problem.batch, "heads": problem.heads, "kv_heads": problem.heads, "head_dim": problem.head_dim,
                "causal": problem.causal, "dtype": "float32"}
    if isinstance(problem, PagedProblem) and len(set(problem.context_lens)) == 1:
        return {"seq_len": problem.context_lens[0], "batch": problem.num_seqs, "heads": problem.num_heads, "kv_heads": problem.num_kv_heads,
                "head_dim": problem.head_size, "causal": False, "dtype": problem.dtype}
    return {}


def figures(timing, roofs):
    """TFLOP/s, tokens/s, bytes moved and GB/s, FLOP per byte, and per cent of the roof: the lower of arithmetic and copy bandwidth x intensity."""
    point, moved, median_us = timing.point, timing.moved_bytes, timing.median_us
    work = point.problem.work
    title = _arithmetic(_products(point))
    arithmetic = arithmetic_roofs(roofs)[title]
    gb_per_s, tflops, intensity = moved / median_us / 1e3, work.flops / median_us / 1e6, work.flops / moved
    by_memory = intensity * roofs["copy_gb_per_s"] / 1e3
    percent = 100 * tflops / min(arithmetic, by_memory) if work.flops else 100 * gb_per_s / roofs["copy_gb_per_s"]
    return {"tflops": round(tflops, 4) if work.flops else None, "tokens_per_s": round(1e6 * work.tokens / median_us, 1), "bytes": int(moved),
            "gb_per_s": round(gb_per_s, 2), "intensity": round(intensity, 4), "roof": "copy" if by_memory < arithmetic or not work.flops else title,
            "roof_percent": round(percent, 2)}


def arithmetic_roofs(roofs):
    """title -> TFLOP/s, of every arithmetic that a kernel or peer uses. Derived: a product made of n 16-bit ones goes at most at 1 / n of the fp16 rate."""
    used = {0, 1, *(spec.tensor_products for spec in catalog.KERNELS.values()), *peers.TENSOR_PRODUCTS.values()}
    return {_arithmetic(n): roofs["fp16_tflops"] / n if n else roofs["fp32_tflops"] for n in sorted(used)}


def _arithmetic(products):
    """The title of the arithmetic that makes a multiply-add of so many 16-bit products on tensor cores."""
    return "fp32 FMA" if not products else "fp16 tensor cores" if products == 1 else f"fp16 tensor cores / {products}"


def _products(point):
    """As KernelSpec.tensor_products, of a point's kernel or peer on its problem."""
    if not point.is_peer:
        return catalog.KERNELS[point.name].tensor_products
    return 1 if sizes(point.problem).get("dtype") == "float16" else peers.TENSOR_PRODUCTS.get(point.name, 0)


def table(rows: Iterable[dict]):
    """Rows as a table of COLUMNS."""
    return pd.DataFrame(list(rows), columns=list(COLUMNS))


def records(made):
    """A table's rows as JSON has them: None where there is no value."""
    return json.loads(made.to_json(orient="records"))


def roofs_said(roofs):
    """The measured roofs in words."""
    return (f"copy {roofs['copy_gb_per_s']:,.0f} GB/s, fp32 FMA {roofs['fp32_tflops']:.1f} TFLOP/s, fp16 tensor cores "
            f"{roofs['fp16_tflops']:.0f} TFLOP/s")


def provenance(device, roofs, made):
    """What a table's file says of its making: device, driver, date, torch, compiler, roofs, sources of the kernels in it, and the protocol."""
    import torch

    from kernels import build

    names = [name for name in dict.fromkeys(made["name"]) if name in catalog.KERNELS]
    compiler = build.build(catalog.KERNELS["lab_fma"], {}, build.Mode.TIMED, device.target).compiler
    return tables.provenance(device, torch=torch.__version__, compiler=compiler, roofs=roofs, sources={n: catalog.KERNELS[n].source_hash for n in names},
                             protocol=f"device events, median of 5 to {measure.MOST_RUNS} runs, warmed up {measure.WARM_UP:g} s")


# ---- what follows from a table ----


def problem_key(made):
    """What makes two rows comparable: the problem, the state of the L2, and where several tables are together the GPU, the date and the source."""
    key = made["problem"].astype(str)
    for name in ("l2", "device", "date", "source"):
        if name in made:
            key = key + " " + made[name].astype(str)
    return key


def speedups(made, baseline):
    """The rows with a time, with speedup, speedup_low and speedup_high against the baseline (a label of `labelled`) on the same problem:
    the ratio of the medians; the baseline's p10 over the row's p90; its p90 over the row's p10. None where the baseline has no time."""
    timed = made[made.status == "ok"].copy()
    base = timed[timed.label == baseline].assign(key=problem_key).drop_duplicates("key").set_index("key")
    key = problem_key(timed)
    for end, (above, below) in RATIO.items():
        timed[f"speedup{end}"] = key.map(base[above]).astype(float) / timed[below]
    return timed


def labelled(made):
    """The table with `label`: the name, and where a name was timed with several settings, not all of them its own choice, those that differ."""
    made = made.copy()
    labels = made["name"].astype(str)
    for name, part in made.groupby("name"):
        if part.settings.nunique() > 1 and not all(map(_own_choice, part.itertuples())):
            pairs = [dict(p.split("=") for p in str(s).split()) for s in part.settings.fillna("")]
            differ = [k for k in pairs[0] if len({p.get(k) for p in pairs}) > 1] if pairs else []
            labels.loc[part.index] = [f"{name} {' '.join(f'{k}={p[k]}' for k in differ if k in p)}".strip() for p in pairs]
    return made.assign(label=labels)


def _own_choice(row):
    """Whether a row's settings are those that the kernel takes for its problem where nobody chooses; a skipped row has none."""
    spec = catalog.KERNELS[row.name]
    return row.status == "skipped" or row.settings == settings_text(spec.settings_for(spec.problem_type(**json.loads(row.problem))).items())


def exponents(made, field="seq_len"):
    """label -> the exponent b of time ~ field^b, by least squares over the logarithms of the largest half of at least four sizes; and how many were used."""
    found = {}
    for label, part in made[(made.status == "ok") & made[field].notna()].groupby("label"):
        points_ = part.groupby(field).median_us.median().sort_index()
        if len(points_) >= 4:
            top = points_.iloc[len(points_) // 2:] if len(points_) >= 6 else points_
            slope = np.polyfit(np.log(top.index.to_numpy(float)), np.log(top.to_numpy(float)), 1)[0]
            found[label] = (float(slope), len(top))
    return found


# ---- recorded ----


def recorded_points():
    """What `measure bench` records: every kernel of the catalogue and the peers over the sweeps."""
    attention, paged = list(catalog.ATTENTION), list(catalog.PAGED)
    asked = [
        (attention, [("seq_len", [128, 256, 512, 1024, 2048, 4096, 8192, 16384])], {}),
        (attention, [("seq_len", [512, 1024, 2048, 4096])], {"causal": "true"}),
        (attention, [(WIDTH, [512, 768, 1024, 2048])], {}),
        (attention, [("heads", [8, 12, 16, 32])], {"head_dim": 128}),
        (attention, [("batch", [1, 4, 8, 16, 32])], {}),
        (attention[2:], [], {"batch": 4, "heads": 16, "head_dim": 128, "seq_len": 4096}),
        (paged, [("seq_len", [256, 512, 1024, 2048, 4096, 8192])], {"batch": 4}),
        (paged, [("batch", [1, 4, 8, 16, 32])], {}),
    ]
    found = [point for names, sweeps, chosen in asked for point in points(names, sweeps, chosen.items(), with_peers=True)]
    others = [name for name in catalog.KERNELS if name not in (*attention, *paged)]
    return _by_problem(dict.fromkeys([*found, *(point for name in others for point in points([name]))]))


def path_of(device_name):
    return FOLDER / f"{device_name.replace(' ', '_')}.csv"


@lru_cache
def recorded():
    """GPU name -> (table of the rows whose kernel has its present source, provenance) of every recorded table."""
    found = {}
    for path in sorted(FOLDER.glob("*.csv")):
        made, where = tables.load(path)
        present = [where["sources"].get(name) == catalog.KERNELS[name].source_hash if name in catalog.KERNELS else name in peers.PEERS for name in made["name"]]
        found[where["device"]] = made[present].reset_index(drop=True), where
    return found
