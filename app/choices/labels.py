"""Plain words for the names of fields and constants. The identifier itself appears on hover."""

from kernels.core.launch import words_of_constant

PLAIN = {
    "AHEAD": "copy ahead",
    "MULTIPROCESSORS": "most blocks",
    "QUERY_HEADS": "query heads per block",
    "Q_STAGES": "query tiles in flight",
    "RESCALE": "rescale",
    "STREAK": "tiles before a skip",
    "SUBTRACT_MAX": "subtract the max",
    "V_STRIDE": "stride of V",
    "WIDTH": "bytes per lane",
    "MATRICES": "matrices at once",
    "alibi": "ALiBi",
    "block_kv": "keys per block",
    "block_q": "queries per block",
    "block_size": "tokens per page",
    "block_tables": "block tables",
    "cache_dtype": "type of the cache",
    "context_lens": "tokens of each sequence",
    "dtype": "number type",
    "head_dim": "numbers per head",
    "mask_block": "block of the mask",
    "num_blocks": "pages in the pool",
    "num_heads": "heads",
    "num_kv_heads": "KV heads",
    "op": "access",
    "score_scale": "size of the scores",
    "seq_len": "tokens",
    "seq_len_kv": "keys",
    "soft_cap": "largest score",
    "width": "bytes per lane",
}


def plain(name: str) -> str:
    """The plain words for a choice, such as "key tile" for BLOCK_KV, and "A key tile" for a_BLOCK_KV."""
    side, _, rest = name.partition("_")
    if side in ("a", "b") and rest:
        return f"{side.upper()} {plain(rest)}"
    return PLAIN.get(name) or words_of_constant(name) or name.replace("_", " ").lower()
