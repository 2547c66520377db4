"""The charts of times in words: titles, descriptions and notes."""

from collections.abc import Collection

from explainers.models.recorded_times import shown_name
from kernels import catalog
from kernels.measure.peers import TENSOR_PRODUCTS

CHARTS = {
    "speedup": "Speed-up",
    "latency": "Latency",
    "tflops": "TFLOP/s",
    "bandwidth": "Bandwidth",
    "memory": "Memory",
    "roofline": "Roofline",
    "ladder": "Ladder",
}
ALT = {
    "latency": "Median time of one run against the size, per kernel, with p10 to p90",
    "speedup": "How much faster or slower each kernel is than the baseline, with its spread",
    "tflops": "TFLOP/s against the size, per kernel",
    "bandwidth": "Bandwidth of the bytes that must move, under the measured copy",
    "memory": "Bytes allocated for one run against the size",
    "roofline": "Each point's TFLOP/s against its FLOP per byte, under the measured roofs",
    "ladder": "Each kernel's rate at the size of the step, a bar with its idea, next to torch and the measured roofs",
}


NOTES = {
    "latency": "Median time of one run on the GPU: lower is faster. The thick rule goes from p10 to p90. Dashed: torch "
    "and other libraries. A ring: two lines cross.",
    "speedup": "Above the dashed line: faster than the baseline. Below: slower. The number is our fastest kernel's. "
    "A thick rule goes from the baseline's p10 over the kernel's p90 to its p90 over the kernel's p10.",
    "tflops": "4 FLOP per score and dim, whatever the kernel does, over the median.",
    "bandwidth": "Bytes that must move at least over the median: a bound, not a count. Each of our launches reads or "
    "writes each of its arrays once, its own lists and partial results too. A peer counts its inputs and O. The roof "
    "is of a copy, which reads and writes. A kernel that only reads can pass it.",
    "memory": "A factor after a name: by how much it grows when the size doubles, over the largest sizes. "
    "Allocated on the GPU for one run, inputs and output included, as the allocator counted it. "
    "With as many queries as keys, a kernel that keeps S and P grows as seq_len^2.",
    "roofline": "Solid: the largest measured rates of this GPU. On the slope, copying is the limit. "
    "On a flat line, multiplying is. "
    "Dotted: the peaks in the datasheet. ",
    "ladder": "A bar for each kernel at the size of the step, in the order in which one was made from the other, with "
    "its idea. Below them: torch and other libraries. Per cent: of its roof, which was measured on the same GPU. "
    "If memory is the roof of all, the bars are GB/s of the bytes that must move. "
    "Lines: the roofs in range. That of the tensor cores is torch's product of two 8,192 x 8,192 matrices, that of "
    "memory a copy, which reads and writes: neither is a peak, and both can be passed.",
}


def note(kind: str, shown: Collection[str] = ()) -> str:
    """Returns the text below a chart.

    shown: the kernels and peers in it.
    """
    if kind != "roofline":
        return NOTES[kind]
    products = _made_of_products(shown)
    several = f"The roof of several 16-bit products for an fp32 product is lower: {products}." if products else ""
    return (NOTES[kind] + several).rstrip()


def _made_of_products(shown: Collection[str]) -> str:
    """Returns the shown kernels and peers with several 16-bit products for one fp32 product, by their number."""
    every = {name: spec.tensor_products for name, spec in catalog.current().kernels.items() if spec.tensor_products > 1}
    every |= TENSOR_PRODUCTS
    every = {shown_name(name): products for name, products in every.items() if name in shown}
    return "; ".join(
        f"{' and '.join(name for name, n in every.items() if n == products)} by {products}"
        for products in sorted(set(every.values()))
    )
