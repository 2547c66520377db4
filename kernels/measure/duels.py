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
from dataclasses import replace
from itertools import product

import pandas as pd

from kernels import catalog
from kernels.families.attention import CLIMBS
from kernels.families.tensor_cores.problem import SixteenBitProblem
from kernels.measure.bench_rows import pairs_of
from kernels.measure.meeting import FIGURES, MEANWHILE, PEER, SUSTAINED, Entry, duel_table, tried

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
        lengths = (512, 1024, 2048, 4096, 8192, 16384) if dtype == "float16" else (512, 1024, 4096, 16384)
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


def entries(problem: SixteenBitProblem) -> list[Entry]:
    """All entries on a problem: each kernel as tuned, and on each of the distributions also with every other value of
    each constant of PRICED."""
    constants = PRICED if problem in distributions() else ()
    return [entry for name in names() for entry in tried(name, problem, constants)]


TABLE = duel_table(KIND, lambda: [(problem, entries(problem), RIVALS) for problem in problems()])
recorded = TABLE.newest


def timed(made: pd.DataFrame) -> pd.DataFrame:
    """The rows with a ratio: both have a time."""
    return made[(made.status == "ok") & made.ratio.notna()]


def strongest(made: pd.DataFrame) -> pd.DataFrame:
    """Each kernel, with its constants, on each problem against its fastest accurate peer. `met`: the names of all its
    peers on the problem."""
    met = made.groupby(["name", "problem"]).peer.agg(lambda peers: " ".join(dict.fromkeys(peers)))
    rows = timed(made)
    rows = rows.assign(met=[met[pair] for pair in zip(rows["name"], rows.problem)])
    rows = rows[rows.peer_status == "ok"]
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
        tuned = spec.settings_for(spec.problem_type(**json.loads(problem)))
        own.append({**spec.settings(), **dict(pairs_of(settings))} == tuned)
    return pd.Series(own, made.index, dtype=bool)
