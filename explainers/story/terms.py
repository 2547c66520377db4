"""The terms of the pages: spelling, meaning, source and place in the app. The glossary page lists them, and the pages
explain them on hover (app/stage/shell/glossary.js)."""

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Source:
    """A paper or a manual.

    label: its name, with authors and year of a paper.
    link: its address, or "" for a word of our own.
    """

    label: str
    link: str = ""


@dataclass(frozen=True)
class Term:
    """A term of the pages.

    said: its meaning, in one or two sentences.
    place: a link to a page that shows it.
    source: where the term comes from.
    """

    said: str
    place: str
    source: Source


OURS = Source("Warpglass")
CUDA = Source("CUDA C++ Programming Guide", "https://docs.nvidia.com/cuda/cuda-c-programming-guide/")
PTX = Source("PTX ISA", "https://docs.nvidia.com/cuda/parallel-thread-execution/")
NSIGHT = Source("Nsight Compute, Profiling Guide", "https://docs.nvidia.com/nsight-compute/ProfilingGuide/")
ATTENTION = Source("Attention Is All You Need, Vaswani et al. 2017", "https://arxiv.org/abs/1706.03762")
ONLINE = Source("Online normalizer calculation, Milakov and Gimelshein 2018", "https://arxiv.org/abs/1805.02867")
FLASH = Source("FlashAttention, Dao et al. 2022", "https://arxiv.org/abs/2205.14135")
FLASH_3 = Source("FlashAttention-3, Shah et al. 2024", "https://arxiv.org/abs/2407.08608")
FLEX = Source("FlexAttention, Dong et al. 2024", "https://arxiv.org/abs/2412.05496")
PAGED = Source("PagedAttention, Kwon et al. 2023", "https://arxiv.org/abs/2309.06180")
GROUPED = Source("GQA, Ainslie et al. 2023", "https://arxiv.org/abs/2305.13245")
FLASHINFER = Source("FlashInfer, Ye et al. 2025", "https://arxiv.org/abs/2501.01005")
SINKS = Source("Attention sinks, Xiao et al. 2023", "https://arxiv.org/abs/2309.17453")
BFLOAT = Source("A Study of BFLOAT16, Kalamkar et al. 2019", "https://arxiv.org/abs/1905.12322")
ROOFLINE = Source("Roofline, Williams et al. 2009", "https://doi.org/10.1145/1498765.1498785")

