"""The problems on which every kernel, in both builds, is compared with float64; and those that are recorded on a GPU."""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from kernels import execute, scenarios
from kernels.execute import Request, Scope
from kernels.hierarchy import CHASE_SPACES, STREAM_SPACES, ChaseProblem, FmaProblem, StreamProblem
from kernels.lab import ACCESS_OPS, LAYOUTS, AccessProblem, ColumnsProblem, GlobalProblem, TransposeProblem
from kernels.paged import BLOCK_SIZES, DTYPES, HEAD_SIZES, CacheCopyProblem, CacheWriteProblem, PagedProblem
from kernels.problem import AttentionProblem

LENGTHS = (1, 2, 17, 31, 33, 63, 65, 100, 129, 257)
SCALES = (1.0, 0.1, 5.0, 30.0)
HEADS = ((4, 4), (8, 2), (4, 1), (32, 8), (6, 3), (8, 1), (1, 1))  # query heads, KV heads


@dataclass(frozen=True)
class Verdict:
    """One build on one problem. ok: max_abs_error <= 2 x baseline_max_abs_error; message: why a run failed, if it did."""

    kernel: str
    build: str
    problem: object
    settings: tuple[tuple[str, int], ...]
    max_abs_error: float
    baseline_max_abs_error: float
    ok: bool
    message: str = ""


def grid(kernel):
    """(problem, settings) pairs for a kernel, by its problem's type."""
    return {AttentionProblem: _attention_grid, PagedProblem: _paged_grid, CacheWriteProblem: _write_grid, CacheCopyProblem: _copy_grid,
            ColumnsProblem: _columns_grid, TransposeProblem: _transpose_grid, GlobalProblem: _global_grid, AccessProblem: _access_grid,
            ChaseProblem: _chase_grid, StreamProblem: _stream_grid, FmaProblem: _fma_grid}[kernel.problem_type](kernel)


def _attention_grid(kernel):
    """Every length, head_dim and mask, batch 1-3, heads 1-4, scores up to 30; then every tile size."""
    pairs = []
    for number, (n, d, causal) in enumerate(product(LENGTHS, (32, 64, 128), (False, True))):
        small = n <= 100
        pairs.append((AttentionProblem(seq_len=n, head_dim=d, causal=causal, batch=number % 3 + 1 if small else 1,
                                       heads=number % 4 + 1 if small else number % 2 + 1, score_scale=SCALES[number % 4], seed=number), ()))
    tiles = [(c.name, v) for c in kernel.constants if c.name in ("BLOCK_Q", "BLOCK_KV", "PAD_K", "PAD") for v in c.values if v != c.default]
    for number, (constant, value) in enumerate(tiles):
        for n, causal in ((65, False), (100, True)):
            pairs.append((AttentionProblem(seq_len=n, head_dim=(32, 64, 128)[number % 3], heads=2, causal=causal, seed=number), ((constant, value),)))
    return pairs


def _paged_grid(kernel):
    """Every context length about a page's and a partition's end; every head_size, block_size, type, with and without ALiBi; ragged
    batches; every ratio of heads; then every constant."""
    pairs, number = [], 0
    for head_size, block_size, dtype in product(HEAD_SIZES, BLOCK_SIZES, DTYPES):
        for lens in ((1, block_size - 1, block_size, block_size + 1), (100, 1, 33, 257, 64)):
            heads, kv_heads = HEADS[number % len(HEADS)]
            pairs.append((PagedProblem(lens, heads, kv_heads, head_size, block_size, dtype, alibi=number % 3 == 0,
                                       score_scale=SCALES[number % 4], seed=number), ()))
            number += 1
    for lens in ((511,), (512,), (513,), (2049,), (2049, 1, 512)):
        for (heads, kv_heads), dtype in zip(((8, 2), (4, 1), (32, 8)), ("float32", "float16", "float16")):
            pairs.append((PagedProblem(lens, heads, kv_heads, HEAD_SIZES[number % 5], BLOCK_SIZES[number % 3], dtype, alibi=number % 2 == 0, seed=number), ()))
            number += 1
    for constant in kernel.constants:
        for value in constant.values:
            pairs.append((PagedProblem((70, 1, 600, 33), 8, 2, HEAD_SIZES[number % 5], BLOCK_SIZES[number % 3], DTYPES[number % 2], seed=number),
                          ((constant.name, value),)))
            number += 1
    forked = scenarios.PRESETS["shared_prompt"].states(16)[-1][0]
    return [*pairs, (scenarios.problem_at(forked), ()), (scenarios.problem_at(forked.shuffled(3), num_kv_heads=4, dtype="float16"), ())]


