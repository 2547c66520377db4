"""Two that take turns: a kernel and a peer, one after the other again and again in one process, recorded for each GPU
in kernels/recordings/duels/.

A chip that is limited by power is slower beside a fast neighbour: a table of single times flatters what stands beside a
slow one. So each ratio is of two that met in the same seconds. For ROUNDS rounds each in its turn is warmed up and then
run for SECONDS, over three sets of arrays; its time of the round is the mean of its runs. Errors are against float64.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kernels import catalog
from kernels.core import reference
from kernels.core.request import Request
from kernels.errors import ProblemError, WarpglassError
from kernels.families.tensor_cores.problem import SixteenBitProblem
from kernels.run.backends import gpu
from kernels.timing import clock, peers, protocol, tables
from kernels.timing.rows import SIZES, problem_text, settings_text

KIND = "duels"
PEER = "sdpa_cudnn"
FROM_RUNG = 11
PRICED = "THRESHOLD"  # a constant that trades accuracy for time, in the kernels that have it
TOKENS, WIDTH = 16384, 2048  # batch * seq_len and num_heads * head_dim of the square problems
ROUNDS, SECONDS, SETS = 5, 0.05, 3
TIME_LIMIT = 300.0  # seconds for one problem
COLUMNS = (
    *("name", "peer", "status", *SIZES, "scores", "score_scale", "settings", "rounds"),
    *("us", "peer_us", "tflops", "peer_tflops", "ratio", "ratio_low", "ratio_high"),
    *("max_abs_error", "peer_max_abs_error", "rms_error", "peer_rms_error"),
    *("clock_before", "clock_after", "power_before", "power_after", "code_hash", "problem", "reason"),
)
"""us: the median of the rounds; ratio: the peer's time over the kernel's, the median of the rounds' ratios, of which
ratio_low and ratio_high are the least and the largest."""


def problems() -> list[SixteenBitProblem]:
    """16,384 tokens in sequences of 512 to 16,384, both masks, heads of 128 and of 64, both types; Llama 3's 64 query
    and 8 KV heads; and scores of four more kinds at 4,096 tokens."""
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
    """Scores of five kinds at 4,096 tokens: random, rising along the keys, one token far above, of low rank, four times
    as large."""
    plain = SixteenBitProblem(4096, 128, 4, 16)
    kinds = [replace(plain, scores=scores) for scores in ("random", "rising", "sink", "low_rank")]
    return [*kinds, replace(plain, score_scale=4.0)]


def names() -> list[str]:
    """The kernels that meet the peer: the rungs that overlap products and softmax."""
    return [name for name, spec in catalog.of_problem(SixteenBitProblem).items() if spec.rung >= FROM_RUNG]


def entries(problem: SixteenBitProblem) -> list[tuple[str, dict[str, int]]]:
    """(kernel, its constants) of all that meet the peer on a problem: each kernel as it is tuned, and on each of the
    distributions with every other value of PRICED too."""
    made = []
    for name in names():
        spec = catalog.KERNELS[name]
        tuned = spec.settings_for(problem)
        made.append((name, tuned))
        values = next((c.values for c in spec.constants if c.name == PRICED), ())
        if problem in distributions():
            made += [(name, tuned | {PRICED: value}) for value in values if value != tuned[PRICED]]
    return made


def record(
    device: Any, progress: Callable[[int, int, str], None] = lambda done, of, what: None, anew: bool = False
) -> list[Path]:
    """Writes this GPU's table, after every problem; the path. Rows of the present code are kept unless `anew`."""
    from kernels.run import workers

    path, asked = tables.path_of(KIND, device.name), problems()
    codes = {name: catalog.KERNELS[name].code_hash for name in names()}
    kept = pd.DataFrame(columns=list(COLUMNS))
    if path.exists() and not anew:
        made, where = tables.load(path)
        kept = made[made.code_hash.isin(codes.values()) & (where.driver == device.driver)]
    rows = kept.to_dict("records")
    for number, problem in enumerate(asked):
        here = kept[kept.problem == problem_text(problem)]
        there = set(zip(here["name"], here.settings))
        wanted = [
            (name, chosen) for name, chosen in entries(problem) if (name, settings_text(chosen.items())) not in there
        ]
        progress(number, len(asked), problem.size)
        if not wanted:
            continue
        rows += workers.submit(meet, problem, wanted, backend="gpu", what="Duels", time_limit=TIME_LIMIT).result()
        where = tables.provenance(device, codes, torch=_torch_version())
        tables.save(pd.DataFrame(rows, columns=list(COLUMNS)), path, where)
    progress(len(asked), len(asked), "")
    return [path]


