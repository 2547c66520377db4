"""The duels of the backward: their problems and entries."""

from kernels.catalog import current
from kernels.core.problem import Problem
from kernels.measure import gradient_duels


def test_the_problems_cover_the_aims_and_every_entry_can_run():
    made = gradient_duels.problems()
    assert {(p.seq_len, p.head_dim, p.causal) for p in made} >= {
        (n, d, c) for n in (4096, 8192, 16384) for d in (64, 128) for c in (False, True)
    }
    assert {p.dtype for p in made} == {"float16", "bfloat16"} and any(p.kv_heads < p.num_heads for p in made)
    assert all(p.batch * p.seq_len * p.num_heads * p.head_dim <= 2**26 for p in made) and not [*Problem.duel_problems()]
    for problem in made:
        entries = gradient_duels.entries(problem)
        assert {s.get("DETERMINISTIC") for n, s in entries if n == "backward_6_overlap"} == {0, 1}
        assert all(current().kernels[name].plan(problem, tuple(s.items())) for name, s in entries)
