"""One duel: each kernel and each peer on a problem is judged. The ones with a time take turns (load.in_turns) in both
states. The result is rows of the recorded table.

A kernel outside the project's one rule (core/tolerance.py) gets no time. A peer outside it by rounding is timed as
"less accurate". A plainly wrong peer gets no time.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata

import numpy as np

from kernels import catalog
from kernels.core.problem import Problem, inputs_of
from kernels.core.request import Request
from kernels.core.tolerance import OutputError, worst
from kernels.errors import OutOfMemory, PeerUnavailable, ProblemError, WarpglassError
from kernels.measure import judging, load, peers, protocol
from kernels.measure.bench_rows import SIZES, problem_text, settings_text
from kernels.measure.in_worker import in_worker
from kernels.measure.peers import rival
from kernels.recordings.tables import Case, Cases, RecordedTable, by
from kernels.run.backends import Device, gpu

PEER = "sdpa_cudnn"
SETS = 3  # of arrays. The runs of a turn take them one after the other


@dataclass(frozen=True)
class State:
    """One of the two states of the chip.

    rounds: turns of each.
    seconds: of a turn.
    lead: seconds of load before the first round.
    prefix: of the state's columns."""

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
"""status, peer_status: ok, less accurate (a peer outside the rule by rounding), wrong, skipped or unavailable.
reason: for the kernel's or the peer's status, with figures.
us, peer_us: the median of the rounds. ratio: the peer's time over the kernel's, the median of the rounds' ratios.
ratio_low, ratio_high: the least and the largest of these ratios.
clock, power: MHz and W during the kernel's turns (the median of the rounds). peer_clock, peer_power: the peer's.
pairs: JSON, [kernel's us, peer's us] of each round. The columns with "sustained_" are for a chip at work.
max_abs_error, peer_max_abs_error, allowed_error: of the problem's first output, such as O.
output, output_error, output_allowed: of the kernel's output with the largest share of its allowance."""


@dataclass
class Side:
    """A kernel or a peer after its judgment.

    status, reason: as the columns.
    error: of the first output, such as O. rms: its root mean square error.
    worst: of the output with the largest share of its allowance.
    runs: functions that enqueue a run, empty without a time.
    times: state's prefix -> microseconds of its rounds. states: the same -> (clock, power) of its rounds."""

    status: str
    reason: str = ""
    error: OutputError | None = None
    worst: OutputError | None = None
    rms: float | None = None
    runs: Sequence[load.Enqueue] = ()

    def __post_init__(self) -> None:
        self.times: dict[str, np.ndarray] = {}
        self.states: dict[str, list] = {}


Entry = tuple[str, dict[str, int]]
"""A kernel, and its constants."""
TIME_LIMIT = 300.0  # seconds for one problem


def tried(name: str, problem: Problem, constants: Iterable[str]) -> list[Entry]:
    """The entries of a kernel: as tuned to the problem, and with every other value of each of these constants."""
    spec = catalog.find(name)
    tuned = spec.settings_for(problem)
    others = [c for c in spec.constants if c.name in constants]
    return [(name, tuned), *((name, tuned | {c.name: v}) for c in others for v in c.values if v != tuned[c.name])]


def duel_table(
    kind: str, duels: Callable[[], Iterable[tuple[Problem, Sequence[Entry], Sequence[str]]]]
) -> RecordedTable:
    """The recorded table of duels. duels: gives each problem with its entries and its rivals. A rival that is not
    installed has no row, and the provenance gives the reason."""

    def cases(device: Device, _: object) -> Cases:
        made, absent = [], dict[str, str]()
        for problem, entries, rivals in duels():
            absent |= {name: peers.not_installed(name) for name in rivals if not peers.installed(name)}
            here = [name for name in rivals if name not in absent]
            parts = ((name, settings_text(chosen.items()), rival) for name, chosen in entries for rival in here)
            keys = [(problem_text(problem), *part) for part in parts]
            duel = problem, entries, here
            made.append(Case(problem.size, keys, lambda _, d=duel: in_worker("Duels", meet, *d, limit=TIME_LIMIT)))
        states = (
            f"{name}: {state.rounds} rounds of {state.seconds:g} s after {state.lead:g} s of load"
            for name, state in (("rested", RESTED), ("sustained", SUSTAINED))
        )
        said = {"torch": metadata.version("torch"), "protocol": ". ".join(states)}
        return made, {**said, "absent": absent} if absent else said

    return RecordedTable(kind, by("problem", "name", "settings", "peer"), cases, COLUMNS)


