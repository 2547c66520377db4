import numpy as np
import pytest

from kernels import reference


def test_attention_equals_the_definition_written_out():
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 2, 3, 7, 4))
    for causal in (False, True):
        o = reference.attention(q, k, v, 0.5, causal)
        for b, h, i in np.ndindex(2, 3, 7):
            seen = range(i + 1 if causal else 7)
            weight = [np.exp(0.5 * sum(q[b, h, i] * k[b, h, j])) for j in seen]
            assert o[b, h, i] == pytest.approx(sum(w * v[b, h, j] for w, j in zip(weight, seen)) / sum(weight), rel=1e-12)


def test_prefix_max_and_sum_by_hand():
    m, l = reference.prefix_max_and_sum(np.array([0.0, 1.0, 0.0]), [1, 2, 3])
    assert m.tolist() == [0, 1, 1]
    assert l == pytest.approx([1, 1 + np.exp(-1), 1 + 2 * np.exp(-1)])


def test_a_nan_never_passes_and_shapes_must_agree():
    assert reference.max_abs_error(np.array([np.nan, 0], np.float32), np.zeros(2)) == float("inf")
    with pytest.raises(ValueError, match="shape"):
        reference.max_abs_error(np.zeros((2, 1)), np.zeros((1, 2)))


def test_a_long_sequence_is_taken_in_blocks_of_rows(monkeypatch):
    q, k, v = np.random.default_rng(1).standard_normal((3, 1, 2, 50, 8))
    for causal in (False, True):
        whole = reference.attention(q, k, v, 0.3, causal)
        monkeypatch.setattr(reference, "ROWS_AT_ONCE", 50 * 7)
        assert np.allclose(reference.attention(q, k, v, 0.3, causal), whole, rtol=1e-14)
        monkeypatch.undo()