def _write_grid(kernel):
    """Every head_size, block_size and type; slots at random, some of them padding."""
    pairs = []
    for number, (head_size, block_size, dtype) in enumerate(product(HEAD_SIZES, BLOCK_SIZES, DTYPES)):
        slots = np.random.default_rng(number).permutation(7 * block_size)[:1 + number % 40]
        slots[::5][1:] = -1
        pairs.append((CacheWriteProblem(HEADS[number % len(HEADS)][1], head_size, block_size, dtype, 7, number, tuple(slots.tolist())), ()))
    return pairs


def _copy_grid(kernel):
    """Every head_size, block_size and type; one to four pages, one of them copied twice."""
    pairs = []
    for number, (head_size, block_size, dtype) in enumerate(product(HEAD_SIZES, BLOCK_SIZES, DTYPES)):
        pages = np.random.default_rng(number).permutation(9).tolist()
        copies = (*zip(pages[:1 + number % 3], pages[4:]), (pages[0], pages[8]))
        pairs.append((CacheCopyProblem(HEADS[number % len(HEADS)][1], head_size, block_size, dtype, 9, number, copies), ()))
    return pairs


TILES = tuple({"WIDTH": width, "PAD": pad, "SWIZZLE": swizzle, "MATRICES": matrices} for width, pad, swizzle, matrices in (
    (4, 0, 0, 0), (4, 1, 0, 0), (4, 2, 0, 0), (4, 0, 1, 0), (8, 0, 0, 0), (8, 2, 0, 0), (8, 0, 1, 0), (16, 0, 0, 0), (16, 4, 0, 0), (16, 0, 1, 0),
    (16, 0, 0, 1), (16, 4, 0, 1), (16, 0, 0, 2), (16, 4, 0, 2), (16, 0, 0, 4), (16, 4, 0, 4), (16, 0, 1, 4)))  # the lab's settings


def _columns_grid(kernel):
    """Every setting of the lab; strides from one access wide to more than a warp, several warps and repeats."""
    strides = (32, 4, 64, 16, 128)
    return [(ColumnsProblem(strides[n % 5], 1 + n % 3, 1 + n % 4, n), tuple(tile.items())) for n, tile in enumerate(TILES)] + [
        (ColumnsProblem(1), ()), (ColumnsProblem(33), ()), (ColumnsProblem(36), (("WIDTH", 16),)), (ColumnsProblem(30, seed=1), (("WIDTH", 8), ("PAD", 4)))]


def _transpose_grid(kernel):
    """Every setting of the lab; one tile, several, and sizes that no tile divides."""
    sizes = ((32, 32), (64, 96), (1, 4), (33, 36), (40, 28))
    return [(TransposeProblem(*sizes[n % 5], n), tuple(tile.items())) for n, tile in enumerate(TILES)] + [
        (TransposeProblem(1, 1), ()), (TransposeProblem(31, 65), ()), (TransposeProblem(100, 3), (("PAD", 1),))]


def _global_grid(kernel):
    """Every layout, width, stride and page size."""
    pairs = [GlobalProblem(layout, width, 1 + n % 8, stride, shift, seed=n) for n, (layout, width, (stride, shift)) in enumerate(product(
        LAYOUTS[:3], (4, 8, 16), ((1, 0), (2, 1), (8, 7), (33, 31))))]
    return [(problem, ()) for problem in pairs + [GlobalProblem(layout, 16, 4, block_size=size) for layout in LAYOUTS[3:] for size in (8, 16, 32)]]


