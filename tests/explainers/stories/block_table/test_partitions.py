import re

import numpy as np
import pytest

from explainers.stories.block_table import kv_heads, partitions
from explainers.story import glossary, probed
from kernels.catalog import KERNELS
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.families.paged.problem import PagedProblem
from kernels.kv_cache.scenarios import PRESETS
from kernels.run import execute


def runs_of(preset="one_long", item=1, dtype="float32", size=32):
    problem = PagedProblem.of_cache(PRESETS[preset].states(16)[-1][0], dtype=dtype)
    return [
        execute.run(Request(KERNELS[name], problem, settings, Scope(item)))
        for name, settings in (("paged_v1", ()), ("paged_v2", (("PARTITION", size),)))
    ]


@pytest.fixture(scope="module")
def runs():
    return runs_of()


@pytest.mark.parametrize(
    ("preset", "dtype", "size"), [("one_long", "float32", 32), ("churn", "float16", 32), ("two_chats", "float32", 512)]
)
def test_the_partitions_combine_to_what_v1_finds(preset, dtype, size):
    runs = runs_of(preset, dtype=dtype, size=size)
    data, length = partitions.data_of(*runs, "D"), runs[0].request.problem.context_lens[0]
    first, end, m, l, weight = (np.array([p[k] for p in data["parts"]]) for k in ("first", "end", "m", "l", "weight"))
    assert first.tolist() == list(range(0, length, size)) and end.tolist() == [*first[1:], length]
    assert data["v1"]["m"] == data["v2"]["m"] == m.max()
    assert np.allclose(weight, np.exp(m - m.max()), rtol=1e-6)
    assert data["v2"]["l"] == pytest.approx((l * weight).sum(), rel=1e-6)
    assert data["v1"]["l"] == pytest.approx(data["v2"]["l"], rel=1e-5)
    assert data["difference"] <= (1e-6 if dtype == "float32" else 2e-3)


def test_both_kernels_advance_step_by_step_and_v2_ends_first_on_a_long_context(runs):
    data = partitions.data_of(*runs, "D")
    steps = partitions.steps_of(data)
    for before, after in zip(steps, steps[1:]):
        assert after["k"] >= before["k"] and after["v"] >= before["v"]
    assert steps[-1]["k"] == steps[-1]["v"] == 233
    done = next(n for n, row in enumerate(steps) if row["reduce"] == "done")
    assert done < len(steps) - 1 and steps[done]["phase"] != "done"
    (combine,) = (row for row in steps if row["reduce"] == "combine")
    assert set(combine["phases"]) == {"done"}  # the second kernel waits for every partition


def test_the_picture_has_each_token_once_in_k_and_in_v_and_m_l_and_weight_of_each_partition(runs):
    data = partitions.data_of(*runs, "D", 132)
    ((lanes,), (sms,)) = partitions.picture(data, steps := partitions.steps_of(data)).meta.lines
    for part in ("V1 K", "V1 V", "V2 K", "V2 V"):
        own = sorted((s.start, s.end) for s in lanes.spans if s.datum["part"] == part)
        assert [own[0][0], *(end for _, end in own)] == [*(start for start, _ in own), 233], part
    for span in (span for span in lanes.spans if span.datum["part"] == "V1 K"):
        assert steps[span.since]["k"] == span.end and f"read in step {span.since + 1}" in span.tip
    for name, key in (("V2 m and l", "m"), ("V2 m and l", "l"), ("weight", "weight")):
        own = [span for span in lanes.spans if span.datum["part"] == name]
        assert [span.start for span in own] == [part["first"] for part in data["parts"]]
        for span, part in zip(own, data["parts"]):
            assert glossary.short(part[key], 9) in span.tip and any(f"{part[key]:.3g}" in text for text in span.texts)
            assert not any(f"{part[key]:.3g}" in text for text in span.early)  # nothing is known before its step
    for row, state in zip(steps, sms.states):
        assert (state[:132].count("1"), len(state)) == (row["phase"] != "done", 264)
        second = row["reduce"] in ("combine", "write")
        assert state[132:].count("1") == (second or sum(phase != "done" for phase in row["phases"]))


def test_lit_lines_grids_and_sentences_are_those_of_both_kernels(runs):
    made = partitions.stage_of(*runs, "D", None)
    for key, run in zip(("v1_lines", "v2_lines"), runs):
        texts = {name: text.splitlines() for name, text in run.request.kernel.files}
        for file, _, line in (place.partition(":") for f in made.frames for place in f[key]):
            assert "PROBE_" not in texts[file][int(line) - 1].replace("PROBE_PASS", "")
        assert made.frames[0][key]
    table = partitions.grids(*runs).set_index("kernel")
    assert table.blocks.to_dict() == {"paged_v1": 16, "paged_v2": 8 * 16, "paged_v2_reduce": 16}
    assert table["with tokens"]["paged_v2"] == 4 * (8 + 1 + 1 + 1)
    assert list(probed.accepting(partitions)) == ["paged_v2"] and partitions.accepts_whole(runs[0].request.kernel)
    assert not partitions.accepts_whole(runs[1].request.kernel)
    l = partitions.data_of(*runs, "D")["v2"]["l"]
    assert sum(f"adds: l = {l:.4g}." in frame["sentence"] for frame in made.frames) == 1
    for frame in made.frames:
        one, two = frame["sentences"]
        assert one.startswith("V1: one block, ") and two.startswith("V2") and frame["sentence"] == f"{one} {two}"
    rows = {row[0]: row for row in made.tabs[0].blocks[0]["rows"]}
    assert rows["V1"][4:] == ["", ""] and rows["V2 in all"][4] == "" and len(rows) == 8 + 2


