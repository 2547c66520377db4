import numpy as np
import pytest

from kernels.core import reference


def test_attention_equals_the_definition_written_out_also_in_blocks_of_rows(monkeypatch):
    rng = np.random.default_rng(0)
    given = rng.standard_normal((3, 2, 3, 7, 4), dtype=np.float32)
    q, k, v = given.astype(np.float64)
    for causal in (False, True):
        o, _ = reference.grouped_attention(*given, 0.5, causal)
        for b, h, i in np.ndindex(2, 3, 7):
            seen = range(i + 1 if causal else 7)
            weight = [np.exp(0.5 * sum(q[b, h, i] * k[b, h, j])) for j in seen]
            assert o[b, h, i] == pytest.approx(
                sum(w * v[b, h, j] for w, j in zip(weight, seen)) / sum(weight), rel=1e-12
            )
    q, k, v = np.random.default_rng(1).standard_normal((3, 1, 2, 50, 8), dtype=np.float32)
    for causal in (False, True):
        whole, lse = reference.grouped_attention(q, k, v, 0.3, causal)
        monkeypatch.setattr(reference, "ROWS_AT_ONCE", 50 * 7)
        for cut, uncut in zip(reference.grouped_attention(q, k, v, 0.3, causal), (whole, lse)):
            assert np.allclose(cut, uncut, rtol=1e-14)
        monkeypatch.undo()


def test_a_prefix_a_query_head_of_a_group_and_alibi_by_hand():
    m, l = reference.prefix_max_and_sum(np.array([0.0, 1.0, 0.0]), [1, 2, 3])
    assert m.tolist() == [0, 1, 1]
    assert l == pytest.approx([1, 1 + np.exp(-1), 1 + 2 * np.exp(-1)])
    rng = np.random.default_rng(2)
    q, k, v = rng.standard_normal((4, 8)), rng.standard_normal((5, 2, 8)), rng.standard_normal((5, 2, 8))
    o, lse = reference.decode_attention(q, k, v, 0.3, np.zeros(4))
    for head in range(4):
        scores = reference.scores(q[[head]], k[:, head // 2], 0.3, False)
        weights = reference.softmax(scores)
        assert o[head] == pytest.approx((weights @ v[:, head // 2])[0], rel=1e-12)
        assert lse[head] == pytest.approx(np.log(np.exp(scores).sum()), rel=1e-12)
    # Two equal keys: the weights are e^(-slope) and 1, over their sum.
    v = np.array([[[1.0]], [[3.0]]])
    o, _ = reference.decode_attention(np.ones((1, 1)), np.ones((2, 1, 1)), v, 1.0, np.array([0.5]))
    assert o[0, 0] == pytest.approx((np.exp(-0.5) * 1 + 3) / (np.exp(-0.5) + 1))
