import pytest

from explainers.stories.block_table import kv_heads
from kernels.catalog import KERNELS
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.families.paged.problem import PagedProblem
from kernels.kv_cache.scenarios import PRESETS
from kernels.run import execute


def reads(preset, kv, dtype="float32"):
    problem = PagedProblem.of_cache(PRESETS[preset].states(16)[-1][0], num_kv_heads=kv, dtype=dtype)
    return kv_heads.reads(
        execute.run(Request(KERNELS["paged_v1"], problem, (), Scope(0, problem.num_seqs * 4)))
    ), problem


@pytest.mark.parametrize("kv", [4, 2, 1])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_each_byte_is_read_once_for_every_query_head_that_shares_it(kv, dtype):
    found, problem = reads("churn", kv, dtype)
    assert (found.k.least, found.k.most) == (found.v.least, found.v.most) == (4 // kv, 4 // kv)
    assert found.links == [(head, head * kv // 4) for head in range(4)]
    size = sum(problem.context_lens) * kv * 64 * (4 if dtype == "float32" else 2)
    assert found.k.held == found.v.held == size and found.k.read == size * 4 // kv


def test_pages_that_sequences_share_are_held_once():
    found, problem = reads("shared_prompt", 2)
    tokens = len({token for row in problem.token_ids for token in row})
    copied = 3 * (44 - 32)  # each answer's copy of the prompt's last page
    assert found.k.held == (32 + copied + tokens - 44) * 2 * 64 * 4


def test_the_stage_has_a_step_for_each_query_head_and_a_named_panel_for_each_ratio():
    found = [reads("two_chats", kv)[0] for kv in (4, 2, 1)]
    made = kv_heads.stage_of(found, None)
    panels = made.views[0].meta["panels"]
    assert [p["title"] for p in panels] == [
        "MHA 4:4 (multi-head)",
        "GQA 4:2 (grouped)",
        "MQA 4:1 (multi-query)",
    ]
    assert [p["links"] for p in panels] == [one.links for one in found]
    assert [p["held"] for p in panels] == [one.held for one in found]
    assert made.views[0].meta["types"] == {"fp32": 4, "fp16 or bf16": 2, "fp8": 1} and not made.side
    assert (
        len(made.frames) == 4
        and "shares it with 1 other (GQA 4:2) and shares it with 3 others (MQA 4:1)." in made.frames[0]["sentence"]
    )
    strip = {state.name: list(state.values) for state in made.state}
    for one in found:
        assert strip[f"{kv_heads.kind(4, one.num_kv_heads)} asked for"][-1] == one.read
    assert "4 times less" in kv_heads.reads_sentence(found)
    assert kv_heads.reads_table(found)["each K byte is read"].tolist() == ["1", "2", "4"]
    assert kv_heads.kind(32, 32).startswith("MHA") and kv_heads.kind(1, 1).startswith("MHA")
    assert (kv_heads.kind(32, 8), kv_heads.kind(32, 1)) == ("GQA 32:8", "MQA 32:1")
    assert kv_heads.DTYPES == {"fp32": 4, "fp16 or bf16": 2, "fp8": 1}
