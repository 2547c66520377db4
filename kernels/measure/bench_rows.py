"""The rows of a table of times: one kernel or peer on one problem, with the figures that follow from its time."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pandas as pd

from kernels import catalog
from kernels.core.dtypes import element_type
from kernels.core.fields import own_fields
from kernels.core.problem import Problem
from kernels.measure import peers
from kernels.measure.protocol import Point, Timing
from kernels.measure.sweeps import Skipped
from kernels.recordings.tables import Row

Cell = str | float | bool | None
SIZES = ("seq_len", "batch", "num_heads", "num_kv_heads", "head_dim", "causal", "dtype")  # of Problem.bench_columns
SUSTAINED = ("sustained_us", "sustained_p10_us", "sustained_p90_us", "sustained_clock", "sustained_power")
STATES = tuple(f"{what}_{when}" for what in ("clock", "temperature", "power") for when in ("before", "after"))
COLUMNS = (
    *("name", "kind", "title", "status", *SIZES, "settings", "own_settings", "l2"),
    *("runs", "median_us", "p10_us", "p90_us", "tflops", "tokens_per_s", "bytes", "gb_per_s"),
    *("intensity", "roof", "roof_percent", "peak_bytes"),
    *("output", "max_abs_error", "yardstick_error", "allowed_error"),
    *(*STATES, "code_hash", "problem", "reason"),
    *SUSTAINED,
)
"""The columns of a table of times.

name: the kernel's name, or the requested path. kind: kernel or peer. title: the kind of problem, in words.
settings: constants as NAME=VALUE. own_settings: whether the kernel itself chooses these.
output: the one with the largest share of its allowance.
max_abs_error, yardstick_error, allowed_error: its error, torch's error and its allowance, against float64.
problem: its fields as JSON.
SUSTAINED: the times of a chip at work, with clock and power.

Times are in microseconds, clocks in MHz, temperatures in degrees Celsius, power in watts.
"""


def settings_text(settings: Iterable[tuple[str, int]]) -> str:
    """Pairs of constants as the column `settings` holds them."""
    return " ".join(f"{name}={value}" for name, value in settings)


def pairs_of(text: object) -> tuple[tuple[str, int], ...]:
    """The reverse of settings_text. An empty cell (NaN) has no pairs."""
    pairs = (pair.split("=") for pair in (text if isinstance(text, str) else "").split())
    return tuple((name, int(value)) for name, value in pairs)


def problem_text(problem: Problem) -> str:
    """A problem's fields as the column `problem` holds them. Derived fields (its `follows`) are left out, such as the
    block tables of tens of thousands of pages."""
    return json.dumps(own_fields(problem))


def problem_type_of(title: str) -> type[Problem] | None:
    """The class of the problems with this title. None if no kernel of the catalogue solves them."""
    kinds = (spec.problem_type for spec in catalog.current().kernels.values())
    return next((kind for kind in kinds if kind.title == title), None)


def row(timing: Timing, roofs: Mapping[str, float]) -> dict[str, Cell]:
    """The table's row of a Timing. roofs: as from protocol.roofs."""
    point, error = timing.point, timing.error
    made: dict[str, Cell] = dict(point.problem.bench_columns)
    made |= {"name": point.name, "kind": "peer" if point.is_peer else "kernel", "title": point.problem.title}
    made |= {name: getattr(timing, name) for name in ("status", "reason", "code_hash")}
    own = point.is_peer or dict(point.settings) == point.kernel.settings_for(point.problem)
    made |= {"settings": settings_text(point.settings), "own_settings": own}
    made |= {"l2": "cold" if point.cold else "warm", "problem": problem_text(point.problem)}
    made |= {name: getattr(timing, name) for name in ("runs", "median_us", "p10_us", "p90_us", "peak_bytes")}
    if error:
        made |= {"output": error.output, "max_abs_error": error.largest}
        made |= {"yardstick_error": error.yardstick, "allowed_error": error.allowed}
    for name in ("clock", "temperature", "power"):
        made[f"{name}_before"], made[f"{name}_after"] = getattr(timing, name)
    made |= sustained_figures(timing)
    if timing.status == "less accurate" and timing.median_us:
        made["reason"] = f"{timing.reason} It takes {timing.median_us:,.4g} us."
    if timing.median_us and point.problem.work:
        made |= figures(point, timing.median_us or 0.0, timing.moved_bytes or 0, roofs)
    return {name: made.get(name) for name in COLUMNS}


