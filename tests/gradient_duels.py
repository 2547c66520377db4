"""Duels of the backward: our rungs and torch's backwards take turns, rested and sustained, each judged first.

    PYTHONPATH=. python tests/gradient_duels.py OUT.csv [--lengths 4096,16384] [--dims 128,64] [--dtypes bfloat16]
        [--masks full,causal] [--kernels backward_6_overlap,...] [--peers sdpa_cudnn,sdpa_flash] [--also CONSTANT,...]

A line for each entry against each peer. The CSV has every column of kernels/measure/meeting.py, with the raw pairs.
"""

import argparse
import math
import time
from itertools import product
from pathlib import Path

import pandas as pd

from kernels import catalog
from kernels.errors import WarpglassError
from kernels.families.backward.problem import MANY_TOKENS, WIDTH, SixteenBitGradientProblem
from kernels.measure.gradient_duels import entries
from kernels.measure.meeting import COLUMNS, meet


def asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    for name, default in (
        *(("lengths", "4096,8192,16384"), ("dims", "128,64"), ("dtypes", "bfloat16,float16"), ("masks", "full,causal")),
        *(("kernels", "backward_6_overlap"), ("peers", "sdpa_cudnn,sdpa_flash"), ("also", "")),
    ):
        parser.add_argument(f"--{name}", type=lambda text: text.split(","), default=default.split(","))
    return parser.parse_args()


def problems(args: argparse.Namespace) -> list[SixteenBitGradientProblem]:
    """MANY_TOKENS tokens in sequences of each length, WIDTH numbers in heads of each size."""
    return [
        SixteenBitGradientProblem(
            int(length), int(dim), MANY_TOKENS // int(length), WIDTH // int(dim), mask == "causal", dtype
        )
        for dtype, dim, mask, length in product(args.dtypes, args.dims, args.masks, args.lengths)
    ]


def all_entries(problem: SixteenBitGradientProblem, args: argparse.Namespace) -> list[tuple[str, dict[str, int]]]:
    """Those of the recorded duels, and each kernel as tuned with every other value of each constant of --also."""
    made = entries(problem, args.kernels)
    for spec in map(catalog.find, args.kernels):
        tuned = spec.settings_for(problem)
        tried = [(c.name, v) for c in spec.constants if c.name in args.also for v in c.values if v != tuned[c.name]]
        made += [
            (str(spec.path) if spec.name not in catalog.KERNELS else spec.name, tuned | dict([one])) for one in tried
        ]
    return made


def said(row: dict[str, object]) -> str:
    tried = [
        text for text in str(row["settings"]).split() if text.split("=")[0] in SixteenBitGradientProblem.duel_constants
    ]
    name = " ".join([Path(str(row["name"])).stem, *(f"{text[:3]}{text[-2:]}" for text in tried)])
    shape = f"{row['dtype']} D{row['head_dim']} {'causal' if row['causal'] else 'full'} S{row['seq_len']}"
    keys = ("ratio", "tflops", "peer_tflops", "ratio_low", "ratio_high", "clock", "power")
    rested, hot = ([row[f"{state}{key}"] for key in keys] for state in ("", "sustained_"))
    error = f"{row['output']} {float(str(row['output_error'])) / float(str(row['output_allowed'])):.2f}"
    return (
        f"{shape:28} {name:26} {row['peer']:11} sustained {hot[0]} ({hot[3]}..{hot[4]}) {hot[1]}/{hot[2]} TFLOP/s "
        f"{hot[5]} MHz {hot[6]} W | rested {rested[0]} {rested[1]}/{rested[2]} | error {error} of allowed "
        f"{row['status']} {row['peer_status']} {row['reason'] or ''}"
    )


def main() -> None:
    args, rows = asked(), list[dict[str, object]]()
    for problem in problems(args):
        started = time.perf_counter()
        try:
            made = meet(problem, all_entries(problem, args), args.peers)
        except WarpglassError as error:
            print(f"{problem.size}: {error}", flush=True)
            continue
        rows += made
        for row in made:
            row = {key: math.nan if value is None and "error" in key else value for key, value in row.items()}
            print(said(row), flush=True)
        print(f"  {time.perf_counter() - started:.0f} s", flush=True)
        pd.DataFrame(rows, columns=list(COLUMNS)).to_csv(args.out, index=False)


if __name__ == "__main__":
    main()
