"""Duels on the page: every sentence, row and point is the recorded table's."""

import re

import pytest

from explainers import duels as told
from kernels.timing import duels, tables


@pytest.fixture
def found():
    made, where = next(iter(tables.recorded(duels.KIND).values()))  # whatever the code of its rows
    ran = made[made.status == "ok"]
    return ran[duels.as_tuned(ran)], where


@pytest.fixture
def every():
    made, _ = next(iter(tables.recorded(duels.KIND).values()))
    return made[made.status == "ok"]


def test_sentences_count_what_is_faster_and_name_both_ends(found):
    for name, part in found[0].groupby("name"):
        said = told.sentence(name, part)
        numbers = [float(n) for n in re.findall(r"from ([\d.]+) times as fast .*? to ([\d.]+) times \(", said)[0]]
        assert said.startswith(f"{name} is faster than cuDNN in {(part.ratio > 1).sum()} of {len(part)} problems")
        assert numbers == [round(part.ratio.min(), 2), round(part.ratio.max(), 2)]
        ends = [part.loc[part.ratio.idxmin()], part.loc[part.ratio.idxmax()]]
        assert all(f"({end.seq_len:,} tokens, head_dim {end.head_dim}, {end['dtype']}" in said for end in ends)


def test_the_table_and_the_chart_have_every_row(found):
    made, where = found
    table = told.table(made)
    assert len(table) == len(made)
    for row, (_, due) in zip(table.itertuples(index=False), made.iterrows()):
        assert float(row.ratio.split(" ")[0]) == round(due.ratio, 3) and row.tokens == due.seq_len
        assert float(row[-1]) == pytest.approx(due.rms_error / due.peer_rms_error, abs=5e-4)
    data = told.chart(made).to_dict()["datasets"].values()
    points = max(data, key=len)
    plain = made[(made["dtype"] == "float16") & (made.scores == "random") & (made.score_scale == 1)]
    plain = plain[plain.num_heads == plain.num_kv_heads]
    assert sorted(p["ratio"] for p in points) == sorted(plain.ratio) and len(points) > 10
    kinds = [block["kind"] for block in told.blocks(made, where)]
    assert kinds == ["heading", *["text"] * made["name"].nunique(), "chart", "table"]


def test_what_accuracy_costs_is_the_worst_of_each_value(every):
    made = every[every["name"] == "12_optimistic"]
    heading, text, table = told.price("12_optimistic", made)
    threshold = made.settings.str.extract(rf"{duels.PRICED}=(\d+)", expand=False).astype(int)
    kinds = made[made.problem.isin(made[~duels.as_tuned(made)].problem)]
    assert kinds.problem.nunique() == 5 and heading["text"] == "What accuracy costs 12_optimistic"
    for value, part in kinds.groupby(threshold):
        worst, slowest = (part.rms_error / part.peer_rms_error).max(), part.ratio.min()
        assert f"{value:,}: error {worst:.2f}, speed {slowest:.2f}" in text["text"]
    assert len(table["rows"]) == len(kinds)
    assert told.price("11_overlap", every[every["name"] == "11_overlap"]) == []


def test_only_rows_of_present_code_are_shown(found, monkeypatch):
    made, where = found
    monkeypatch.setattr(tables, "recorded", lambda kind: {"X": (made.assign(code_hash="other"), where)})
    assert duels.recorded() is None
