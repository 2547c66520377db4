"""Bank conflicts as Nsight Compute counts them, for one block and for many, beside the conflicts of the addresses."""

from collections.abc import Iterator
from dataclasses import replace

from kernels import catalog
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.measure import counters
from kernels.measure.bench_rows import problem_text, settings_text
from kernels.recordings.tables import Case, Cases, Kept, RecordedTable, Row, by
from kernels.run import execute
from kernels.run.backends import Device
from kernels.trace.kinds import KIND as KINDS
from kernels.trace.memory import traced

KIND = "conflicts"
COUNTED = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"
METRICS = {
    "counted": COUNTED,
    "wavefronts": KINDS["shared_load"].metric,
    "instructions": "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
}
TILES = {
    "03_flash": (16, {"PAD_K": 0}),
    "03_flash padded": (16, {"PAD_K": 4}),
    "02_tiled": (16, {"PAD_K": 4}),
    "04_warp_rows": (32, {}),
    "05_register_tiles": (64, {}),
    "06_mma": (64, {}),
    "07_swizzle": (64, {}),
    "08_pipeline": (64, {}),
}
"""A kernel -> the tokens of one tile, and constants. Each head of a problem is then one block."""
HEADS = ((1, 1), (8, 1), (33, 4), (64, 16))  # num_heads and batch: 1, 8, 132 and 1,024 blocks
COLUMNS = ("name", "code_hash", "launch", "settings", "problem", "blocks", "addresses", *METRICS)


def requests(tile: str) -> Iterator[Request]:
    """The requests of one of TILES, in the order of HEADS."""
    tokens, constants = TILES[tile]
    spec = catalog.find(tile.split()[0])
    settings = tuple(spec.settings(tuple(constants.items())).items())
    for heads, batch in HEADS:
        problem = spec.problem_type(seq_len=tokens, head_dim=64, num_heads=heads, batch=batch)
        yield Request(spec, problem, settings, backend="gpu")


def of_addresses(request: Request) -> list[int]:
    """The conflicts of the loads of each launch, from the trace of all blocks: wavefronts more than the fewest."""
    costs = traced.requests(execute.run(replace(request, scope=Scope.everything(request.plan))).trace).costs
    events = [kind.event for kind in KINDS.values() if kind.metric == METRICS["wavefronts"]]
    own = costs[(costs.space == "shared") & costs.kind.isin(events)]
    return [int(own[own.launch == at].conflicts.sum()) for at in range(len(request.plan.launches))]


def measure(tile: str) -> list[Row]:
    """A row for each launch of one of TILES. All its blocks have the accesses of one block at other addresses of global
    memory, so `addresses` is a multiple of the first request's. Needs a GPU and ncu. Raises as counters.profile does.
    """
    asked = list(requests(tile))
    one, counted = of_addresses(asked[0]), counters.profile(asked, METRICS)
    rows: list[Row] = []
    for row in counted.to_dict("records"):
        request, at = asked[row["request"]], row["launch"]
        blocks = request.plan.launches[at].blocks
        said = {"name": request.kernel.name, "code_hash": request.kernel.code_hash, "launch": row["entry"]}
        said |= {"settings": settings_text(request.settings), "problem": problem_text(request.problem)}
        said |= {"blocks": blocks, "addresses": one[at] * blocks // asked[0].plan.launches[at].blocks}
        rows.append({**said, **{name: int(row[name]) for name in METRICS}})
    return rows


def _cases(device: Device, _: Kept | None) -> Cases:
    keys = {tile: [(r.kernel.name, settings_text(r.settings), problem_text(r.problem)) for r in requests(tile)]
            for tile in TILES}  # fmt: skip
    cases = [Case(tile, keys[tile], lambda _, t=tile: measure(t)) for tile in TILES]
    return cases, {"profiler": "Nsight Compute", "metrics": METRICS, "multiprocessors": device.multiprocessors}


TABLE = RecordedTable(KIND, by("name", "settings", "problem"), _cases, COLUMNS, same=())
