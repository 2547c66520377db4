"""The list of words of the pages. TERMS has the spelling of each term and its explanation
(app/stage/shell/glossary.js). The pages also show PROVENANCE and PHASES."""

import math

TERMS = {
    "tile": "A block of neighbouring rows or columns that a thread block works on at once.",
    "query tile": "BLOCK_Q neighbouring rows of one head's Q, and of its O.",
    "key tile": "BLOCK_KV neighbouring rows of one head's K and V.",
    "score": "q . k / sqrt(head_dim) for one query and one key: one element of S.",
    "running max m": "The largest score of the row in the tiles seen so far.",
    "running sum l": "The sum of e^(score - m) over the row's keys seen so far.",
    "rescale factor": "e^(m before - m after): what l and O are multiplied by when the max moves.",
    "weight": "e^(score - m): what the key counts for in l and O, before the division by l.",
    "page": "A physical block of the KV cache: block_size slots, each for the K and V of one token.",
    "block table": "A sequence's pages, in order: entry i says where its tokens from i * block_size on lie.",
    "logical block": "block_size neighbouring tokens of a sequence, numbered by their place in it.",
    "slot": "One token's place in a page; as a number, page * block_size + slot in page.",
    "reference count": "How many sequences hold a page.",
    "copy on write": "A shared page is copied for the sequence that is about to write into it.",
    "slack": "Slots of a sequence's last page that hold no token yet.",
    "prefill": "All tokens of a prompt at once: their K and V are written before the first token of the answer.",
    "decode": "One token at a time: each step reads the K and V of the whole context and writes those of one token.",
    "distinct bytes": "Bytes that are read at all, each counted once however often it is asked for.",
    "partition": "PARTITION neighbouring tokens of a context, walked by a thread block of its own in PagedAttention "
    "V2.",
    "KV head": "A head of K and V; num_heads / num_kv_heads query heads read the same one.",
    "global memory": "The GPU's device memory: large, shared by all blocks, slow.",
    "shared memory": "Memory on the multiprocessor, seen by one thread block: small and fast.",
    "reuse factor": "How often each number fetched from global memory is used in a multiply-add.",
    "probe": "A line in the kernel that logs a value or an address; the timed build compiles it to nothing.",
    "trace": "Everything the probes of one run logged.",
    "kernel": "A function that runs on the GPU, as many threads at once.",
    "grid": "All thread blocks of one launch of a kernel.",
    "thread block": "Threads that run on one multiprocessor together and share its shared memory.",
    "multiprocessor": "One of the GPU's processors: warps, their registers, shared memory. An H200 has 132.",
    "register": "The fastest memory: some values of one thread, which no other thread sees.",
    "softmax": "e^(score - max) for each score of a row, over their sum: weights that add up to 1.",
    "grouped queries": "Several query heads read one KV head, so that the KV cache is smaller.",
    "KV cache": "The keys and values of all tokens so far, kept for the tokens to come.",
    "swizzle": "Another order of the elements in each row, so that a column lies in different banks.",
    "lane": "One thread of a warp.",
    "warp": "32 threads, called lanes 0 to 31, that execute an instruction together.",
    "bank": "One of the 32 columns, 4 bytes wide, of shared memory: byte address / 4, modulo 32.",
    "bank conflict": "Lanes of one pass want different words of one bank; they are served one after the other.",
    "broadcast": "Lanes want the same word; one read serves them all.",
    "pass": "The lanes of a warp that shared memory serves together: 32 up to 4 bytes a lane, 16 of 8 bytes, 8 "
    "of 16 bytes.",
    "wavefront": "One go of shared memory: at most one word of each bank.",
    "sector": "32 neighbouring bytes of global memory, the least that is moved.",
    "line": "128 neighbouring bytes of global memory: four sectors.",
    "tensor core": "The part of a multiprocessor that multiplies small matrices for a whole warp in one instruction.",
    "warpgroup": "Four neighbouring warps, 128 threads, whose tensor cores multiply together (wgmma).",
    "copy engine": "The part of a multiprocessor that copies boxes of a tensor into shared memory when a thread asks "
    "(TMA); beyond the tensor's edges it writes zeros.",
    "producer": "A thread or a warp that does nothing but bring the next tiles.",
    "consumer": "Warps that do nothing but compute with the tiles that a producer brings.",
    "reference m": "The m that weights are taken against where it need not be the row's max: any m gives the same "
    "softmax, as long as nothing overflows.",
    "bfloat16": "A float of 16 bits: the range of fp32 with 8 of its 24 significant bits. Three of them add up to "
    "any fp32 number.",
    "occupancy": "The warps that a multiprocessor holds at once, of those that it could.",
    "wave": "As many blocks as the whole GPU holds at once.",
    "median": "The middle time of the runs; half were faster, half slower.",
    "spread": "From p10 to p90: a tenth of the runs were faster than the one, a tenth slower than the other.",
    "speed-up": "The baseline's median time over the kernel's.",
    "cold L2": "An L2 cache that holds none of the inputs when the run begins.",
    "intensity": "FLOP per byte that must move to or from device memory.",
    "roof": "The most that this GPU was measured to do: copy bandwidth x intensity, or its arithmetic, "
    "whichever is lower.",
    "by covariance": "The mean product of a step's change and the final error, over the mean square of the final "
    "error. The shares of all steps add up to 100%. A share below 0 takes back what other steps brought.",
    "RMS": "Root mean square: the square root of the mean of the squares, so the typical size of what may be of "
    "either sign.",
    "block mask": "A mask as blocks of queries by keys: each is full, partial or skipped, and each query block has a "
    "list of the key blocks that it meets.",
    "partial block": "A block of a mask of which some pairs are seen and some hidden: it is loaded and multiplied "
    "whole, then masked.",
    "CSR": "Compressed sparse rows: all rows' lists of keys one after another (indices), and where each row's begins "
    "(indptr).",
    "attention sink": "A token that all queries see, or a logit of the head that counts in every row's sum: it takes "
    "the weight that no key deserves.",
    "density": "The share of all pairs of a query and a key that the mask shows.",
    "causal": "Each query sees only the keys up to its own position.",
}

