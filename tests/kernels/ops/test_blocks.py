"""The operator block_sparse. The same tests run on a GPU."""

import pytest
import torch
from attention_truth import check, formula, mask_of, tensors, torch_own

from kernels import ops
from kernels.errors import ProblemError

devices = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])


@devices
@pytest.mark.parametrize("causal", [False, True])
def test_each_block_of_queries_sees_its_blocks_of_keys(device, causal):
    q, k, v = tensors(150, heads=2, kv_heads=1, dtype=torch.float16, device=device)
    blocks = torch.tensor([[1, 0, 0], [1, 1, 0], [0, 0, 0]], dtype=torch.bool)
    o, lse = ops.block_sparse(q, k, v, blocks, causal=causal)
    mask = blocks.repeat_interleave(64, 0).repeat_interleave(64, 1)[:150, :150] & mask_of(150, 150, causal)
    truth, _ = formula(q.double(), k.double(), v.double(), mask)
    check(o, truth, torch_own(q, k, v, mask), v.abs().max())
    assert (o[:, :, 128:] == 0).all() and (lse[:, :, 128:] == -float("inf")).all()


def test_faults_are_refused():
    q, k, v = tensors(150)
    blocks = torch.ones(3, 3, dtype=torch.bool)
    for change, reason in (
        ({"blocks": blocks[:2]}, r"blocks is \[2, 3\]. 64-token blocks of q and k need \[3, 3\]"),
        ({"blocks": torch.ones(4, 4, dtype=torch.bool), "block": 48}, "mask_block is 48. It must be one of"),
    ):
        with pytest.raises(ProblemError, match=reason):
            ops.block_sparse(q, k, v, **{"blocks": blocks, **change})
    with pytest.raises(ProblemError, match="no backward"):
        ops.block_sparse(q.requires_grad_(), k, v, blocks)