POOL, HEADS = "block_table?view=cache", "block_table?view=heads"
BACKWARD, BACKWARD_SUMS = "backward?picture=tiles", "backward?picture=sums"
TERMS = {
    "tile": Term("Neighbouring rows or columns that a thread block works on at once.", "tiling", FLASH),
    "query tile": Term("BLOCK_Q neighbouring rows of one head's Q, and of its O.", "tiling", FLASH),
    "key tile": Term("BLOCK_KV neighbouring rows of one head's K and V.", "tiling", FLASH),
    "score": Term("q . k / sqrt(head_dim) for one query and one key. It is one element of S.", "tiling", ATTENTION),
    "softmax": Term(
        "Each score becomes e^(score - max), over the sum of the row. The results add up to 1.",
        "online_softmax",
        ATTENTION,
    ),
    "running max m": Term("The largest score of the row in the tiles so far.", "online_softmax", ONLINE),
    "running sum l": Term("The sum of e^(score - m) over the keys of the row so far.", "online_softmax", ONLINE),
    "rescale factor": Term("e^(old m - new m). It multiplies l and O when m rises.", "online_softmax", ONLINE),
    "weight": Term("e^(score - m): the share of a key in l and O, before the division by l.", "online_softmax", ONLINE),
    "reference m": Term(
        "The m of the weights if it may differ from the row's max. Any m gives the same softmax without an overflow.",
        "online_softmax",
        FLASH_3,
    ),
    "causal": Term("Each query sees only the keys up to its own position.", "sparsity", ATTENTION),
    "page": Term(
        "A physical block of the KV cache. It has block_size slots, each for K and V of one token.",
        "block_table",
        PAGED,
    ),
    "block table": Term(
        "The pages of a sequence, in order. Entry i holds the page of its tokens from i * block_size on.",
        "block_table",
        PAGED,
    ),
    "logical block": Term("block_size neighbouring tokens of a sequence, in its own order.", "block_table", PAGED),
    "slot": Term("The place of one token in a page. Its number is page * block_size + slot in page.", POOL, PAGED),
    "reference count": Term("The number of sequences with a page.", POOL, PAGED),
    "copy on write": Term("A sequence that writes into a shared page gets its own copy first.", POOL, PAGED),
    "slack": Term("Slots of a sequence's last page without a token.", POOL, PAGED),
    "prefill": Term(
        "The work on all tokens of a prompt at once. It stores their K and V before the first new token.",
        "block_table?view=serving",
        PAGED,
    ),
    "decode": Term(
        "The work on one new token. It reads K and V of the whole context and stores its own.",
        "block_table?view=serving",
        PAGED,
    ),
    "distinct bytes": Term(
        "The bytes of all reads, each counted once. A byte that is read twice counts once.",
        "block_table",
        OURS,
    ),
    "partition": Term(
        "PARTITION neighbouring tokens of a context. PagedAttention V2 gives each to its own thread block.",
        "block_table?view=partitions",
        PAGED,
    ),
    "KV head": Term("A head of K and V. Several query heads can read the same KV head.", HEADS, GROUPED),
    "grouped queries": Term("Several query heads read one KV head. The KV cache is smaller.", HEADS, GROUPED),
    "KV cache": Term("The keys and values of all tokens so far, for the tokens to come.", POOL, PAGED),
    "global memory": Term("The GPU's device memory: large, slow, shared by all blocks.", "memory_hierarchy", CUDA),
    "shared memory": Term("Memory on the SM for one thread block: small and fast.", "memory_hierarchy", CUDA),
    "register": Term("The fastest memory. It holds values of one thread, hidden from all others.", "registers", CUDA),
    "reuse factor": Term("The multiply-adds for each number from global memory.", "tiling?picture=reuse", FLASH),
    "probe": Term(
        "A line in the kernel that logs a value or an address. The timed build has none.", "any_kernel", OURS
    ),
    "trace": Term("The log of all probes of one run.", "any_kernel", OURS),
    "kernel": Term("A function that runs on the GPU, as many threads at once.", "any_kernel", CUDA),
    "grid": Term("All thread blocks of one launch of a kernel.", "occupancy", CUDA),
    "thread block": Term("Threads that run on one SM together and share its shared memory.", "occupancy", CUDA),
    "SM": Term(
        "A streaming multiprocessor: one of the GPU's processors, with warps, registers and shared memory. An H200 "
        "has 132.",
        "occupancy",
        CUDA,
    ),
    "lane": Term("One thread of a warp.", "bank_conflicts", PTX),
    "warp": Term("32 threads that execute an instruction together, called lanes 0 to 31.", "bank_conflicts", CUDA),
    "swizzle": Term(
        "Another order of the elements in each row. It spreads a column over banks.", "bank_conflicts", PTX
    ),
    "bank": Term("One of the 32 columns of shared memory, 4 bytes wide.", "bank_conflicts", CUDA),
    "bank conflict": Term(
        "Lanes of one pass read different words of one bank. Shared memory serves them one after the other.",
        "bank_conflicts",
        CUDA,
    ),
    "broadcast": Term("Several lanes read the same word. One read serves them all.", "bank_conflicts", CUDA),
    "pass": Term(
        "The lanes of a warp that shared memory serves together. All 32 fit with 4 bytes a lane, fewer with more.",
        "bank_conflicts",
        NSIGHT,
    ),
    "divergent": Term("Of a warp whose lanes take different branches. Some lanes then wait.", "patterns", CUDA),
    "barrier": Term("A place in the code where all threads of a block wait for the last one.", "patterns", CUDA),
    "shuffle": Term("Each lane of a warp reads a register of another lane, without memory.", "patterns", CUDA),
    "stream": Term("A queue of kernels and copies. The GPU runs them one after another.", "launches", CUDA),
    "CUDA graph": Term("A recorded list of launches. The host sends it with one call.", "launches", CUDA),
    "host": Term("The CPU and its program, which call the GPU's kernels.", "launches", CUDA),
    "wavefront": Term("One cycle of shared memory, with at most one word of each bank.", "bank_conflicts", NSIGHT),
    "sector": Term("32 neighbouring bytes of global memory. No smaller piece moves.", "coalescing", NSIGHT),
    "line": Term("128 neighbouring bytes of global memory: four sectors.", "coalescing", NSIGHT),
    "tensor core": Term(
        "The part of an SM that multiplies small matrices. One instruction serves a whole warp.",
        "tensor_cores?step=1",
        PTX,
    ),
    "warpgroup": Term(
        "Four neighbouring warps, 128 threads. Their tensor cores multiply together (wgmma).", "pipeline", PTX
    ),
    "copy engine": Term(
        "The part of an SM that copies boxes of a tensor into shared memory (TMA). One thread asks for a copy.",
        "pipeline",
        PTX,
    ),
    "producer": Term("A thread or a warp that only brings the next tiles.", "pipeline", FLASH_3),
    "consumer": Term("Warps that only compute, on the tiles of a producer.", "pipeline", FLASH_3),
    "bfloat16": Term(
        "A float of 16 bits: the range of fp32 with 8 of its 24 significant bits. Three such numbers add up "
        "to any fp32 number.",
        "precision",
        BFLOAT,
    ),
    "occupancy": Term("The warps on an SM, as a share of the most that it can hold.", "occupancy", CUDA),
    "wave": Term("The most blocks that the whole GPU holds at once.", "occupancy", CUDA),
    "median": Term("The middle time of the runs. Half were faster, half slower.", "timing", OURS),
    "spread": Term("The times from p10 to p90. A tenth of the runs were faster, a tenth slower.", "timing", OURS),
    "rested": Term("Timed in short turns, before the chip lowers its clock.", "timing", OURS),
    "at work": Term("Timed while the chip computes without a pause, so its clock is lower.", "timing", OURS),
    "sustained": Term("Timed while the chip computes without a pause, so its clock is lower.", "timing", OURS),
    "baseline": Term("The kernel that the others are compared with.", "timing", OURS),
    "speed-up": Term("The median time of the baseline, over that of the kernel.", "timing", OURS),
    "cold L2": Term("An L2 cache without any of the inputs at the start of a run.", "timing", NSIGHT),
    "intensity": Term("FLOP for each byte to or from device memory.", "timing", ROOFLINE),
    "roof": Term(
        "The most that this GPU reached: copy bandwidth x intensity, or its arithmetic. The lower one counts.",
        "timing",
        ROOFLINE,
    ),
    "by covariance": Term(
        "A step's share of the final error. The shares of all steps add up to 100%. A share below 0 takes back an "
        "error.",
        "precision",
        OURS,
    ),
    "RMS": Term("Root mean square: the typical size of values with either sign.", "precision", OURS),
    "block mask": Term(
        "A mask as blocks of queries by keys: full, partial or skipped. Each query block lists its key blocks.",
        "sparsity",
        FLEX,
    ),
    "partial block": Term(
        "A block of a mask with visible and hidden pairs. The kernel multiplies it whole, then masks it.",
        "sparsity",
        FLEX,
    ),
    "CSR": Term(
        "Compressed sparse rows: the key lists of all rows in one array, and the start of each row in another.",
        "sparsity",
        FLASHINFER,
    ),
    "attention sink": Term(
        "A token that all queries see, or a logit in every row's sum. It takes the weight that no key deserves.",
        "sparsity",
        SINKS,
    ),
    "density": Term("The share of all pairs of query and key that the mask shows.", "sparsity", FLEX),
    "LSE": Term(
        "Log of the sum of exp(score) over a row: one number per query. exp(score - LSE) is the share of a key.",
        BACKWARD,
        FLASH,
    ),
    "delta": Term("rowsum(dO * O): one number per query, which the gradient of a softmax subtracts.", BACKWARD, FLASH),
    "gradient": Term("How much the loss changes with a number. dQ has the gradients of Q.", BACKWARD, OURS),
    "atomic": Term("An addition in memory that no other thread can interrupt, in no fixed order.", BACKWARD_SUMS, CUDA),
    "run on this CPU": Term(
        "The label of values from the kernel's own source on the CPU of this machine. They are never times.",
        "start",
        OURS,
    ),
}


def for_browser() -> dict[str, dict[str, object]]:
    """term -> its fields, for core/data.js."""
    return {name: asdict(term) for name, term in TERMS.items()}
