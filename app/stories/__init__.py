"""One short page per story. PAGES: file, title, and what the start page says of it."""

PAGES = (
    (
        "stories/tiling.py",
        "Tiling",
        "See Q, K, V, S and O drawn to scale, the tile in work, what a block keeps in shared memory, and how often "
        "each kernel reads each byte.",
    ),
    (
        "stories/online_softmax.py",
        "Online softmax",
        "Follow one row through its tiles: scores, running max, rescale factor, running sum, output. Then break it and "
        "see where it goes wrong.",
    ),
    (
        "stories/block_table.py",
        "Block table",
        "Watch a KV cache grow, fork and fragment in pages, then walk a block table with PagedAttention: entry, page, "
        "address, score.",
    ),
    (
        "stories/bank_conflicts.py",
        "Bank conflicts",
        "See 32 lanes meet 32 banks, wavefront by wavefront; change the padding, the swizzle or the width, and look at "
        "K_smem of the attention "
        "kernels the same way.",
    ),
    (
        "stories/coalescing.py",
        "Coalescing",
        "See which 32-byte sectors each request of global memory touches, and how much of them is used: any kernel "
        "line by line, and five layouts "
        "side by side.",
    ),
    (
        "stories/memory_hierarchy.py",
        "Memory hierarchy",
        "Latency and bandwidth of shared memory, L1, L2 and device memory, measured by a pointer chase and a stream, "
        "beside the textbook's round "
        "figures.",
    ),
    (
        "stories/occupancy.py",
        "Occupancy",
        "How many blocks a multiprocessor holds and why not more, for every architecture; what other tiles would give; "
        "and the timeline of a grid, "
        "block by block.",
    ),
    (
        "stories/timing.py",
        "Timing",
        "How long each kernel takes beside torch's own attention: latency, speed-up with its spread, TFLOP/s, "
        "bandwidth, memory and the roofline, "
        "live on this GPU or recorded on named ones.",
    ),
    (
        "stories/compare.py",
        "Compare",
        "Two kernels, or two builds of one, on the same inputs under one clock: matrices, code, bytes, conflicts, "
        "registers, outputs and times side "
        "by side, and what differs in words.",
    ),
    (
        "stories/source.py",
        "Source",
        "CUDA, PTX and SASS side by side, for any build and architecture: hover a line and its instructions light up; "
        "the instruction mix, "
        "registers and spills.",
    ),
    (
        "stories/any_kernel.py",
        "Any kernel",
        "Step through any kernel at all, yours too: every tensor by its axes, every value by its keys, what each step "
        "reads and writes, beside its "
        "source.",
    ),
)
