"""Duels: kernels and peers on one problem that take turns in one process, recorded for each GPU in
kernels/recordings/duels/.

A chip that is limited by power is slower next to a fast neighbour, so a table of single times flatters the neighbour of
a slow one. Each ratio is therefore of two that met in the same seconds. Everything that meets on a problem takes turns
in two states (load.in_turns):

- rested: RESTED.rounds turns of 50 ms;
- sustained: after 100 ms of load, turns of 400 ms, so that the chip stays hot. Clock and power are read meanwhile.

Before any turn each output is judged by the project's one rule (core/tolerance.py) against float64 and torch's own
answer. A kernel that misses gets no time. A peer that misses by rounding is timed as "less accurate". A peer that is
plainly wrong gets no time.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kernels import catalog
from kernels.core.problem import inputs_of
from kernels.core.request import Request
from kernels.core.tolerance import OutputError, worst
from kernels.errors import OutOfMemory, PeerUnavailable, ProblemError, RunError, WarpglassError
from kernels.families.tensor_cores.problem import CLIMBS, SixteenBitProblem
from kernels.run.backends import gpu
from kernels.timing import load, peers, protocol, tables
from kernels.timing.rows import SIZES, problem_text, settings_text

KIND = "duels"
PEER = "sdpa_cudnn"
RIVALS = (PEER, "flash_attn_4", "flashinfer")
"""The strongest peers. A duel meets each one that is installed."""
FROM_RUNG = 11
PRICED = ("THRESHOLD", "SHARE", "STREAK")  # constants that trade accuracy or time, in the kernels that have them
TOKENS, WIDTH = 16384, 2048  # batch * seq_len and num_heads * head_dim of the square problems
SETS = 3  # of arrays, which the runs of a turn take one after the other
TIME_LIMIT = 300.0  # seconds for one problem


@dataclass(frozen=True)
class State:
    """One of the two states of the chip.

    rounds: turns of each.
    seconds: of a turn.
    lead: seconds of load before the first round.
    prefix: of the state's columns.
    """

    rounds: int
    seconds: float
    lead: float
    prefix: str


RESTED, SUSTAINED = State(5, 0.05, 0.0, ""), State(3, load.SECONDS, load.LEAD, "sustained_")
STATES = (RESTED, SUSTAINED)
FIGURES = ("us", "peer_us", "tflops", "peer_tflops", "ratio", "ratio_low", "ratio_high")
MEANWHILE = ("clock", "peer_clock", "power", "peer_power")
COLUMNS = (
    *("name", "peer", "status", "peer_status", *SIZES, "scores", "score_scale", "settings", "rounds"),
    *(f"{state.prefix}{name}" for state in STATES for name in FIGURES),
    *(f"{state.prefix}{name}" for state in STATES for name in MEANWHILE),
    *("max_abs_error", "peer_max_abs_error", "allowed_error", "rms_error", "peer_rms_error"),
    *("output", "output_error", "output_allowed", "pairs", "sustained_pairs", "code_hash", "problem", "reason"),
)
"""status, peer_status: ok; less accurate (a peer that misses by rounding); wrong; skipped; unavailable. reason: of the
kernel's or the peer's, with figures.
us, peer_us: the median of the rounds. ratio: the peer's time over the kernel's, the median of the rounds' ratios, of
which ratio_low and ratio_high are the least and the largest.
clock, power: MHz and W during the kernel's turns (the median of the rounds); peer_clock, peer_power: during the peer's.
pairs: JSON, [kernel's us, peer's us] of each round. The columns with "sustained_" say this of a chip at work.
max_abs_error, peer_max_abs_error, allowed_error: of O. output, output_error, output_allowed: of the kernel's output
that uses most of its allowance."""


def problems() -> list[SixteenBitProblem]:
    """16,384 tokens in sequences of 512 to 16,384, both masks, heads of 128 and of 64, both types; Llama 3's 64 query
    and 8 KV heads; and the other kinds of scores at 4,096 tokens."""
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
    """The kernels that meet the peer: the rungs that overlap products and softmax."""
    return [name for name, spec in catalog.of_problem(SixteenBitProblem).items() if spec.rung >= FROM_RUNG]


def entries(problem: SixteenBitProblem) -> list[tuple[str, dict[str, int]]]:
    """(kernel, its constants) of all that meet the peer on a problem: each kernel as it is tuned, and on each of the
    distributions with every other value of each constant of PRICED too."""
    made = []
    for name in names():
        spec = catalog.KERNELS[name]
        tuned = spec.settings_for(problem)
        made.append((name, tuned))
        priced = [c for c in spec.constants if c.name in PRICED] if problem in distributions() else []
        made += [(name, tuned | {c.name: v}) for c in priced for v in c.values if v != tuned[c.name]]
    return made


def rivals() -> list[str]:
    """The RIVALS that are installed here."""
    return [name for name in RIVALS if peers.installed(name)]


def absent() -> dict[str, str]:
    """Each of the RIVALS that is not installed here -> the reason in words."""
    return {name: peers.not_installed(name) for name in RIVALS if not peers.installed(name)}


def record(
    device: Any, progress: Callable[[int, int, str], None] = lambda done, of, what: None, anew: bool = False
) -> list[Path]:
    """Writes this GPU's table after every problem; the path. Unless `anew`, a problem is kept if all its rows are there
    of the present code, with both states. RunError at the end names each problem that failed."""
    from kernels.run import workers

    path, asked = tables.path_of(KIND, device.name), problems()
    codes = {name: catalog.KERNELS[name].code_hash for name in names()}
    kept = pd.DataFrame(columns=list(COLUMNS))
    if path.exists() and not anew:
        made, where = tables.load(path)
        made = whole(made)
        kept = made[made.code_hash.isin(codes.values()) & made.peer_status.notna() & (where.driver == device.driver)]
    rows: list[dict[str, Any]] = []
    waiting = []
    for problem in asked:
        here = kept[kept.problem == problem_text(problem)]
        there = set(zip(here["name"], here.settings, here.peer))
        wanted = [(n, settings_text(c.items()), rival) for n, c in entries(problem) for rival in rivals()]
        if set(wanted) <= there:
            rows += here.to_dict("records")
        else:
            waiting.append(problem)
    order = {problem_text(problem): number for number, problem in enumerate(asked)}
    kinds, failed = distributions(), []
    for number, problem in enumerate(sorted(waiting, key=lambda p: (p not in kinds, p.num_kv_heads > 0))):
        progress(len(asked) - len(waiting) + number, len(asked), problem.size)
        job = workers.submit(
            meet, problem, entries(problem), rivals(), backend="gpu", what="Duels", time_limit=TIME_LIMIT
        )
        try:
            rows += job.result()
        except WarpglassError as error:  # the other problems go on
            failed.append(f"{problem.size}: {str(error).rstrip('.')}")
            continue
        said = {"absent": absent()} if absent() else {}
        where = tables.provenance(device, codes, torch=_torch_version(), protocol=_protocol(), **said)
        rows.sort(key=lambda entry: order[entry["problem"]])
        tables.save(pd.DataFrame(rows, columns=list(COLUMNS)), path, where)
    progress(len(asked), len(asked), "")
    if failed:
        raise RunError(f"{len(failed)} of {len(asked)} problems have no duel. {'; '.join(failed)}. Record them again.")
    return [path]


def _protocol() -> str:
    return "; ".join(
        f"{name}: {state.rounds} rounds of {state.seconds:g} s after {state.lead:g} s of load"
        for name, state in (("rested", RESTED), ("sustained", SUSTAINED))
    )


def recorded() -> tuple[pd.DataFrame, tables.Provenance] | None:
    """The recorded rows of kernels' present code, as tables.of_present_code gives them, with every column of COLUMNS.
    Columns that an older table does not have are empty."""
    found = tables.of_present_code(KIND)
    return (whole(found[0]), found[1]) if found else None


def whole(made: pd.DataFrame) -> pd.DataFrame:
    """A table with all COLUMNS, and those it has beyond them. Columns that it did not have are empty."""
    return made.reindex(columns=[*COLUMNS, *(name for name in made if name not in COLUMNS)])


def timed(made: pd.DataFrame) -> pd.DataFrame:
    """The rows of a whole table with a ratio: both have a time."""
    return made[(made.status == "ok") & made.ratio.notna()]


def strongest(made: pd.DataFrame) -> pd.DataFrame:
    """Each kernel, with its constants, on each problem against its fastest accurate peer. Rows of an older table, which
    judged no peer, count as accurate."""
    rows = timed(made)
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
    """Whether each row is of the constants that its kernel is tuned to on its problem."""
    own = []
    for name, settings, problem in zip(made["name"], made.settings, made.problem):
        spec = catalog.KERNELS[name]
        tuned = spec.settings_for(spec.problem_type(**json.loads(problem)))
        own.append(settings == settings_text(tuned.items()))
    return pd.Series(own, made.index, dtype=bool)


@dataclass
class Side:
    """A kernel or a peer that was judged. status, reason: as the columns. error: of O. worst: of the output that uses
    most of its allowance. rms: the root mean square error of O. runs: functions that enqueue a run, empty without a
    time. times: state's prefix -> microseconds of its rounds. states: the same -> (clock, power) of its rounds."""

    status: str
    reason: str = ""
    error: OutputError | None = None
    worst: OutputError | None = None
    rms: float | None = None
    runs: Sequence[Callable[[], Any]] = ()

    def __post_init__(self) -> None:
        self.times: dict[str, np.ndarray] = {}
        self.states: dict[str, list] = {}