def test_when_v2_fills_the_gpu(runs):
    table = partitions.fill_table(32, 512, 132).set_index("sequences")
    assert table["V2 fills it from"][1] == 4 * 512 + 1  # 5 partitions x 32 heads = 160 blocks; 4 are only 128
    assert table["V1 fills it"][4] == "no" and table["V1 fills it"][8] == "yes"
    blocks = partitions.blocks_table(32, 512)
    row = blocks[(blocks["context length"] == 4096) & (blocks.batch == 4)].set_index("kernel").blocks
    assert row.to_dict() == {"V1": 128, "V2": 1024}
    chart = str(partitions.blocks_chart(blocks, 132).to_dict())
    assert "132 SMs" in chart and "fontSize" not in chart  # the page's own size, which grows with the window
    made = partitions.enough_blocks(*runs, 132, "An H200")
    assert (
        "a context of 2,049 tokens on. V1 has enough from 5 sequences" in made[3]["text"]
        and made[3]["label"] == "modelled"
    )


def test_the_strip_says_m_and_l_when_they_are_known(runs):
    made, data = partitions.stage_of(*runs, "D", None), partitions.data_of(*runs, "D")
    strip, steps = {state.name: list(state.values) for state in made.state}, partitions.steps_of(data)
    combine = next(n for n, row in enumerate(steps) if row["reduce"] == "combine")
    softmax = next(n for n, row in enumerate(steps) if row["phase"] == "softmax")
    for since, side in ((softmax, "v1"), (combine, "v2")):
        for key in ("m", "l"):
            course, value = strip[f"{side.upper()} {key}"], f"{data[side][key]:.4g}"
            assert course == [None] * since + [value] * (len(steps) - since)
    assert [(code.lit, code.side) for code in made.codes] == [("v1_lines", 0), ("v2_lines", 1)]


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
    assert [(found[c]["least"], found[c]["most"]) for c in "kv"] == [(4 // kv, 4 // kv)] * 2
    assert found["links"] == [(head, head * kv // 4) for head in range(4)]
    size = sum(problem.context_lens) * kv * 64 * (4 if dtype == "float32" else 2)
    assert found["k"]["held"] == found["v"]["held"] == size and found["k"]["read"] == size * 4 // kv


def test_pages_that_sequences_share_are_held_once():
    found, problem = reads("shared_prompt", 2)
    tokens = len({token for row in problem.token_ids for token in row})
    copied = 3 * (44 - 32)  # each answer's copy of the prompt's last page
    assert found["k"]["held"] == (32 + copied + tokens - 44) * 2 * 64 * 4


def test_the_stage_has_a_step_for_each_query_head_and_a_named_panel_for_each_ratio():
    found = [reads("two_chats", kv)[0] for kv in (4, 2, 1)]
    made = kv_heads.stage_of(found, None)
    ((lanes,),) = made.views[0].meta.lines
    titles = [group.title for group in lanes.groups]
    assert titles == ["MHA 4:4 (multi-head)", "GQA 4:2 (grouped)", "MQA 4:1 (multi-query)"]
    assert [group.value for group in lanes.groups] == [f"holds {one['held']:,} bytes of K and V" for one in found]
    links = [re.search(r"^(.+): query head (\d+) reads KV head (\d+)$", span.tip) for span in lanes.spans]
    said = {(link[1], int(link[2]), int(link[3])) for link in links if link}
    assert said == {(title, *link) for title, one in zip(titles, found) for link in one["links"]}
    assert not made.side
    assert (
        len(made.frames) == 4
        and "shares it with 1 other (GQA 4:2) and shares it with 3 others (MQA 4:1)." in made.frames[0]["sentence"]
    )
    strip = {state.name: list(state.values) for state in made.state}
    for one in found:
        assert strip[f"{kv_heads.kind(4, one['num_kv_heads'])} asked for"][-1] == one["read"]
    assert "4 times less" in made.tabs[0].blocks[0]["text"]
    assert kv_heads.reads_table(found)["each K byte is read"].tolist() == ["1", "2", "4"]
    assert kv_heads.kind(32, 32).startswith("MHA") and kv_heads.kind(1, 1).startswith("MHA")
    assert (kv_heads.kind(32, 8), kv_heads.kind(32, 1)) == ("GQA 32:8", "MQA 32:1")
