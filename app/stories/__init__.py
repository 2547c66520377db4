"""One short page per story. PAGES: file, title, and what the start page says of it."""

PAGES = (
    ("stories/tiling.py", "Tiling", "See Q, K, V, S and O drawn to scale, the tile in work, what a block keeps in shared memory, and how often "
     "each kernel reads each byte."),
    ("stories/online_softmax.py", "Online softmax", "Follow one row through its tiles: scores, running max, rescale factor, running sum, output. "
     "Then break it and see where it goes wrong."),
    ("stories/block_table.py", "Block table", "Watch a KV cache grow, fork and fragment in pages, then walk a block table with PagedAttention: "
     "entry, page, address, score."),
)
