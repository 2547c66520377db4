"""load makes an operator of any kernel."""

import pytest
import torch
from attention_truth import formula, mask_of, tensors

from kernels import catalog, ops
from kernels.errors import ProblemError


def test_a_kernel_of_the_catalogue_becomes_an_operator():
    q, k, v = tensors(20, heads=2, kv_heads=2, dim=32, dtype=torch.float32)
    flash = ops.load("03_flash", seq_len=20, head_dim=32, num_heads=2, causal=True)
    assert (flash.inputs, flash.outputs) == (("q", "k", "v"), ("o",))
    torch.testing.assert_close(flash(q, k, v), formula(q, k, v, mask_of(20, 20, True))[0])
    assert torch.equal(flash(q, v=v, k=k), flash(q, k, v))
    torch.library.opcheck(flash._call, (q, k, v))
    assert ops.load("03_flash", seq_len=20, head_dim=32, num_heads=2, causal=True) is flash


def test_a_file_becomes_an_operator_and_a_kernel_of_attention(tmp_path):
    spec = catalog.current().kernels["05b_any_shape"]
    path = tmp_path / "mine.cu"
    path.write_text(spec.source.replace("z.scale *", "2.f * z.scale *"))
    q, k, v = tensors(20, dtype=torch.float32)
    expected = formula(q, k, v, mask_of(20, 20), 2 * 0.125)[0]
    torch.testing.assert_close(ops.attention(q, k, v, kernel=str(path))[0], expected)
    mine = ops.load(str(path), seq_len=20, num_heads=4, num_kv_heads=2)
    torch.testing.assert_close(mine(q, k, v)[0], expected)


def test_other_shapes_and_fields_are_refused():
    flash = ops.load("03_flash", seq_len=20)
    with pytest.raises(ProblemError, match="q is float32"):
        flash(*tensors(21, heads=2, kv_heads=2, dim=32, dtype=torch.float32))
    with pytest.raises(ProblemError, match="seq_len is 0"):
        ops.load("03_flash", seq_len=0)