def meet(
    problem: SixteenBitProblem, kernels: Sequence[tuple[str, dict[str, int]]], others: Sequence[str] = (PEER,)
) -> list[dict[str, Any]]:
    """A row for each kernel, with its constants, against each of the peers on a problem. All take turns with each
    other. Runs in the GPU's worker."""
    with gpu.errors():
        _free()
        inputs = inputs_of(problem)
        ours = [_side(problem, name, partial(_kernel, problem, name, chosen, inputs)) for name, chosen in kernels]
        rivals = {name: _side(problem, name, partial(peers.peer, name, problem, inputs)) for name in others}
        running = [side for side in (*ours, *rivals.values()) if side.runs]
        for state in STATES if running else ():
            times, states = load.in_turns([side.runs for side in running], state.seconds, state.rounds, state.lead)
            for side, mine, meanwhile in zip(running, times, states):
                side.times[state.prefix], side.states[state.prefix] = mine, meanwhile
        return [
            _row(problem, name, chosen, side, other, rival)
            for (name, chosen), side in zip(kernels, ours)
            for other, rival in rivals.items()
        ]


def _free() -> None:
    import cupy

    cupy.get_default_memory_pool().free_all_blocks()


def _kernel(
    problem: SixteenBitProblem, name: str, settings: dict[str, int], inputs: dict[str, np.ndarray]
) -> protocol.Kernel:
    return protocol.Kernel(Request(catalog.KERNELS[name], problem, tuple(settings.items()), backend="gpu"), inputs)


