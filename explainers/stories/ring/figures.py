"""The first and the last picture of a ring: why K and V are divided, when a copy is hidden, and the recorded gain."""

from dataclasses import dataclass
from typing import TypedDict

import pandas as pd

from explainers.stories.ring import times
from kernels.measure import rings

GB = 1e9
TOKENS = 10**6  # of a long text
PARTS = {2: "half", 3: "a third", 4: "a quarter", 8: "an eighth"}


class Bar(TypedDict):
    """A bar. kind: memory, products, copies or time. text: at its end."""

    name: str
    value: float
    text: str
    kind: str


class Figure(TypedDict):
    """Bars on one scale. limit: [value, text] of a line across them, or []. notes: sentences under them."""

    title: str
    bars: list[Bar]
    limit: list[float | str]
    notes: list[str]


@dataclass(frozen=True)
class Model:
    """The K and V of a model in 16 bits, and the memory of a GPU in bytes."""

    name: str
    layers: int
    kv_heads: int
    head_dim: int
    gpu: str
    memory: float

    def bytes(self, tokens: int) -> int:
        """Of K and V of a text."""
        return 2 * 2 * tokens * self.layers * self.kv_heads * self.head_dim


MODEL = Model("Llama 3 8B", 32, 8, 128, "an H100", 80 * GB)


def why(gpus: int, model: Model = MODEL) -> Figure:
    """The memory of K and V, whole and divided."""
    whole = model.bytes(TOKENS)
    part, layer = whole / gpus, 2 * whole / gpus / model.layers
    bars: list[Bar] = [
        {"name": "on one GPU", "value": whole, "text": f"{whole / GB:.0f} GB", "kind": "memory"},
        {"name": f"on each of {gpus}", "value": part, "text": f"{part / GB:.0f} GB", "kind": "memory"},
    ]
    return {
        "title": f"Why a ring: K and V of {TOKENS:,} tokens",
        "bars": bars,
        "limit": [model.memory, f"{model.gpu}: {model.memory / GB:.0f} GB"],
        "notes": [
            f"Computed for {model.name}: {model.layers} layers, {model.kv_heads} KV heads of {model.head_dim} numbers, "
            f"2 bytes each. The two buffers of a layer add {layer / GB:.1f} GB.",
            "Another way divides the heads. It ends at "
            f"{model.kv_heads} GPUs here, one for each KV head. A ring has no such limit.",
        ],
    }


def hidden(causal: bool, rows: int) -> Figure | None:
    """When a copy is hidden: products and copy of a round, recorded, and the rule. None without a recording.

    rows: tokens on each GPU in this run.
    """
    rate = times.rate(causal, "zigzag" if causal else "")
    if rate is None:
        return None
    products, copies = f"{rate.products_us / 1000:.2f} ms", f"{rate.copy_us / 1000:.2f} ms"
    return {
        "title": f"Is the copy hidden? {rate.tokens:,} tokens on each GPU",
        "bars": [
            {"name": "products", "value": rate.products_us, "text": products, "kind": "products"},
            {"name": "copy", "value": rate.copy_us, "text": copies, "kind": "copies"},
        ],
        "limit": [],
        "notes": [
            f"One round of {rate.name}, recorded on {rate.place}. Both run at once, so the longer bar is the time.",
            f"Beyond about {round(rate.equal, -2):,} tokens on each GPU, products outlast the copy (derived). "
            "Twice the tokens take twice the copy and four times the products.",
            f"This small run has {rows} tokens on each GPU. Its GPUs are virtual, so it has no times.",
        ],
    }


def gains() -> list[Figure]:
    """The recorded times of a long causal text on one GPU and on several."""
    return [figure for table, where in rings.all_recorded() if (figure := _gain(table, times.place_of(where)))]


def _gain(table: pd.DataFrame, place: str) -> Figure | None:
    found = times.speedups(table)
    if found is None:
        return None
    tokens, alone, ways = found
    bars: list[Bar] = [{"name": "one GPU", "value": alone, "text": f"{alone / 1000:.2f} ms", "kind": "time"}]
    for name, us in ways.items():
        text = f"{us / 1000:.2f} ms: {alone / us:.2f} times as fast"
        bars.append({"name": name, "value": us, "text": text, "kind": "time"})
    return {
        "title": f"Recorded on {place}: {tokens:,} tokens, causal",
        "bars": bars,
        "limit": [],
        "notes": [counted(int(table.gpus.max()), list(ways.values())), times.hidden_in(table)],
    }


def counted(gpus: int, us: list[float]) -> str:
    """The gains of a plain and a zigzag order by their pairs, next to the recorded ones. us: of both, plain first."""
    if len(us) != 2:
        return ""
    plain, zigzag = gpus * gpus / (2 * gpus - 1), gpus
    return (
        f"Zigzag order is {us[0] / us[1]:.2f} times as fast as plain order. The count of pairs gives "
        f"{zigzag / plain:.2f} for {gpus} GPUs: {zigzag:.2f} against {plain:.2f} times one GPU (derived)."
    )


def gain_said() -> str:
    """The gain of the table with most GPUs, in a sentence."""
    table, where = rings.all_recorded()[-1]
    found = times.speedups(table)
    if found is None:
        return "No time of a long causal text is recorded."
    _, alone, ways = found
    gains = [f"{name} is {alone / us:.2f} times" for name, us in reversed(ways.items())]
    gpus = where.more["gpus"]
    said = f"On {gpus} real GPUs, {' and '.join(gains)} as fast as one GPU (recorded)."
    return f"{said} Each one stores {PARTS.get(gpus, f'1/{gpus}')} of K and V."
