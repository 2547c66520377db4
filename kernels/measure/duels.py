"""Duels: kernels and peers on one problem take turns in one process. Recordings are in kernels/recordings/data/duels/.

A power-limited chip slows down next to a fast neighbour. So both sides of a ratio run in the same seconds: all kernels
and peers of a problem take turns, in two states (load.in_turns):

- rested: RESTED.rounds turns of 50 ms
- sustained: after 100 ms of load, turns of 400 ms, so that the chip stays hot. The program reads clock and power.

Before any turn, the project's one rule (core/tolerance.py) judges each output against float64 and torch's own answer.
A wrong kernel gets no time. A peer with a rounding error above the rule is timed as "less accurate". A plainly wrong
peer gets no time.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import pandas as pd

from kernels import catalog
from kernels.errors import RunError
from kernels.families.attention import CLIMBS
from kernels.families.tensor_cores.problem import SixteenBitProblem
from kernels.measure import peers
from kernels.measure.bench_rows import Row, problem_text
from kernels.measure.duel_rows import kept, met, tried
from kernels.measure.meeting import COLUMNS, FIGURES, MEANWHILE, PEER, RESTED, SUSTAINED
from kernels.recordings import tables
from kernels.recordings.resumable import Group, Progress, resume, silent
from kernels.run.backends import Device

KIND = "duels"
RIVALS = (PEER, "flash_attn_4", "flashinfer")
"""The strongest peers. A duel meets each one that is installed."""
FROM_RUNG = 11
PRICED = ("SHARE",)  # constants that trade accuracy for time, in the kernels that have them
TOKENS, WIDTH = 16384, 2048  # batch * seq_len and num_heads * head_dim of the square problems


def problems() -> list[SixteenBitProblem]:
    """16,384 tokens in sequences of 512 to 16,384, both masks, heads of 128 and of 64, both types. Also Llama 3's 64
    query and 8 KV heads, and the other kinds of scores at 4,096 tokens."""
    made = []
    for dtype, head_dim, causal in product(("float16", "bfloat16"), (128, 64), (False, True)):
        lengths = (512, 1024, 2048, 4096, 8192, 16384) if dtype == "float16" else (4096, 16384)
        for length in lengths:
            batch, heads = TOKENS // length, WIDTH // head_dim
            made.append(SixteenBitProblem(length, head_dim, batch, heads, causal, dtype))
    for length, causal in product((4096, 16384, 32768), (False, True)):
        made.append(SixteenBitProblem(length, 128, 1, 64, causal, "bfloat16", num_kv_heads=8))
    return [*made, *(problem for problem in distributions() if problem not in made)]


def distributions() -> list[SixteenBitProblem]:
    """Scores of seven kinds at 4,096 tokens: random, rising along the keys, one token far above, of low rank, growing
    by 5 and by 9.5 a tile, four times as large."""
    plain = SixteenBitProblem(4096, 128, 4, 16)
    kinds = [replace(plain, scores=scores) for scores in ("random", "rising", "sink", "low_rank", *CLIMBS)]
    return [*kinds, replace(plain, score_scale=4.0)]


def names() -> list[str]:
    """The kernels of duels: the rungs that overlap products and softmax."""
    return [name for name, spec in catalog.current().of_problem(SixteenBitProblem).items() if spec.rung >= FROM_RUNG]


def entries(problem: SixteenBitProblem) -> list[tuple[str, dict[str, int]]]:
    """(kernel, its constants) of all entries on a problem: each kernel as tuned, and on each of the distributions also
    with every other value of each constant of PRICED."""
    made = []
    for name in names():
        constants = PRICED if problem in distributions() else ()
        made += tried(name, catalog.current().kernels[name], problem, constants)
    return made


def rivals() -> list[str]:
    """The installed RIVALS."""
    return [name for name in RIVALS if peers.installed(name)]


def absent() -> dict[str, str]:
    """Each missing one of the RIVALS -> the reason in words."""
    return {name: peers.not_installed(name) for name in RIVALS if not peers.installed(name)}


def record(device: Device, progress: Progress = silent, anew: bool = False) -> list[Path]:
    """Writes this GPU's table after every problem. Returns the path. Unless `anew`, a problem stays if the table has
    all its rows, of the present code and with both states. At the end, RunError names each problem that failed."""
    path, asked, failed = tables.path_of(KIND, device.name), problems(), list[str]()
    there = {} if anew else _kept(path, asked, device)
    kinds = distributions()
    groups = [
        Group(problem.size, [problem_text(problem)], partial(_met, problem, failed))
        for problem in sorted(asked, key=lambda p: (p not in kinds, p.num_kv_heads > 0))
    ]
    resume(groups, there, partial(_write, path, device, asked), progress)
    if failed:
        raise RunError(f"{len(failed)} of {len(asked)} problems have no duel. {'. '.join(failed)}. Record them again.")
    return [path]


def _kept(path: Path, asked: Sequence[SixteenBitProblem], device: Device) -> dict[str, list[Row]]:
    """The rows of each problem with all its rows."""
    if not path.exists():
        return {}
    made, where = tables.load(path)
    made = whole(made)
    present = made.code_hash.isin(_codes().values()) & made.peer_status.notna() & (where.driver == device.driver)
    return kept(made[present], asked, lambda problem: (entries(problem), rivals()))


def _met(problem: SixteenBitProblem, failed: list[str]) -> dict[str, list[Row]]:
    return met(problem, entries(problem), rivals(), failed)


def _write(path: Path, device: Device, asked: Sequence[SixteenBitProblem], rows: Mapping[str, Sequence[Row]]) -> None:
    missing = {"absent": absent()} if absent() else {}
    where = tables.provenance(device, _codes(), torch=_torch_version(), protocol=_protocol(), **missing)
    listed = [row for problem in asked for row in rows.get(problem_text(problem), ())]
    tables.save(pd.DataFrame(listed, columns=list(COLUMNS)), path, where)


def _codes() -> dict[str, str]:
    return {name: catalog.current().kernels[name].code_hash for name in names()}


def _protocol() -> str:
    return ". ".join(
        f"{name}: {state.rounds} rounds of {state.seconds:g} s after {state.lead:g} s of load"
        for name, state in (("rested", RESTED), ("sustained", SUSTAINED))
    )


def recorded() -> tuple[pd.DataFrame, tables.Provenance] | None:
    """The recorded rows of kernels' present code, from tables.of_present_code, with every column of COLUMNS. Columns
    that an older table lacks are empty."""
    found = tables.of_present_code(KIND)
    return (whole(found[0]), found[1]) if found else None


def whole(made: pd.DataFrame) -> pd.DataFrame:
    """A table with all COLUMNS, and its other ones. Columns that it lacked are empty."""
    return made.reindex(columns=[*COLUMNS, *(name for name in made if name not in COLUMNS)])


def timed(made: pd.DataFrame) -> pd.DataFrame:
    """The rows of a whole table with a ratio: both have a time."""
    return made[(made.status == "ok") & made.ratio.notna()]


def strongest(made: pd.DataFrame) -> pd.DataFrame:
    """Each kernel, with its constants, on each problem against its fastest accurate peer. `met`: the names of all its
    peers on the problem. An older table judged no peer, so its rows count as accurate."""
    met = made.drop_duplicates(["problem", "peer"]).groupby("problem").peer.agg(" ".join)
    rows = timed(made)
    rows = rows.assign(met=rows.problem.map(met))
    rows = rows[rows.peer_status.isna() | (rows.peer_status == "ok")]
    order = rows.sustained_peer_us.fillna(rows.peer_us).sort_values(kind="stable").index
    first = rows.loc[order].drop_duplicates(["name", "problem", "settings"]).index
    return rows[rows.index.isin(first)]


def headline(made: pd.DataFrame) -> pd.DataFrame:
    """The rows `strongest` with us, peer_us, tflops, ratio and the like of the sustained state, if the table has it."""
    rows = strongest(made)
    if rows.sustained_ratio.isna().any() or rows.empty:
        return rows
    return rows.assign(**{name: rows[f"{SUSTAINED.prefix}{name}"] for name in (*FIGURES, *MEANWHILE)})


def as_tuned(made: pd.DataFrame) -> pd.Series:
    """Whether each row has the constants to which its kernel is tuned on its problem. A constant that is younger than
    the row has its default there."""
    own = []
    for name, settings, problem in zip(made["name"], made.settings, made.problem):
        spec = catalog.current().kernels[name]
        pairs = (pair.split("=") for pair in str(settings).split() if "=" in pair)  # NaN without constants
        chosen = {constant: int(value) for constant, value in pairs}
        tuned = spec.settings_for(spec.problem_type(**json.loads(problem)))
        own.append({**spec.settings(), **chosen} == tuned)
    return pd.Series(own, made.index, dtype=bool)


def _torch_version() -> str:
    from importlib.metadata import version

    return version("torch")