def sustained_figures(timing: Timing) -> dict[str, float | None]:
    """The columns SUSTAINED of a Timing. Empty without sustained times."""
    hot = timing.sustained
    return dict(zip(SUSTAINED, (hot.median_us, hot.p10_us, hot.p90_us, hot.clock, hot.power))) if hot else {}


def skipped_row(skipped: Skipped) -> dict[str, Cell]:
    made: dict[str, Cell] = {field: value for field, value in skipped.at.items() if field in SIZES}
    made |= {name: getattr(skipped, name) for name in ("name", "title", "reason")}
    made |= {"kind": "kernel", "status": "skipped", "own_settings": True}
    return {name: made.get(name) for name in COLUMNS}


def figures(point: Point, median_us: float, moved: int, roofs: Mapping[str, float]) -> dict[str, Cell]:
    """The figures of a time: TFLOP/s, tokens/s, bytes moved, GB/s, FLOP per byte, and per cent of the lower roof. The
    roofs are arithmetic, and copy bandwidth x intensity."""
    work = point.problem.work
    if work is None:
        return {}
    tflops, gb_per_s = work.flops / median_us / 1e6, moved / median_us / 1e3
    products = tensor_products(point.name, point.is_peer, point.problem.dtype)
    shares = {arithmetic_title(products): tflops / _roof(products, roofs), "copy": gb_per_s / roofs["copy_gb_per_s"]}
    roof = max(shares, key=lambda name: shares[name])
    return {
        "tflops": round(tflops, 4) if work.flops else None,
        "tokens_per_s": round(1e6 * work.tokens / median_us, 1),
        "bytes": int(moved),
        "gb_per_s": round(gb_per_s, 2),
        "intensity": round(work.flops / moved, 4),
        "roof": roof,
        "roof_percent": round(100 * shares[roof], 2),
    }


def arithmetic_roofs(roofs: Mapping[str, float], more: Iterable[int] = ()) -> dict[str, float]:
    """title -> TFLOP/s, for each arithmetic of a kernel of the catalogue or a peer, and for `more` tensor_products."""
    of_kernels = (spec.tensor_products for spec in catalog.current().kernels.values())
    used = {0, 1, *of_kernels, *peers.TENSOR_PRODUCTS.values(), *more}
    return {arithmetic_title(n): _roof(n, roofs) for n in sorted(used)}


def arithmetic_title(products: int) -> str:
    """The arithmetic of a multiply-add from this number of 16-bit products on tensor cores, in words."""
    return "fp32 FMA" if not products else "fp16 tensor cores" if products == 1 else f"fp16 tensor cores / {products}"


def _roof(products: int, roofs: Mapping[str, float]) -> float:
    """TFLOP/s. Derived: a product from n 16-bit ones has at most 1 / n of the fp16 rate."""
    return roofs["fp16_tflops"] / products if products else roofs["fp32_tflops"]


def tensor_products(name: str, is_peer: bool, dtype: str) -> int:
    """The same as KernelSpec.tensor_products, for a kernel or a peer on a problem of that type."""
    if not is_peer:
        return catalog.find(name).tensor_products
    return 1 if element_type(dtype).bytes == 2 else peers.TENSOR_PRODUCTS.get(name, 0)


@dataclass(frozen=True)
class Now:
    """The results of a measurement that goes on.

    rows: the values of `columns`.
    date: ISO.
    roofs: pairs, as in protocol.roofs.
    gpu: its id, if known.
    """

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[object, ...], ...] = ()
    device: str = ""
    driver: str = ""
    date: str = ""
    roofs: tuple[tuple[str, float], ...] = ()
    gpu: str = ""

    def records(self) -> list[dict[str, object]]:
        return [dict(zip(self.columns, values)) for values in self.rows]


def table(rows: Iterable[Row]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=list(COLUMNS))
