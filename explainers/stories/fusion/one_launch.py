"""Why norm, attention and residual stay separate launches: the products that one launch would repeat, by formulas."""

from dataclasses import dataclass

from explainers.story.glossary import short


@dataclass(frozen=True)
class Layer:
    """The attention of a transformer layer in 16 bits, with a causal mask."""

    name: str
    tokens: int
    hidden: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    tile: int = 128  # queries of a block

    @property
    def kv_bytes(self) -> int:
        """K and V, written once and read once."""
        return 2 * 2 * 2 * self.tokens * self.num_kv_heads * self.head_dim

    @property
    def projection_flops(self) -> int:
        """The products that make K and V from the normed rows, once."""
        return 2 * self.tokens * self.hidden * 2 * self.num_kv_heads * self.head_dim

    @property
    def repeated_flops(self) -> int:
        """The same products in each block for the keys that it sees, less the one time that is due.

        A block has one query head, so all query heads of a KV head repeat its products.
        """
        return round(self.projection_flops * (self.turns_per_key - 1))

    @property
    def turns_per_key(self) -> float:
        """The blocks that see a key: its query tiles, on average, times the query heads of its KV head."""
        return (self.tokens // self.tile + 1) / 2 * self.num_heads / self.num_kv_heads

    @property
    def attention_flops(self) -> int:
        """Both products of attention under the mask."""
        return 2 * self.num_heads * self.tokens * (self.tokens + 1) * self.head_dim


LAYER = Layer("Llama 3 8B", 8192, 4096, 32, 8, 128)


def sentences(layer: Layer = LAYER) -> list[str]:
    """The reason, with its numbers."""
    tflop, saved = layer.repeated_flops / 1e12, layer.kv_bytes / 1e6
    return [
        f"A norm needs a whole row of {layer.hidden:,} numbers. A block of attention has {layer.tile} queries and "
        f"{layer.head_dim} dims of one head.",
        "Between the norm and attention is a product with the weights. Each block would repeat it for every key that "
        "its queries see, because no other block has stored K and V.",
        f"{layer.name}, {layer.tokens:,} tokens: one launch would save {short(saved)} MB of K and V. It would repeat "
        f"{short(tflop)} TFLOP, and attention itself has {short(layer.attention_flops / 1e12)}.",
        "Rotary embedding of K inside attention has the same fault: each block turns its keys again. "
        f"A key is turned {layer.turns_per_key:g} times on average. So a cache keeps K turned, and attention turns "
        "only Q.",
        "After attention, the next norm needs the outputs of all heads, which are in other blocks. One launch would "
        "need a barrier over the whole grid.",
        "So the norm fuses with the addition before it, and the rotary embedding with the write of the cache.",
    ]
