"""Which kernel is fastest where: the grid, its participants, the nearest recorded case, and the operators' choice."""

import pandas as pd
import pytest
import torch

from kernels.catalog import KERNELS
from kernels.core.remembered import recordings_changed
from kernels.families.tensor_cores.problem import SixteenBitProblem
from kernels.measure import choices, meeting, nearest_times
from kernels.ops import choice
from kernels.ops.operators import ATTENTION
from kernels.recordings import tables

SMALL = (("BLOCK_Q", 64), ("BLOCK_KV", 64))
SHORT = SixteenBitProblem(512, 64, 4, 32, True, "bfloat16")
LONG = SixteenBitProblem(4096, 64, 2, 32, True, "bfloat16")


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """The GPU of a table with two cases: 09_wgmma with small tiles wins at 512 tokens, 12_optimistic at 4,096, there
    before 13_short."""
    rows = []
    for problem, fastest in ((SHORT, ("09_wgmma", SMALL)), (LONG, ("12_optimistic", ()))):
        for name, variant in choices.participants(problem):
            row = choices._begun(problem, name, variant)
            us = 10.0 if (name, variant) == fastest else 11.0 if name == "13_short" else 12.0
            rows.append(row | {"status": "slow" if name == "11_overlap" else "ok", "us": us, "first_us": 2 * us})
    device = nearest_times.recorded_device()
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    where = tables.Provenance(device.name, "580", "2026-11-29")
    tables.save(pd.DataFrame(rows, columns=list(choices.COLUMNS)), tables.path_of(choices.KIND, device.name), where)
    recordings_changed()
    yield device
    recordings_changed()


def test_the_grid_has_each_type_head_dim_mask_and_length_once_and_short_sequences_first():
    made = choices.problems()
    assert len({*made}) == len(made) and [p.seq_len for p in made[:8]] == [128] * 8
    assert {(p.dtype, p.head_dim, p.causal, p.seq_len) for p in made} == {
        (dtype, head_dim, causal, tokens)
        for dtype in ("float16", "bfloat16")
        for head_dim in (64, 128)
        for causal in (False, True)
        for tokens in choices.TOKENS
    }
    assert {choices.blocks_of(p) for p in made} == {*choices.BLOCKS}


def test_each_participant_has_constants_of_its_own_and_small_tiles_take_part_at_both_head_dims():
    for problem in choices.problems()[::7]:
        found = choices.participants(problem)
        plans = [(name, tuple(KERNELS[name].settings_for(problem, variant).items())) for name, variant in found]
        assert len({*plans}) == len(plans) and ("09_wgmma", SMALL) in found and ("13_short", ()) in found
        assert sum(name == "13_short" and "OPTIMISTIC" in dict(variant) for name, variant in found) == 1


def test_a_problem_takes_the_nearest_case_of_its_head_dim_and_mask(recorded):
    for tokens, batch, heads, dtype, winner in (
        (512, 4, 32, "bfloat16", "09_wgmma"),
        (600, 1, 8, "float16", "09_wgmma"),
        (64, 1, 1, "bfloat16", "09_wgmma"),
        (3000, 8, 32, "float16", "12_optimistic"),
        (65536, 1, 32, "bfloat16", "12_optimistic"),
    ):
        found = choices.fastest(SixteenBitProblem(tokens, 64, batch, heads, True, dtype), recorded)
        assert found[0].name == winner and found[0].us == 10 and found[1].share == pytest.approx(10 / 11)
        assert "11_overlap" not in {one.name for one in found}
    for other in (
        SixteenBitProblem(512, 64, 4, 32, False, "bfloat16"),
        SixteenBitProblem(512, 128, 4, 32, True, "bfloat16"),
        SixteenBitProblem(1, 64, 4, 32, True, "bfloat16", seq_len_kv=512),
    ):
        assert not choices.fastest(other, recorded)


def call_of(problem):
    q = torch.empty(problem.batch, problem.num_heads, problem.seq_len, problem.head_dim, dtype=torch.bfloat16)
    return ATTENTION.call({"q": q, "k": q, "v": q}, {"causal": problem.causal})