def _access_grid(kernel):
    """Every kind of access, width and number of matrices; side by side, one column, the same word, some lanes inactive."""
    pairs, lanes = [], np.arange(32)
    for op, width, matrices in [(op, width, 4) for op in ACCESS_OPS if not op.startswith(("ldmatrix", "cp_async")) for width in (1, 2, 4, 8, 16)] + [
            ("ldmatrix", 16, 1), ("ldmatrix", 16, 2), ("ldmatrix", 16, 4), ("cp_async", 4, 4), ("cp_async", 8, 4), ("cp_async", 16, 4), ("cp_async_l2", 16, 4)]:
        for offsets in (lanes * width, lanes * 128, lanes * 0 + 64, np.where(lanes % 3, lanes * 48, -1)):
            if op != "ldmatrix" or offsets.min() >= 0:
                pairs.append((AccessProblem(op, width, matrices, tuple((offsets).tolist())), ()))
    return pairs


def _chase_grid(kernel):
    """Every space; a ring of one node, walked once and more than once round."""
    return [(ChaseProblem(space, size, warm_up, steps, n), ()) for n, (space, (size, warm_up, steps)) in enumerate(product(
        CHASE_SPACES, ((128, 0, 1), (4096, 0, 31), (4096, 32, 33), (40000, 100, 1000))))]


def _stream_grid(kernel):
    """Every space; one block and several, one round and several, read more than once."""
    return [(StreamProblem(space, *size), ()) for space, size in product(STREAM_SPACES, ((1, 64, 1, 1), (3, 128, 2, 2), (2, 64, 5, 3)))]


def _fma_grid(kernel):
    """One block and several; one pass, a number that no unrolling divides, and more."""
    return [(FmaProblem(*size), ()) for size in ((1, 1), (2, 4), (3, 7), (1, 33), (2, 100))]


def check_problem(kernel, problem, settings, backend):
    """A Verdict for the probed and the timed build. Runs in a worker."""
    request = Request(kernel, problem, settings, backend=backend)
    probed, timed = execute.run(request), execute.run_timed_build(request)
    baseline = execute.baseline(request)
    error = execute.largest_error(request, timed)
    same = all(np.array_equal(probed.arrays[name], timed[name]) for name in problem.outputs)
    return (Verdict(kernel.name, "probed", problem, settings, probed.max_abs_error, baseline, execute.is_correct(probed.max_abs_error, baseline)),
            Verdict(kernel.name, "timed", problem, settings, error, baseline, execute.is_correct(error, baseline) and same,
                    "" if same else "the timed build's output differs from the probed build's"))


def recorded(kernel):
    """(problem, settings, scope) of what is worth having where there is no GPU. For attention: the default problem, causal, a ragged
    one, every what-if build, and K_smem padded and not, over their first head. For the paged kernels: each preset's last moment, as allocated and shuffled,
    and for V1 the same with other numbers of KV heads. For the lab: its settings and layouts."""
    default = kernel.problem_type()
    if kernel.problem_type is AttentionProblem:
        small = tuple((name, 16) for name in ("BLOCK_Q", "BLOCK_KV") if kernel.settings()[name] != 16)  # tiles that a small problem has several of
        pairs = [(default, small), (replace(default, causal=True), small), (replace(default, seq_len=50, head_dim=64, heads=1), small)]
        for constant in (c for c in kernel.constants if c.what_if):
            broken = tuple((constant.name, v) for v in constant.values if v != constant.default)
            pairs.append((replace(default, score_scale=constant.shows_at), (*small, *broken)))
        pairs += [(default, ((c.name, v),)) for c in kernel.constants if c.name.startswith("PAD") for v in c.values if small or v != c.default]
    elif kernel.problem_type is PagedProblem:
        cut = (("PARTITION", scenarios.SHOWN_PARTITION),) if "PARTITION" in kernel.settings() else ()
        pairs = [(problem, cut) for problem in scenarios.recorded_problems()]
        pairs += [] if cut else [(problem, ()) for problem in scenarios.recorded_head_problems()]
    elif kernel.problem_type in (ColumnsProblem, TransposeProblem):
        pairs = [(default, tuple(tile.items())) for tile in (TILES if kernel.problem_type is ColumnsProblem else TILES[:4] + TILES[-3:])]
    elif kernel.problem_type is GlobalProblem:
        pairs = [(GlobalProblem(layout, 16 if layout.startswith("paged") else 4), ()) for layout in LAYOUTS]
    else:
        pairs = [(default, ())]
    for problem, settings in pairs:
        items = kernel.plan(problem, kernel.settings(settings)).items
        yield problem, settings, Scope(0, items // (problem.batch * problem.heads) if kernel.problem_type is AttentionProblem else items)
