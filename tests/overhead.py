"""Prints the time of a call of the operators, and on a GPU the operators next to torch's attention at model shapes.

python tests/overhead.py [--out FILE.csv]    Each time includes the work on the CPU. FILE gets the raw rounds.
"""

import argparse
import csv
import json
import statistics
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import torch

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

from kernels import ops  # noqa: E402

SHAPES = {  # model -> heads, KV heads, head_dim
    "Llama 3 8B": (32, 8, 128),
    "GPT-2 medium": (16, 16, 64),
}
SIZES = ((1, 128), (1, 1024), (4, 2048), (2, 4096), (1, 8192))  # batch and tokens
BACKENDS = ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH")
COLUMNS = ("model", "batch", "heads", "kv_heads", "tokens", "head_dim", "work", "name", "median_us", "rounds")
ROUNDS, CALLS = 7, 5000
sdpa = torch.nn.functional.scaled_dot_product_attention


def microseconds(function, calls=CALLS):
    """The time of a call: the best of five loops."""
    for _ in range(20):
        function()
    times = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(calls // 5):
            function()
        times.append((time.perf_counter() - start) / (calls // 5))
    return min(times) * 1e6


def without_launch(q, k, v):
    """Microseconds of a call apart from the kernel: its plan launches nothing."""
    found = ops.explain(q, k, v)
    launch, found._run = found._run, lambda tensors: None
    try:
        with torch.no_grad():
            return microseconds(lambda: ops.attention(q, k, v))
    finally:
        found._run = launch


def overheads(device):
    """Prints what a call costs on the CPU."""
    q, k, v = (torch.randn(1, 2, 64, 64, device=device).half() for _ in range(3))
    print(f"a call of the operator without its launch: {without_launch(q, k, v):.1f} us")
    print(f"two new tensors of torch: {microseconds(lambda: (torch.empty_like(q), q.new_empty(1, 2, 64))):.1f} us")
    if device == "cpu":
        return
    calls = {"warpglass": lambda: ops.attention(q, k, v)} | {n.lower(): torch_call(q, k, v, False) for n in BACKENDS}
    for name, call in calls.items():
        with torch.no_grad(), of_backend(name):
            print(f"a call with its launch, {name}: {microseconds(call, 1000):.1f} us")
        torch.cuda.synchronize()


def torch_call(q, k, v, causal):
    """A call of torch's attention. The backend is the one that `of_backend` allows."""
    return lambda: sdpa(q, k, v, is_causal=causal, enable_gqa=k.shape[1] < q.shape[1])


def of_backend(name):
    """Allows one backend of torch's attention, or all for ours. It is entered outside of the timed calls."""
    kind = name.upper() if name.upper() in BACKENDS else None
    return torch.nn.attention.sdpa_kernel([getattr(torch.nn.attention.SDPBackend, kind)]) if kind else nullcontext()


def once(call, calls):
    """Microseconds of one of `calls` calls without a pause, from the first to the end on the GPU."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / calls * 1e6


def rounds(contestants, seconds=0.15):
    """name -> the times of each round. All take turns."""
    working, found = {}, {}
    for name, call in contestants.items():
        try:
            with of_backend(name):
                for _ in range(3):
                    call()
                working[name] = max(1, int(seconds * 1e6 / once(call, 3)))
        except Exception as error:
            print(f"  {name}: {str(error).splitlines()[0][:100]}")
    for _ in range(ROUNDS):
        for name, calls in working.items():
            with of_backend(name):
                found.setdefault(name, []).append(once(contestants[name], calls))
    return found


def trained(call, given, do):
    """A call, and its gradients."""
    return lambda: torch.autograd.grad(call(), given, do)


def compare(out):
    """Prints the operators next to torch's attention, and writes the raw rounds."""
    rows = []
    for (model, (heads, kv_heads, dim)), (batch, tokens) in ((m, s) for m in SHAPES.items() for s in SIZES):
        shapes = [(batch, n, tokens, dim) for n in (heads, kv_heads, kv_heads)]
        for learns in (False, True):
            q, k, v = (torch.randn(s, device="cuda", dtype=torch.bfloat16, requires_grad=learns) for s in shapes)
            do = torch.randn_like(q)
            calls = {"warpglass": lambda q=q, k=k, v=v: ops.attention(q, k, v, causal=True)[0]}
            calls |= {name.lower(): torch_call(q, k, v, True) for name in BACKENDS if tokens <= 4096 or name != "MATH"}
            if learns:
                calls = {name: trained(call, (q, k, v), do) for name, call in calls.items()}
            work = "forward and backward" if learns else "forward"
            print(f"{model}, batch {batch}, {tokens} tokens, causal, bf16, {work}")
            found = rounds(calls)
            for name, times in found.items():
                middle = statistics.median(times)
                ratio = (
                    statistics.median([a / b for a, b in zip(times, found["warpglass"])]) if "warpglass" in found else 0
                )
                print(f"  {name:20} {middle:9.1f} us   {ratio:5.2f} times ours")
                rows.append(
                    [model, batch, heads, kv_heads, tokens, dim, work, name, round(middle, 2), json.dumps(times)]
                )
            del q, k, v, do, calls
            torch.cuda.empty_cache()
    if out:
        with Path(out).open("w", newline="") as file:
            heads_of_columns = [
                "model",
                "batch",
                "heads",
                "kv_heads",
                "tokens",
                "head_dim",
                "work",
                "name",
                "median_us",
                "rounds",
            ]
            csv.writer(file).writerows([heads_of_columns, *rows])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="")
    out = parser.parse_args().out
    device = "cuda" if torch.cuda.is_available() else "cpu"
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name() if device == 'cuda' else 'CPU'}")
    overheads(device)
    if device == "cuda":
        compare(out)


if __name__ == "__main__":
    main()