def _side(problem: SixteenBitProblem, name: str, made: Callable[[], Any]) -> Side:
    """The Side of a kernel or a peer, which `made` prepares."""
    try:
        with gpu.errors():
            prepared = made()
            outputs = prepared.first_run()
    except (PeerUnavailable, OutOfMemory) as error:
        return Side("unavailable" if name in peers.NAMES else "skipped", str(error))
    except gpu.StickyError:
        raise
    except (ProblemError, WarpglassError) as error:
        return Side("skipped", str(error))
    errors = protocol.judged(problem, outputs)
    found = Side(*_verdict(name, worst(errors)), next(e for e in errors if e.output == "o"), worst(errors))
    found.rms = protocol.rms_error(problem, "o", outputs["o"])
    if found.status != "wrong":
        found.runs = prepared.copies(SETS)
    return found


def _verdict(name: str, error: OutputError) -> tuple[str, str]:
    """(status, reason) of the output that uses most of its allowance. Only a peer may miss by rounding and be timed."""
    if error.ok:
        return "ok", ""
    reason = protocol.missed(name, error)
    if name in peers.NAMES and error.share <= protocol.ROUNDING_TIMES:
        return "less accurate", reason
    return "wrong", f"A wrong kernel gets no time. {reason}"


def _row(
    problem: SixteenBitProblem, name: str, settings: dict[str, int], side: Side, peer: str, rival: Side
) -> dict[str, Any]:
    """The table's row of a kernel against a peer."""
    made: dict[str, Any] = dict.fromkeys(COLUMNS)
    made |= {"name": name, "peer": peer, "status": side.status, "peer_status": rival.status}
    made |= {"code_hash": catalog.KERNELS[name].code_hash, "problem": problem_text(problem)}
    made |= {key: value for key, value in asdict(problem).items() if key in COLUMNS}
    made |= {"num_kv_heads": problem.kv_heads, "settings": settings_text(settings.items()), "rounds": RESTED.rounds}
    made["reason"] = " ".join(filter(None, (side.reason, rival.reason))) or None
    if side.error and side.worst:
        made |= {"max_abs_error": side.error.largest, "allowed_error": side.error.allowed, "rms_error": side.rms}
        made |= {"output": side.worst.output, "output_error": side.worst.largest}
        made["output_allowed"] = side.worst.allowed
    if rival.error:
        made |= {"peer_max_abs_error": rival.error.largest, "peer_rms_error": rival.rms}
    for state in STATES:
        found = figures(problem.work.flops, side, rival, state.prefix)
        made |= {f"{state.prefix}{key}": value for key, value in found.items()}
    return made


def figures(flops: int, side: Side, rival: Side, state: str) -> dict[str, Any]:
    """The FIGURES, MEANWHILE and pairs of a state, as far as each side has a time."""
    made: dict[str, Any] = {}
    for who, mine in (("", side), ("peer_", rival)):
        if state not in mine.times:
            continue
        us = float(np.median(mine.times[state]))
        made |= {f"{who}us": round(us, 3), f"{who}tflops": round(flops / 1e6 / us, 1)}
        for what, values in zip(("clock", "power"), zip(*mine.states[state])):
            made[f"{who}{what}"] = _median(values)
    if state in side.times and state in rival.times:
        pairs = np.stack([side.times[state], rival.times[state]], 1)
        ratios = pairs[:, 1] / pairs[:, 0]
        made |= {"ratio": round(float(np.median(ratios)), 4)}
        made |= {"ratio_low": round(float(ratios.min()), 4), "ratio_high": round(float(ratios.max()), 4)}
        made["pairs"] = json.dumps(pairs.round(3).tolist())
    return made


def _median(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return round(float(np.median(known))) if known else None


def _torch_version() -> str:
    from importlib.metadata import version

    return version("torch")
