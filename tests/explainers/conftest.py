"""What the explainers' tests share: a dense kernel that logs and writes more than any view knows; a table of times."""

import pytest

from explainers.stories.timing import sweeps as timed_sweeps
from kernels.catalog import KERNELS, current, load_kernel
from kernels.core.tolerance import OutputError
from kernels.measure import bench_rows, sweeps
from kernels.measure.peers import LIBRARIES, base
from kernels.measure.protocol import Timing, plan_bytes
from kernels.recordings import tables

ROOFS = {"copy_gb_per_s": 4231.7, "fp32_tflops": 61.83, "fp16_tflops": 747.2}
_MORE = (
    (
        "    PROBE_MARK(output, tile);\n",
        "    PROBE_MARK(odd_phase, tile);\n    const float entropy = l;\n"
        "    if (row_leader) PROBE_VALUE(entropy, row, tile, entropy);\n    PROBE_MARK(output, tile);\n",
    ),
    ("float* O_gmem, int seq_len", "float* O_gmem, half* lse_gmem, int seq_len"),
    ('args = ["q", "k", "v", "o", ', 'args = ["q", "k", "v", "o", "lse", '),
    (
        "[[launches]]",
        '[scratch.lse]\nshape = ["batch", "num_heads", "seq_len"]\naxes = ["batch", "head", "query"]\n'
        'dtype = "float16"\n\n[[launches]]',
    ),
    (
        "    stg<float>(&O_gmem[(head + row) * HEAD_DIM + dim], O_rmem[j] / l);\n  }\n",
        "    stg<float>(&O_gmem[(head + row) * HEAD_DIM + dim], O_rmem[j] / l);\n  }\n  if (row_leader) {\n    "
        "PROBE_STORE(lse_gmem, head + row, 2);\n"
        "    stg<half>(&lse_gmem[head + row], to_half(l));\n  }\n",
    ),
)


@pytest.fixture(scope="session")
def with_more(tmp_path_factory):
    """03_flash with one more mark, one more value (entropy, by row and tile) and one more tensor (lse, a half for each
    row)."""
    folder, spec = tmp_path_factory.mktemp("more"), KERNELS["03_flash"]
    source = spec.source
    for old, new in _MORE:
        assert old in source, old
        source = source.replace(old, new, 1)
    (folder / "03_flash_more.cu").write_text(source)
    return load_kernel(folder / "03_flash_more.cu")


# ---- a table of times ----

_SPEED = {"01_naive": 40, "02_tiled": 9, "03_flash": 6, "04_warp_rows": 3, "05_register_tiles": 2}
_SPEED |= {"08b_three_bfloat16": 1, "paged_v1": 4, "paged_v2": 2}
_SPEED |= {"sdpa_math": 12, "sdpa_efficient": 1.5, "sdpa_flash": 1.2, "sdpa_cudnn": 1.1}  # picoseconds for each FLOP
_DENSE = [
    ([("seq_len", [128, 256, 512, 1024, 2048, 4096, 8192, 16384])], {}),
    ([("seq_len", [256, 512, 1024, 2048, 4096])], {"causal": "true"}),
    ([("num_heads", [8, 12, 16, 32])], {}),
    ([("batch", [1, 4, 8, 16, 32])], {}),
]
_PAGED = [([("seq_len", [256, 512, 1024])], {"batch": 4}), ([("batch", [1, 4, 8, 16])], {})]


@pytest.fixture(scope="session")
def bench_table():
    """(table as timing.bench makes it, Provenance): every dense and paged kernel and the peers over sweeps, on a GPU
    that does not exist.

    The times are a formula: so many picoseconds for each FLOP, and 5 us. sdpa_flash has none in fp32.
    """
    kinds = (
        (list(current().of_problem(KERNELS["01_naive"].problem_type)), _DENSE),
        (list(current().of_problem(KERNELS["paged_v1"].problem_type)), _PAGED),
    )
    asked = [
        p
        for names, all_ in kinds
        for swept, held in all_
        for p in sweeps.points(names, swept, held.items(), with_peers=True)
        if base(p.name) not in LIBRARIES
    ]
    table = bench_rows.table(bench_rows.row(_timing(point), ROOFS) for point in dict.fromkeys(asked))
    where = tables.Provenance("A GPU of a formula", "580", "2026-11-22", "NVRTC 13.0", "2.11.0", roofs=ROOFS)
    return timed_sweeps.prepared(table, where, "recorded"), where


def _timing(point):
    columns = point.problem.bench_columns
    if point.name == "sdpa_flash" and columns["dtype"] == "float32":
        return Timing(point, "unavailable", "torch says of sdpa_flash: Expected query to have dtype Half or BFloat16.")
    median = 5 + point.problem.work.flops * _SPEED[point.name] / 1e6
    given = sum(t.nbytes for t in point.problem.tensors())
    moved = (
        given
        if point.is_peer
        else plan_bytes(point.kernel.plan(point.problem, point.settings), point.problem.work.touched)
    )
    tensors = [] if point.is_peer else point.kernel.plan(point.problem, point.settings).tensors
    peak = given if point.is_peer else sum(t.nbytes for t in tensors)
    return Timing(
        point,
        "ok",
        runs=100,
        median_us=median,
        p10_us=0.97 * median,
        p90_us=1.04 * median,
        peak_bytes=peak,
        moved_bytes=moved,
        error=OutputError("o", 1e-7, 2e-7, 5e-7),
        code_hash="" if point.is_peer else point.kernel.code_hash,
    )