def recorded() -> tuple[pd.DataFrame, tables.Provenance] | None:
    """What is recorded of kernels' present code, as tables.of_present_code gives it."""
    return tables.of_present_code(KIND)


def as_tuned(made: pd.DataFrame) -> pd.Series:
    """Whether each row is of the constants that its kernel is tuned to on its problem."""
    own = []
    for name, settings, problem in zip(made["name"], made.settings, made.problem):
        spec = catalog.KERNELS[name]
        tuned = spec.settings_for(spec.problem_type(**json.loads(problem)))
        own.append(settings == settings_text(tuned.items()))
    return pd.Series(own, made.index, dtype=bool)


def meet(
    problem: SixteenBitProblem, kernels: Sequence[tuple[str, dict[str, int]]], peer: str = PEER
) -> list[dict[str, Any]]:
    """A row for each kernel, with its constants, against the peer on a problem. Runs in the GPU's worker."""
    with gpu.errors():
        inputs = problem.inputs()
        other = peers.Peer(peer, problem, inputs)
        q, k, v = inputs.values()
        true, _ = reference.grouped_tensors(q, k, v, problem.scale, problem.causal, "cuda")
        others = _errors(other.first_run()["o"], true)
        return [_row(problem, name, settings, peer, inputs, other, true, others) for name, settings in kernels]


def _row(
    problem: SixteenBitProblem,
    name: str,
    settings: dict[str, int],
    peer: str,
    inputs: dict[str, np.ndarray],
    other: peers.Peer,
    true: Any,
    others: tuple[float, float],
) -> dict[str, Any]:
    spec = catalog.KERNELS[name]
    made: dict[str, Any] = dict.fromkeys(COLUMNS)
    made |= {"name": name, "peer": peer, "code_hash": spec.code_hash, "problem": problem_text(problem)}
    made |= {key: value for key, value in asdict(problem).items() if key in COLUMNS}
    made |= {"num_kv_heads": problem.kv_heads}
    try:
        request = Request(spec, problem, tuple(settings.items()), backend="gpu")
        ours = protocol.Kernel(request, inputs)
        mine = _errors(ours.first_run()["o"], true)
    except (ProblemError, WarpglassError) as error:
        return made | {"status": "skipped", "reason": str(error)}
    before = clock.state()
    times = in_turns([ours.copies(SETS), other.copies(SETS)])
    after = clock.state()
    us, peer_us = np.median(times, axis=1)
    ratios = times[1] / times[0]
    rate = problem.work.flops / 1e6
    made |= {"status": "ok", "settings": settings_text(settings.items()), "rounds": ROUNDS}
    made |= {"us": round(us, 3), "peer_us": round(peer_us, 3)}
    made |= {"tflops": round(rate / us, 1), "peer_tflops": round(rate / peer_us, 1)}
    made |= {"ratio": round(float(np.median(ratios)), 4)}
    made |= {"ratio_low": round(float(ratios.min()), 4), "ratio_high": round(float(ratios.max()), 4)}
    made |= {"max_abs_error": mine[0], "rms_error": mine[1]}
    made |= {"peer_max_abs_error": others[0], "peer_rms_error": others[1]}
    made |= {"clock_before": before[0], "clock_after": after[0], "power_before": before[2], "power_after": after[2]}
    return made


def in_turns(both: Sequence[Sequence[Callable[[], Any]]]) -> np.ndarray:
    """Microseconds of device time of a run of each, [each, ROUNDS]; each is a list of functions that enqueue a run."""
    import cupy

    runs = []
    for functions in both:
        once = min(clock.time_runs(functions, 2))
        runs.append(max(3, round(1e6 * SECONDS / once)))
    times = np.zeros((len(both), ROUNDS))
    for turn in range(ROUNDS):
        for which, (functions, count) in enumerate(zip(both, runs)):
            for n in range(max(2, count // 4)):
                functions[n % len(functions)]()
            start, end = cupy.cuda.Event(), cupy.cuda.Event()
            start.record()
            for n in range(count):
                functions[n % len(functions)]()
            end.record()
            end.synchronize()
            times[which, turn] = 1000 * cupy.cuda.get_elapsed_time(start, end) / count
    return times


def _errors(found: np.ndarray, true: Any) -> tuple[float, float]:
    """The largest and the root mean square of |found - true|; true: a tensor on the GPU."""
    gap = reference.on_device(found, "cuda").double() - true
    return float(gap.abs().max()), float(gap.square().mean().sqrt())


def _torch_version() -> str:
    from importlib.metadata import version

    return version("torch")
