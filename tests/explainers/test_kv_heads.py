import pytest

from explainers import kv_heads
from kernels.catalog import KERNELS
from kernels.core.request import Request, Scope
from kernels.families.paged.scenarios import PRESETS, problem_at
from kernels.run import execute


def reads(preset, kv, dtype="float32"):
    problem = problem_at(PRESETS[preset].states(16)[-1][0], num_kv_heads=kv, dtype=dtype)
    return kv_heads.reads(
        execute.run(Request(KERNELS["paged_v1"], problem, (), Scope(0, problem.num_seqs * 4)))
    ), problem


@pytest.mark.parametrize("kv", [4, 2, 1])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_each_byte_is_read_once_for_every_query_head_that_shares_it(kv, dtype):
    found, problem = reads("churn", kv, dtype)
    assert found["K_times"] == found["V_times"] == (4 // kv, 4 // kv)
    assert found["links"] == [(head, head * kv // 4) for head in range(4)]
    size = sum(problem.context_lens) * kv * 64 * (4 if dtype == "float32" else 2)
    assert found["K_bytes"] == found["V_bytes"] == size and found["K_read"] == size * 4 // kv


def test_pages_that_sequences_share_are_held_once():
    found, problem = reads("shared_prompt", 2)
    tokens = len({token for row in problem.token_ids for token in row})
    copied = 3 * (44 - 32)  # each answer's copy of the prompt's last page
    assert found["K_bytes"] == (32 + copied + tokens - 44) * 2 * 64 * 4


def test_the_chart_draws_a_line_for_each_query_head():
    found = [reads("two_chats", kv)[0] for kv in (4, 2, 1)]
    for one, chart in zip(found, kv_heads.heads_chart(found)):
        spec = chart.to_dict()
        assert spec["title"]["text"] == kv_heads.kind(4, one["num_kv_heads"])
        assert sorted(map(len, spec["datasets"].values()))[-1] in (4 + one["num_kv_heads"], 4)
    assert "4 times less" in kv_heads.reads_sentence(found)
    assert kv_heads.reads_table(found)["each K byte is read"].tolist() == ["1", "2", "4"]


def test_the_calculator():
    table = kv_heads.calculator(32, 32, 8, 128, 2048, "fp16 or bf16", 1).set_index("heads").bytes
    assert table.to_dict() == {"MHA 32:32": 2**30, "GQA 32:8": 256 * 2**20, "MQA 32:1": 32 * 2**20}
    assert [kv_heads.readable(n) for n in (2**30, 256 * 2**20, 1536, 5, 2**45)] == [
        "1 GiB",
        "256 MiB",
        "1.5 KiB",
        "5 bytes",
        "32 TiB",
    ]
    assert kv_heads.calculator_sentence(32, 8, 128, 2048, "fp16 or bf16", 1).endswith("= 268,435,456 bytes = 256 MiB")
    assert kv_heads.kind(32, 32).startswith("MHA") and kv_heads.kind(1, 1).startswith("MHA")
