"""Whether a kernel of the backward returns equal bits in every run on this GPU, over problems with many key tiles.

PYTHONPATH=. python tests/gradient_bits.py [RUNS] [NAME=VALUE ...]    constants of backward_6_overlap
"""

import sys
from itertools import product

import numpy as np

from kernels import catalog
from kernels.core.request import Request
from kernels.families.backward.problem import SixteenBitGradientProblem
from kernels.measure.protocol import Kernel

KERNEL = "backward_6_overlap"


def main(runs: str = "20", *constants: str) -> None:
    chosen = {name: int(value) for name, value in (text.split("=") for text in constants or ("DETERMINISTIC=1",))}
    spec = catalog.find(KERNEL)
    for head_dim, causal, (heads, kv_heads) in product((64, 128), (False, True), ((16, 16), (16, 4))):
        problem = SixteenBitGradientProblem(
            2048, head_dim, 2, heads, causal, "bfloat16", num_kv_heads=kv_heads if kv_heads < heads else 0
        )
        settings = spec.settings_for(problem, tuple(chosen.items()))
        kernel = Kernel(Request(spec, problem, tuple(settings.items()), backend="gpu"), problem.inputs())
        first = kernel.first_run()
        differ = dict.fromkeys(first, 0)
        for _ in range(int(runs) - 1):
            for name, array in kernel.first_run().items():
                differ[name] += not np.array_equal(array.view(np.uint16), first[name].view(np.uint16))
        print(
            f"D {head_dim} causal {causal} heads {heads}/{kv_heads} {chosen}: runs with other bits {differ}", flush=True
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
