"""Peers of a ring: torch's context_parallel over NCCL, a process for each GPU, and NCCL's own copies of K and V.

python -m kernels.measure.ring_peers RANK WORLD PORT PROBLEM is one of these processes. Rank 0 prints JSON.

An output passes if at least ROWS rows of every head are within LIMIT of float64. This is not the rule of our kernels
(core/tolerance.py): it has no yardstick, and it sees only these rows.
"""

import json
import os
import socket
import statistics
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

from kernels.families.ring.problem import RingProblem
from kernels.measure.meeting import STATES

if TYPE_CHECKING:
    import torch

SECONDS = 50.0  # for all processes of a problem
BACKENDS = ("CUDNN_ATTENTION", "FLASH_ATTENTION")
Row = dict[str, object]
ROWS, LIMIT = 64, 2e-3  # rows to judge, or all of a shorter sequence, and their largest |output - float64|


def times(problem: RingProblem) -> list[Row]:
    """A row for each peer, with its time or the reason against one."""
    port = _free_port()
    said = json.dumps(problem.values())
    command = [sys.executable, "-m", __name__]
    jobs = [
        subprocess.Popen(
            [*command, str(rank), str(problem.gpus), str(port), said], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        for rank in range(problem.gpus)
    ]
    try:
        answers = [job.communicate(timeout=SECONDS)[0].decode(errors="replace") for job in jobs]
    except subprocess.TimeoutExpired:
        answers = [f"no answer in {SECONDS:.0f} s"]
    finally:
        for job in jobs:
            job.kill()
    line = next((line for line in answers[0].splitlines() if line.startswith("[{")), "")
    if not line:
        reason = (answers[0].strip().splitlines() or ["no output"])[-1][:200]
        return [{"way": "torch over NCCL", "name": "context_parallel", "status": "failed", "reason": reason}]
    return json.loads(line)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def main(rank: int, world: int, port: int, problem: RingProblem) -> None:
    """One process: its times, printed by rank 0."""
    import torch
    import torch.distributed as dist

    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(rank), "WORLD_SIZE": str(world)}
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=world, device_id=torch.device("cuda", rank))
    rows = [_copies(rank, world, problem)]
    rows += [_attention(problem, backend, rotate) for backend in BACKENDS for rotate in ("alltoall", "allgather")]
    if rank == 0:
        print(json.dumps(rows), flush=True)
    dist.destroy_process_group()


def _copies(rank: int, world: int, problem: RingProblem) -> Row:
    """NCCL's copies of K and V to the next GPU, for all steps of a ring."""
    import torch
    import torch.distributed as dist

    shape = (2, problem.kv_heads, problem.rows, problem.head_dim)
    parts = [torch.randn(shape, device="cuda").to(torch.float16) for _ in range(2)]

    def run() -> None:
        for step in range(world - 1):
            source, target = parts[step % 2], parts[1 - step % 2]
            sends = [dist.P2POp(dist.isend, source, (rank + 1) % world)]
            for work in dist.batch_isend_irecv([*sends, dist.P2POp(dist.irecv, target, (rank - 1) % world)]):
                work.wait()

    said = {"copied_bytes": world * (world - 1) * parts[0].nbytes, "status": "ok"}
    return {"way": "copies over NCCL", "name": "nccl", **said, **_timed(run)}


def _attention(problem: RingProblem, backend: str, rotate: str) -> Row:
    """torch's ring with one of its fused kernels. rotate: alltoall moves parts round, allgather collects them first."""
    name = f"context_parallel, {backend.split('_')[0].lower()}, {rotate}"
    row: Row = {"way": "torch over NCCL", "name": name, "flops": problem.work.flops}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            return row | _judged(problem, backend, rotate)
        except Exception as error:  # a peer's own limits
            said = [str(error), *(str(one.message) for one in told if one.category is UserWarning)]
            lines = " ".join(text.splitlines()[0][:160] for text in said[:3] if text)
            return row | {"status": "failed", "reason": f"{type(error).__name__}: {lines}"}


def _judged(problem: RingProblem, backend: str, rotate: str) -> Row:
    """The times of torch's ring, if its output is right."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.experimental import context_parallel
    from torch.distributed.tensor.experimental._attention import (
        _cp_options,
        context_parallel_unshard,
        set_rotate_method,
    )
    from torch.nn.attention import SDPBackend, sdpa_kernel

    _cp_options.enable_load_balance = problem.causal
    mesh = init_device_mesh("cuda", (problem.gpus,))
    set_rotate_method(rotate)
    generator = torch.Generator("cuda").manual_seed(7)
    shape = (1, problem.num_heads, problem.seq_len, problem.head_dim)
    q, k, v = (torch.randn(shape, generator=generator, device="cuda").to(torch.float16) for _ in range(3))
    rows = torch.arange(0, problem.seq_len, max(1, problem.seq_len // ROWS), device="cuda")
    due = _rows(q, k, v, rows, problem.causal)
    with torch.inference_mode(), sdpa_kernel(getattr(SDPBackend, backend)):
        with context_parallel(mesh, buffers=[q, k, v], buffer_seq_dims=[2, 2, 2]):

            def run() -> "torch.Tensor":
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=problem.causal)

            out = run()
            figures = _timed(run)
        (whole,) = context_parallel_unshard(mesh, [out], [2])
    error = float((whole[:, :, rows].double() - due).abs().max())
    if error < LIMIT:
        return figures | {"max_abs_error": error, "allowed_error": LIMIT, "status": "ok"}
    return {"status": "wrong", "reason": f"{error:.3g} away from float64, and at most {LIMIT:g} is allowed"}


def _rows(
    q: "torch.Tensor", k: "torch.Tensor", v: "torch.Tensor", rows: "torch.Tensor", causal: bool
) -> "torch.Tensor":
    import torch

    scores = q[:, :, rows].double() @ k.double().transpose(-1, -2) / q.shape[-1] ** 0.5
    if causal:
        scores.masked_fill_(torch.arange(k.shape[2], device="cuda") > rows[:, None], -torch.inf)
    return torch.softmax(scores, -1) @ v.double()


def _timed(run: Callable[[], object]) -> Row:
    """us and sustained_us: medians over rounds, each the slowest process's mean, after a barrier."""
    import torch
    import torch.distributed as dist

    figures: Row = {}
    run()
    once = _round(run, 2)
    for state in STATES:
        counted = max(3, round(1e3 * state.seconds / once))
        if state.lead:
            _round(run, max(1, round(1e3 * state.lead / once)))
        rounds = [_round(run, counted) for _ in range(state.rounds)]
        figures[f"{state.prefix}us"] = round(1e3 * statistics.median(rounds), 2)
        figures[f"{state.prefix}rounds"] = json.dumps([round(1e3 * t, 2) for t in rounds])
    torch.cuda.synchronize()
    dist.barrier()
    return figures


def _round(run: Callable[[], object], count: int) -> float:
    """Milliseconds of a run: the mean of `count` runs, on the slowest process."""
    import torch
    import torch.distributed as dist

    dist.barrier()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(count):
        run()
    end.record()
    end.synchronize()
    took = torch.tensor([begin.elapsed_time(end) / count], device="cuda")
    dist.all_reduce(took, dist.ReduceOp.MAX)
    return float(took.item())


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), RingProblem(**json.loads(sys.argv[4])))