def meet(
    problem: Problem, kernels: Sequence[tuple[str, dict[str, int]]], others: Sequence[str] = (PEER,)
) -> list[dict[str, object]]:
    """A row for each kernel, with its constants, against each of the peers on a problem. All take turns with each
    other. Runs in the GPU's worker."""
    with gpu.errors():
        _free()
        inputs = inputs_of(problem)
        ours = [_side(problem, name, partial(_kernel, problem, name, chosen, inputs)) for name, chosen in kernels]
        rivals = {name: _side(problem, name, partial(rival, name, problem, inputs)) for name in others}
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


def _kernel(problem: Problem, name: str, settings: dict[str, int], inputs: dict[str, np.ndarray]) -> protocol.Kernel:
    return protocol.Kernel(Request(catalog.find(name), problem, tuple(settings.items()), backend="gpu"), inputs)


def _side(problem: Problem, name: str, made: Callable[[], protocol.Kernel | peers.Peer]) -> Side:
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
    errors, first = judging.judged(problem, outputs), problem.outputs[0].name
    found = Side(*judging.verdict(name, worst(errors)), next(e for e in errors if e.output == first), worst(errors))
    found.rms = judging.rms_error(problem, first, outputs[first])
    if found.status != "wrong":
        found.runs = prepared.copies(SETS)
    return found


def _row(
    problem: Problem, name: str, settings: dict[str, int], side: Side, peer: str, rival: Side
) -> dict[str, object]:
    made: dict[str, object] = dict.fromkeys(COLUMNS)
    made |= {"name": name, "peer": peer, "status": side.status, "peer_status": rival.status}
    made |= {"code_hash": catalog.find(name).code_hash, "problem": problem_text(problem)}
    made |= {key: value for key, value in problem.values().items() if key in COLUMNS}
    made["num_kv_heads"] = made["num_kv_heads"] or made["num_heads"]
    made |= {"settings": settings_text(settings.items()), "rounds": RESTED.rounds}
    made["reason"] = " ".join(filter(None, (side.reason, rival.reason))) or None
    if side.error and side.worst:
        made |= {"max_abs_error": side.error.largest, "allowed_error": side.error.allowed, "rms_error": side.rms}
        made |= {"output": side.worst.output, "output_error": side.worst.largest}
        made["output_allowed"] = side.worst.allowed
    if rival.error:
        made |= {"peer_max_abs_error": rival.error.largest, "peer_rms_error": rival.rms}
    for state in STATES:
        found = figures(problem.work.flops if problem.work else 0, side, rival, state.prefix)
        made |= {f"{state.prefix}{key}": value for key, value in found.items()}
    return made


def figures(flops: int, side: Side, rival: Side, state: str) -> dict[str, object]:
    """The FIGURES, MEANWHILE and pairs of a state, as far as each side has a time."""
    made: dict[str, object] = {}
    for who, mine in (("", side), ("peer_", rival)):
        if state not in mine.times:
            continue
        us = float(np.median(mine.times[state]))
        made |= {f"{who}us": round(us, 3), f"{who}tflops": round(flops / 1e6 / us, 1)}
        for what, values in zip(("clock", "power"), zip(*mine.states[state])):
            known = [value for value in values if value is not None]
            made[f"{who}{what}"] = round(float(np.median(known))) if known else None
    if state in side.times and state in rival.times:
        pairs = np.stack([side.times[state], rival.times[state]], 1)
        ratios = pairs[:, 1] / pairs[:, 0]
        made |= {"ratio": round(float(np.median(ratios)), 4)}
        made |= {"ratio_low": round(float(ratios.min()), 4), "ratio_high": round(float(ratios.max()), 4)}
        made["pairs"] = json.dumps(pairs.round(3).tolist())
    return made