def test_an_operator_takes_the_measured_kernel_with_its_constants_and_without_a_case_the_nearest_time(recorded):
    chosen = choice.choose(call_of(SHORT), recorded)
    assert chosen.kernel.name == "09_wgmma" and dict(SMALL).items() <= dict(chosen.settings).items()
    assert choice.choose(call_of(LONG), recorded, "12_optimistic").kernel.name == "12_optimistic"
    assert choice.choose(call_of(SHORT), recorded, "11_overlap").kernel.name == "11_overlap"


def test_an_operator_takes_no_kernel_that_may_round_a_rows_largest_weight_unless_it_is_named(recorded):
    chosen = choice.choose(call_of(LONG), recorded)
    assert chosen.kernel.name == "13_short" and dict(chosen.settings)["OPTIMISTIC"] == 0
    spec = KERNELS["13_short"]
    assert spec.may_round(LONG, spec.settings_for(LONG)) and not spec.may_round(SHORT, spec.settings_for(SHORT))
    assert KERNELS["12_optimistic"].may_round(LONG, KERNELS["12_optimistic"].settings_for(LONG))


def test_without_a_case_an_operator_takes_an_exact_build_of_a_kernel_whose_tuned_one_rounds(monkeypatch):
    device = nearest_times.recorded_device()
    monkeypatch.setattr(choice, "_rank", lambda spec, *_: (0.0 if spec.name == "13_short" else 1.0, 0.0))
    monkeypatch.setattr(choices, "fastest", lambda *_: [])
    chosen = choice.choose(call_of(LONG), device)
    assert chosen.kernel.name == "13_short" and dict(chosen.settings)["OPTIMISTIC"] == 0
    named = choice.choose(call_of(LONG), device, "13_short")
    assert dict(named.settings)["OPTIMISTIC"] == 1


def test_a_kernel_with_another_code_has_no_case(recorded, monkeypatch):
    path = tables.path_of(choices.KIND, recorded.name)
    table, where = tables.load(path)
    tables.save(table.assign(code_hash="0" * 16), path, where)
    assert not choices.fastest(SHORT, recorded)


def test_a_case_of_the_table_names_its_rows_as_the_duels_do():
    row = choices._begun(SHORT, "09_wgmma", SMALL)
    assert row["problem"] == meeting.problem_text(SHORT) and row["variant"] == "BLOCK_Q=64 BLOCK_KV=64"
    assert (row["tokens"], row["blocks"], row["head_dim"], row["causal"]) == (512, 512, 64, True)


def test_a_case_shorter_than_the_host_needs_for_a_run_is_decided_by_its_queued_runs():
    rows = [("a", "09_wgmma", 18.0, 6.0), ("a", "13_short", 15.0, 7.0), ("b", "09_wgmma", 40.0, 45.0)]
    rows += [("b", "13_short", 44.0, 41.0)]
    made = pd.DataFrame(rows, columns=["problem", "name", "us", "first_us"]).assign(status="ok")
    assert [*zip(choices.timed(made)["name"], choices.timed(made).us)] == [
        ("09_wgmma", 6.0),
        ("13_short", 7.0),
        ("09_wgmma", 40.0),
        ("13_short", 44.0),
    ]
    assert choices.timed(made).share.tolist() == pytest.approx([1, 6 / 7, 1, 40 / 44])


def test_a_kernel_with_builds_that_round_has_the_times_of_its_exact_builds_in_the_table_of_choices():
    device, spec = nearest_times.recorded_device(), KERNELS["13_short"]
    made = choices.timed(choices.TABLE.recorded()[device.name][0])
    problem = SixteenBitProblem(4096, 128, 2, 32, True, "bfloat16")
    rows = made[(made.problem == meeting.problem_text(problem)) & (made["name"] == "13_short")]
    exact = rows[rows.variant == "OPTIMISTIC=0"].us.iloc[0]
    found = nearest_times.nearest(spec, problem, device)
    assert found.us == pytest.approx(exact) and found.roof == "fp16 tensor cores" and 50 < found.roof_percent < 100