PROVENANCE = {
    "measured": "Run on the GPU of this machine, now.",
    "executed": "This kernel's source, run on the CPU of this machine. It gives values and addresses, never a time.",
    "derived": "Computed from logged addresses and values by the rule that stands beside it.",
    "modelled": "Computed by a formula, such as the float64 reference; no kernel ran for it.",
    "recorded": "Measured earlier, on the GPU and the date named.",
}

PHASES = {  # the marks of the kernels, as the pages call them
    "load_q": "Load Q",
    "load_tile": "Load tile",
    "load_v": "Load V",
    "prefetch": "Prefetch K",
    "prefetch_tile": "Prefetch tile",
    "read_list": "Read the work list",
    "combine_warps": "Combine warps",
    "wait_q": "Wait for Q",
    "nothing_left": "No tile left",
    "tile_begin": "Start of tile",
    "tile_end": "End of tile",
    "scores_done": "Scores ready",
    "output_done": "Output ready",
    "check_sums": "Check sums",
    "scores": "Scores",
    "softmax": "Online softmax",
    "output": "Output",
    "write": "Write O",
    "walk_k": "Walk K",
    "walk_v": "Walk V",
    "write_part": "Write partition",
    "combine": "Combine",
    "write_token": "Write token",
    "copy_page": "Copy page",
    "walk": "Walk",
    "row_max": "Row max",
    "row_sum": "Row sum",
    "divide": "Divide",
}


def phase_title(phase: str) -> str:
    """The pages' name of a phase: the entry of PHASES, or the mark's name with spaces for underscores."""
    return PHASES.get(phase) or phase.replace("_", " ")


UNORDERED = "Derived order: the logged accesses do not say which role comes first here."  # of kernels.trace.steps


MOST_WHOLE = 1e12  # From here on a number has an exponent. app/stage/core/paint.js has the same limit.


def figure(value: float, digits: int = 4) -> str:
    """An amount in so many digits, and in all of its whole ones below MOST_WHOLE: 2.125, 37,368, 8.238e+28."""
    size = abs(value)
    if not 1000 - 0.5 * 10 ** (3 - digits) <= size < MOST_WHOLE:
        return "NaN" if math.isnan(value) else f"{value:.{digits}g}"
    return f"{value:,.0f}"


def logged(value: float, digits: int = 6) -> str:
    """A logged number and the float64 number next to it, in so many digits: 0.946955, 2,219.22, 8.23802e+28."""
    return "NaN" if math.isnan(value) else f"{value:,.{digits}g}"


def short(value: float) -> str:
    """A number in a sentence: four significant digits."""
    return "NaN" if math.isnan(value) else f"{value:.4g}"


def count(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun: 1 sector, 1,024 sectors, 2 entries."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def listed(parts: list[str]) -> str:
    """The parts as a list in a sentence: a, b and c."""
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]
