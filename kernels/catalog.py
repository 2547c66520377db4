"""The only list of kernels. Menus, tests, the README's table and the command line are derived from it.

A new kernel is one `.cu` in kernels/cuda/ and one KernelSpec in KERNELS.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from kernels import hierarchy, lab, probes
from kernels.errors import ProblemError
from kernels.paged import CacheCopyProblem, CacheWriteProblem, PagedProblem
from kernels.plan import Constant, Launch, Plan, ceil_div
from kernels.problem import AttentionProblem, check_value

CUDA = Path(__file__).parent / "cuda"


def _untuned(problem):
    return {}


@dataclass(frozen=True)
class KernelSpec:
    name: str
    title: str
    family: str
    rung: int
    constants: tuple[Constant, ...]
    make_plan: Callable[[object, dict], Plan]
    problem_type: type = AttentionProblem
    folder: Path = CUDA
    tensor_products: int = 0  # products of 16-bit numbers, on tensor cores, that make up one fp32 multiply-add; 0: it is one FMA
    tuned: Callable[[object], dict] = _untuned  # problem -> constants that are faster on it than the defaults, as the bench found on an H200

    @property
    def path(self):
        return self.folder / f"{self.name}.cu"

    @cached_property
    def source(self):
        return self.path.read_text()

    @property
    def source_hash(self):
        """Sixteen hex digits that change with the .cu: recordings of another source are not shown."""
        return hashlib.sha256(self.source.encode()).hexdigest()[:16]

    @cached_property
    def header(self):
        """The five opening lines of the .cu as {'Idea': ..., 'Changed from ...': ..., 'Costs': ..., 'Limits': ..., 'Source': ...}."""
        lines = [line.lstrip("/ ") for line in self.source.splitlines()[:5]]
        lines[0] = lines[0].removeprefix(f"{self.name}. ")
        return {key: text.strip() for key, _, text in (line.partition(":") for line in lines)}

    @property
    def idea(self):
        return self.header["Idea"]

    @property
    def sites(self):
        """Line number -> probes.Site, of a build for the default problem."""
        return self.sites_of(self.problem_type(), self.settings())

    def sites_of(self, problem, settings):
        """Line number -> probes.Site, of a build for that problem; only widths depend on it."""
        return probes.sites(self.path, tuple(defines(problem, settings).items()))

    def settings(self, chosen=()):
        """Every constant's value: the default, or what `chosen` (a mapping or pairs) says. Raises ProblemError."""
        chosen = dict(chosen)
        values = {c.name: check_value(c.name, chosen.pop(c.name, c.default), c.default, {"allowed": c.values}) for c in self.constants}
        if chosen:
            raise ProblemError(f"{self.name} has no {', '.join(chosen)}; it has {', '.join(values)}.")
        return values

    def settings_for(self, problem, chosen=()):
        """`settings`, where what is not chosen is what `tuned` says, before the default."""
        return self.settings({**self.tuned(problem), **dict(chosen)})

    def plan(self, problem, settings):
        return self.make_plan(problem, settings)

    def limits(self, problem, settings, device):
        """Why this cannot run on the device (a sentence), or None. `device` is a kernels.backends.Device."""
        plan = self.plan(problem, settings)
        for launch in plan.launches:
            if launch.threads > 1024:
                chosen = ", ".join(f"{name} {value}" for name, value in settings.items())
                return f"{self.name} would need {launch.threads:,} threads per block ({chosen}); the limit is 1,024. Choose smaller ones."
            if launch.shared_bytes > device.shared_bytes_per_block:
                return (f"{self.name} needs {launch.shared_bytes:,} bytes of shared memory per block; {device.name} allows "
                        f"{device.shared_bytes_per_block:,}. {problem.shared_remedy}")
            if launch.grid[2] > 65535 or launch.grid[1] > 65535:
                return f"{self.name} would need a grid of {launch.grid}; CUDA allows 65,535 in y and z. {problem.remedy}"
        return None


def defines(problem, settings):
    """The compile-time constants of a build, name -> value."""
    return {**problem.defines, **settings}


def find(name):
    """The KernelSpec of that name; ProblemError with the names there are."""
    if name not in KERNELS:
        raise ProblemError(f"There is no kernel {name!r}; there are {', '.join(KERNELS)}.")
    return KERNELS[name]


