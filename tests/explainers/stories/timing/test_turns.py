"""The duels that a problem declares: every figure on the page is the recorded table's."""

import pytest

from explainers.models.recorded_times import shown_name
from explainers.stories.timing import duels as told
from kernels import catalog
from kernels.measure import duels, gradient_duels
from kernels.recordings import tables


@pytest.fixture
def found():
    made, where = next(iter(tables.recorded(gradient_duels.KIND).values()))
    return told.sustained(made), where


def test_a_sentence_has_both_ends_of_each_kernels_rates_and_ratios(found):
    own = found[0][duels.as_tuned(found[0])]
    for name, part in own.groupby("name"):
        said = told.said_of(name, part)[0]
        assert f"{part.sustained_tflops.min():,.0f} to {part.sustained_tflops.max():,.0f} TFLOP/s" in said
        for peer, rows in part.groupby("peer"):
            ratio = rows.sustained_ratio
            assert f"{ratio.min():.2f} to {ratio.max():.2f} times as fast as {shown_name(peer)}." in said


def test_the_chart_has_each_kernel_and_peer_once_at_each_size(found):
    own = found[0][duels.as_tuned(found[0])]
    points = told.lines(own)
    assert not points.duplicated(["line", "shape", "seq_len"]).any()
    assert set(points.line) == {*own["name"], *map(shown_name, own.peer)}
    assert points.groupby("shape").seq_len.nunique().min() > 1
    assert told.turns_chart(points).to_dict()["facet"]


def test_every_problem_is_in_the_table_and_each_other_constant_has_its_price(found):
    rows, where = found
    own = rows[duels.as_tuned(rows)]
    assert len(told.turns_table(own)) == len(own.drop_duplicates(["name", "problem"]))
    said = told.prices(rows)
    assert len(said) == len(set(said)) and all(" % longer." in one for one in said)
    assert [block["kind"] for block in told.turns(rows, where)].count("chart") == 1


def test_grouped_heads_have_their_own_row_and_the_only_slower_shape_is_named(found):
    own = found[0][duels.as_tuned(found[0])]
    grouped = own[own.num_kv_heads != own.num_heads]
    assert len(grouped) and told.turns_table(own).heads.str.contains("KV heads").sum() == grouped[
        "problem"
    ].nunique() * len(set(grouped["name"]))
    one = grouped.iloc[0]
    two = own[(own["name"] == one["name"]) & (own.peer == one.peer)].head(2).assign(sustained_ratio=[0.8, 1.1])
    first, said = two.iloc[0], told.said_of(one["name"], two)[0]
    assert f"slower only with {first.seq_len:,} tokens, {told.heads_of(first)}, head_dim {first.head_dim}, " in said
    assert told.heads_of(one) == f"{one.num_heads} heads on {one.num_kv_heads} KV heads"


def test_a_kernels_costs_follow_its_times(found):
    own = found[0][duels.as_tuned(found[0])]
    name = own["name"].iloc[0]
    assert catalog.find(name).costs in told.said_of(name, own[own["name"] == name])[1]
