"""The text of a model over a served cache: each step names its characters, and the tab shows what was reused."""

from explainers.stories.block_table import generated_text, serving
from explainers.stories.block_table.subjects import Serving
from kernels.kv_cache.scenarios import SERVED

SCENARIO = SERVED["generation"]


def made(backend):
    result = serving.stage_of(SCENARIO, 16, None)
    return generated_text.added(result, Serving(SCENARIO, 16, None, backend))


def test_each_step_names_its_characters_and_both_backends_have_the_same():
    ran, without = made("cpu"), made("recorded")
    said = [frame["sentence"] for frame in ran.frames]
    assert said == [frame["sentence"] for frame in without.frames]
    chosen = "".join(s.split('" for A')[0][-1] for s in said if '" for A' in s)
    (tab,) = (tab for tab in ran.tabs if tab.id == "text")
    about, table, checked = tab.blocks
    assert "random weights, so its text is noise" in about["text"]
    assert [row[0] for row in table["rows"]] == ["A", "B", "C"] and table["rows"][0][2] == chosen
    assert [row[3:] for row in table["rows"]] == [[53, 38, 15], [48, 38, 10], [47, 38, 9]]
    assert "generates the same text" in checked["text"] and checked["label"] == "executed"
    assert ran.summary.endswith("A, B and C reuse 114 tokens of their 148 prompt tokens.")
    (tab,) = (tab for tab in without.tabs if tab.id == "text")
    assert tab.blocks[-1]["text"].startswith("No kernel can run here")