def _naive_plan(problem, c):
    return _three_pass_plan(problem, c, scores_smem=0, output_smem=0, dim_tiles=problem.head_dim // c["BLOCK_KV"])


def _tiled_plan(problem, c):
    return _three_pass_plan(problem, c, scores_smem=c["BLOCK_Q"] * problem.head_dim + c["BLOCK_KV"] * (problem.head_dim + c["PAD_K"]),
                            output_smem=c["BLOCK_KV"] * (problem.head_dim + c["BLOCK_Q"]), dim_tiles=1)


def _three_pass_plan(problem, c, scores_smem, output_smem, dim_tiles):
    """Scores, softmax and output as launches of their own, the shared memory of the first and last given in floats."""
    n, heads = problem.seq_len, problem.batch * problem.heads
    rows, key_tiles, tile = ceil_div(n, c["BLOCK_Q"]), ceil_div(n, c["BLOCK_KV"]), (c["BLOCK_KV"], c["BLOCK_Q"], 1)
    length, causal, matrix = np.int32(n), np.int32(problem.causal), (problem.batch, problem.heads, n, n)
    return Plan((
        Launch("scores", (key_tiles, rows, heads), tile, 4 * scores_smem, ("q", "k", "s", length, causal, np.float32(problem.scale)), key_tiles),
        Launch("softmax", (1, rows, heads), (32, c["BLOCK_Q"], 1), 0, ("s", "p", length, causal), 1),
        Launch("output", (dim_tiles, rows, heads), tile, 4 * output_smem, ("p", "v", "o", length, causal), dim_tiles),
    ), {"s": matrix, "p": matrix, "o": problem.shape}, rows * heads)


def _flash_plan(problem, c):
    heads, rows = problem.batch * problem.heads, ceil_div(problem.seq_len, c["BLOCK_Q"])
    shared = (c["BLOCK_Q"] + 2 * c["BLOCK_KV"]) * problem.head_dim + c["BLOCK_KV"] * (c["BLOCK_Q"] + c["PAD_K"])
    launch = Launch("flash", (rows, heads, 1), (c["BLOCK_KV"], c["BLOCK_Q"], 1), 4 * shared,
                    ("q", "k", "v", "o", np.int32(problem.seq_len), np.int32(problem.causal), np.float32(problem.scale)), 1)
    return Plan((launch,), {"o": problem.shape}, rows * heads)


def _flash_registers_plan(problem, c):
    heads, rows = problem.batch * problem.heads, ceil_div(problem.seq_len, c["BLOCK_Q"])
    shared = 6 * (c["BLOCK_Q"] + 2 * c["BLOCK_KV"]) * (problem.head_dim + c["PAD"])  # a float is three bfloat16
    launch = Launch("flash", (rows, heads, 1), (2 * c["BLOCK_Q"], 1, 1), shared,
                    ("q", "k", "v", "o", np.int32(problem.seq_len), np.int32(problem.causal), np.float32(problem.scale)), 1)
    return Plan((launch,), {"o": problem.shape}, rows * heads)


def _flash_registers_tuned(problem):
    """Larger blocks split K and V less often, where enough of them are left for 132 multiprocessors; smaller tiles leave registers to wide heads."""
    blocks = ceil_div(problem.seq_len, 128) * problem.batch * problem.heads
    return ({"BLOCK_Q": 128} if blocks >= 256 else {}) | ({"BLOCK_KV": 32} if problem.head_dim == 128 else {})


def _paged_v1_plan(problem, c):
    grid = (problem.num_heads, problem.num_seqs, 1)
    shared = 4 * ((1 + c["WARPS"]) * problem.head_size + 2 * c["WARPS"] + max(problem.context_lens))
    return Plan((Launch("paged_v1", grid, (32 * c["WARPS"], 1, 1), shared, (
        "q", "k_cache", "v_cache", "block_tables", "context_lens", "alibi_slopes", "o", np.int32(problem.num_kv_heads),
        np.int32(problem.max_blocks_per_seq), np.float32(problem.scale)), 1),), {"o": problem.shape}, grid[0] * grid[1])


def _paged_v2_plan(problem, c):
    partitions, heads, seqs = ceil_div(max(problem.context_lens), c["PARTITION"]), problem.num_heads, problem.num_seqs
    shared = 4 * ((1 + c["WARPS"]) * problem.head_size + 2 * c["WARPS"] + c["PARTITION"])
    block = (32 * c["WARPS"], 1, 1)
    return Plan((
        Launch("paged_v2", (partitions, heads, seqs), block, shared, (
            "q", "k_cache", "v_cache", "block_tables", "context_lens", "alibi_slopes", "m_part", "l_part", "o_part", np.int32(problem.num_kv_heads),
            np.int32(problem.max_blocks_per_seq), np.float32(problem.scale)), partitions),
        Launch("paged_v2_reduce", (heads, seqs, 1), block, 4 * partitions, ("m_part", "l_part", "o_part", "context_lens", "o", np.int32(partitions)), 1),
    ), {"m_part": (seqs, heads, partitions), "l_part": (seqs, heads, partitions), "o_part": (seqs, heads, partitions, problem.head_size),
        "o": problem.shape}, heads * seqs)


def _cache_write_plan(problem, c):
    launch = Launch("reshape_and_cache", (len(problem.slots), 1, 1), (128, 1, 1), 0,
                    ("key", "value", "slots", "k_cache", "v_cache", np.int32(problem.num_kv_heads)), 1)
    return Plan((launch,), _caches(problem), len(problem.slots))


def _cache_copy_plan(problem, c):
    launch = Launch("copy_blocks", (len(problem.copies), 1, 1), (128, 1, 1), 0, ("k_cache", "v_cache", "copies", np.int32(problem.num_kv_heads)), 1)
    return Plan((launch,), _caches(problem), len(problem.copies))


def _caches(problem):
    return {"k_cache": problem.layout.k_shape, "v_cache": problem.layout.v_shape}


_TILES = (
    Constant("BLOCK_Q", (8, 16, 32), 16, "query rows per tile"),
    Constant("BLOCK_KV", (8, 16, 32), 16, "keys per tile"),
)
_LARGE_TILES = (
    Constant("BLOCK_Q", (16, 32, 64, 128), 64, "query rows per tile"),
    Constant("BLOCK_KV", (16, 32, 64), 64, "keys per tile"),
)
_PAD = Constant("PAD", (0, 8), 8, "bfloat16s left free after each row of Q_smem, K_smem and V_smem, against bank conflicts")
_PAD_K = Constant("PAD_K", (0, 4), 0, "floats left free after each row of K_smem, against bank conflicts")
_SUBTRACT_MAX = Constant(
    "SUBTRACT_MAX", (1, 0), 1, "subtract the row's max before the exponential", "No max subtraction",
    "e^score overflows fp32 once a score passes 88.7, and the row becomes NaN.", shows_at=30.0)
_RESCALE = Constant(
    "RESCALE", (1, 0), 1, "rescale l and O when the max moves", "No rescaling",
    "after the max rises, what l and O held before still counts against the old max, so they come out too large.")
_WARPS = Constant("WARPS", (1, 2, 4, 8), 4, "warps per block; each takes every WARPS-th page")
_PARTITION = Constant("PARTITION", (32, 64, 128, 256, 512, 1024), 512, "tokens per partition, each walked by a block of its own")

KERNELS = {spec.name: spec for spec in (
    KernelSpec("01_naive", "Naive", "attention", 1, (*_TILES, _SUBTRACT_MAX), _naive_plan),
    KernelSpec("02_tiled", "Tiled", "attention", 2, (*_TILES, _PAD_K, _SUBTRACT_MAX), _tiled_plan),
    KernelSpec("03_flash", "FlashAttention", "attention", 3, (*_TILES, _PAD_K, _SUBTRACT_MAX, _RESCALE), _flash_plan),
    KernelSpec("04_flash_registers", "FlashAttention in registers", "attention", 4,
               (*_LARGE_TILES, _PAD, _SUBTRACT_MAX, _RESCALE), _flash_registers_plan,
               tensor_products=6, tuned=_flash_registers_tuned),
    KernelSpec("paged_v1", "PagedAttention V1", "paged", 1, (_WARPS,), _paged_v1_plan, PagedProblem),
    KernelSpec("paged_v2", "PagedAttention V2", "paged", 2, (_WARPS, _PARTITION), _paged_v2_plan, PagedProblem),
    KernelSpec("reshape_and_cache", "Write new tokens", "cache", 1, (), _cache_write_plan, CacheWriteProblem),
    KernelSpec("copy_blocks", "Copy on write", "cache", 2, (), _cache_copy_plan, CacheCopyProblem),
    KernelSpec("lab_columns", "Column walk", "banks", 1, lab.TILE_CONSTANTS, lab.columns_plan, lab.ColumnsProblem),
    KernelSpec("lab_transpose", "Transpose", "banks", 2, lab.TILE_CONSTANTS, lab.transpose_plan, lab.TransposeProblem),
    KernelSpec("lab_global", "Global layouts", "sectors", 1, (), lab.global_plan, lab.GlobalProblem),
    KernelSpec("lab_access", "One access", "calibration", 1, (), lab.access_plan, lab.AccessProblem),
    KernelSpec("lab_chase", "Pointer chase", "hierarchy", 1, (), hierarchy.chase_plan, hierarchy.ChaseProblem),
    KernelSpec("lab_stream", "Stream", "hierarchy", 2, (), hierarchy.stream_plan, hierarchy.StreamProblem),
    KernelSpec("lab_fma", "Multiply-adds", "roofs", 1, (), hierarchy.fma_plan, hierarchy.FmaProblem),
)}


def family(*names):
    """name -> KernelSpec of the kernels of these families, in the catalogue's order."""
    return {spec.name: spec for spec in KERNELS.values() if spec.family in names}


ATTENTION, PAGED, CACHE, BANKS = family("attention"), family("paged"), family("cache"), family("banks")
