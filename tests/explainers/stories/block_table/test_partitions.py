import json
import re

import numpy as np
import pytest

from explainers.stories.block_table import kv_heads, partition_blocks, partitions
from kernels.catalog import KERNELS
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.families.paged.problem import PagedProblem
from kernels.kv_cache.scenarios import PRESETS
from kernels.run import execute


def comparison(preset="one_long", item=1, dtype="float32", size=32):
    problem = PagedProblem.of_cache(PRESETS[preset].states(16)[-1][0], dtype=dtype)
    runs = [
        execute.run(Request(KERNELS[name], problem, settings, Scope(item)))
        for name, settings in (("paged_v1", ()), ("paged_v2", (("PARTITION", size),)))
    ]
    return partitions.compare(*runs, "L"), runs


@pytest.mark.parametrize(
    ("preset", "dtype", "size"), [("one_long", "float32", 32), ("churn", "float16", 32), ("two_chats", "float32", 512)]
)
def test_the_partitions_combine_to_what_v1_finds(preset, dtype, size):
    story, runs = comparison(preset, dtype=dtype, size=size)
    length = runs[0].request.problem.context_lens[0]
    table = story.table
    assert table["first"].tolist() == list(range(0, length, size)) and table["end"].iloc[-1] == length
    assert story.v1["m"] == story.v2["m"] == table.m.max()
    assert np.allclose(table.weight, np.exp(table.m - table.m.max()), rtol=1e-6)
    assert story.v2["l"] == pytest.approx((table.l * table.weight).sum(), rel=1e-6) and story.v1["l"] == pytest.approx(
        story.v2["l"], rel=1e-5
    )
    assert story.difference <= (1e-6 if dtype == "float32" else 2e-3)


def test_both_kernels_advance_step_by_step_and_v2_ends_first_on_a_long_context():
    story, runs = comparison()
    for before, after in zip(story.frames, story.frames[1:]):
        for a, b in zip([before["v1"], *before["v2"]], [after["v1"], *after["v2"]]):
            assert b["k"] >= a["k"] and b["v"] >= a["v"]
    last = story.frames[-1]
    assert all(lane["k"] == lane["v"] == lane["end"] for lane in (last["v1"], *last["v2"]))
    done = next(n for n, f in enumerate(story.frames) if f["reduce"] == "done")
    assert done < len(story.frames) - 1 and story.frames[done]["v1"]["phase"] != "done"
    combine = next(f for f in story.frames if f["reduce"] == "combine")
    assert f"adds: l = {story.v2['l']:.4g}." in combine["sentence"]
    assert all(lane["phase"] == "done" for lane in combine["v2"])  # the second kernel waits for every partition


def test_lit_lines_grids_view_and_sentences_are_those_of_both_kernels():
    story, runs = comparison()
    for key, run in zip(("lines_v1", "lines_v2"), runs):
        texts = {name: text.splitlines() for name, text in run.request.kernel.files}
        for file, _, line in (place.partition(":") for f in story.frames for place in f[key]):
            assert "PROBE_" not in texts[file][int(line) - 1].replace("PROBE_PASS", "")
        assert story.frames[0][key]
    table = partition_blocks.grids(*comparison()[1]).set_index("kernel")
    assert table.blocks.to_dict() == {"paged_v1": 16, "paged_v2": 8 * 16, "paged_v2_reduce": 16}
    assert table["with tokens"]["paged_v2"] == 4 * (8 + 1 + 1 + 1)
    meta = partitions.view(story, 233, "L", 1)
    assert json.loads(json.dumps(meta))["parts"] == story.table.to_dict("records") and meta["frames"] == story.frames
    assert partitions.accepts(runs[1].request.kernel) and partitions.accepts_whole(runs[0].request.kernel)
    assert not partitions.accepts(runs[0].request.kernel) and not partitions.accepts_whole(runs[1].request.kernel)
    story, _ = comparison()
    for frame in story.frames:
        one, two = frame["sentences"]
        assert one.startswith("V1: one block, ") and two.startswith("V2") and frame["sentence"] == f"{one} {two}"
    story, (_, cut) = comparison()
    rows = {row[0]: row for row in partitions.parts_blocks(story, cut)[0]["rows"]}
    assert rows["V1"][4:] == ["", ""] and rows["V2 in all"][4] == "" and "NaN" not in rows["V2 in all"]


def test_when_v2_fills_the_gpu():
    table = partition_blocks.fill_table(32, 512, 132).set_index("sequences")
    assert table["V2 fills it from"][1] == 4 * 512 + 1  # 5 partitions x 32 heads = 160 blocks; 4 are only 128
    assert table["V1 fills it"][4] == "no" and table["V1 fills it"][8] == "yes"
    blocks = partition_blocks.blocks_table(32, 512)
    row = blocks[(blocks["context length"] == 4096) & (blocks.batch == 4)].set_index("kernel").blocks
    assert row.to_dict() == {"V1": 128, "V2": 1024}
    chart = str(partition_blocks.blocks_chart(blocks, 132).to_dict())
    assert "132 SMs" in chart and "fontSize" not in chart  # the page's own size, which grows with the window
    said = partition_blocks.fill_sentence(32, 512, 132, "An H200")
    assert "a context of 2,049 tokens on. V1 has enough from 5 sequences on." in said
    _, runs = comparison()
    made = partition_blocks.blocks(*runs, 132, "An H200")
    assert (
        "a context of 2,049 tokens on. V1 has enough from 5 sequences" in made[3]["text"]
        and made[3]["label"] == "modelled"
    )


def test_the_strip_says_m_and_l_when_they_are_known():
    story, runs = comparison()
    made = partitions.stage_of(*runs, "L", None)
    strip = {state.name: list(state.values) for state in made.state}
    combine = next(n for n, f in enumerate(story.frames) if f["reduce"] == "combine")
    assert strip["V2 m"][combine - 1] is None and strip["V2 m"][-1] == f"{story.v2['m']:.4g}"
    assert strip["V2 l"][-1] == f"{story.v2['l']:.4g}" and strip["V1 l"][-1] == f"{story.v1['l']:.4g}"
    softmax = next(n for n, f in enumerate(story.frames) if f["v1"]["state"])
    assert strip["V1 m"][softmax - 1] is None and strip["V1 m"][softmax] == f"{story.v1['m']:.4g}"
    assert [code.lit for code in made.codes] == ["lines_v1", "lines_v2"] and [c.side for c in made.codes] == [0, 1]
    table = made.tabs[0].blocks[0]
    assert len(table["rows"]) == len(story.parts) + 2 and table["rows"][-2][0] == "V2 in all"


# ---- the ratio of heads ----


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
    ((lanes,),) = made.views[0].meta.lines
    titles = [group.title for group in lanes.groups]
    assert titles == ["MHA 4:4 (multi-head)", "GQA 4:2 (grouped)", "MQA 4:1 (multi-query)"]
    assert [group.value for group in lanes.groups] == [f"holds {one.held:,} bytes of K and V" for one in found]
    links = [re.search(r"^(.+): query head (\d+) reads KV head (\d+)$", span.tip) for span in lanes.spans]
    said = {(link[1], int(link[2]), int(link[3])) for link in links if link}
    assert said == {(title, *link) for title, one in zip(titles, found) for link in one.links}
    assert made.views[0].meta.types == {"fp32": 4, "fp16 or bf16": 2, "fp8": 1} and not made.side
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
