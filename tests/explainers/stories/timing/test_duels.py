"""Duels on the page: every sentence, row and point is the recorded table's."""

import re

import pytest

from explainers.models import recorded_times
from explainers.stories.timing import duels as told
from explainers.stories.timing import wording
from kernels import catalog
from kernels.measure import duels, gradient_duels, peers
from kernels.recordings import tables


@pytest.fixture
def found():
    made, where = next(iter(tables.recorded(duels.KIND).values()))  # whatever the code of its rows
    ran = duels.headline(made)
    return ran[duels.as_tuned(ran)], where


@pytest.fixture
def every():
    made, _ = next(iter(tables.recorded(duels.KIND).values()))
    return duels.headline(made)


def test_sentences_count_what_is_faster_and_name_both_ends(found):
    for name, part in found[0].groupby("name"):
        said = told.sentence(name, part)
        numbers = [float(n) for n in re.findall(r"from ([\d.]+) times as fast .*? to ([\d.]+) times \(", said)[0]]
        for met, few in part.groupby("met"):
            rivals = " and ".join(peers.TITLES[peer] for peer in met.split())
            assert f"faster than {rivals} in {(few.ratio > 1).sum()} of {len(few)} problems" in said
        assert said.startswith(f"{name} is faster than cuDNN and FlashAttention 4 in ")
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
    absent = len(wording.not_timed(made.peer))
    assert kinds == ["heading", "text", *["text"] * (made["name"].nunique() + absent), "chart", "table"]
    assert told.blocks(made, where)[1]["text"] == told.state(duels.headline(made))


def test_the_price_of_each_constant_is_the_worst_of_each_value(every, monkeypatch):
    made = every[every["name"] == "12_optimistic"]
    first = made[made.problem == made.problem[made.duplicated("problem")].iloc[0]].settings.str.split(expand=True)
    varied = [column.iloc[0].split("=")[0] for _, column in first.items() if column.nunique() > 1]
    monkeypatch.setattr(duels, "PRICED", tuple(varied))  # the hashes of the recorded code
    blocks = told.price("12_optimistic", made)
    kinds = made[made.problem.isin(made[made.duplicated("problem")].problem)]
    assert kinds.problem.nunique() >= 5 and len(blocks) % 3 == 0 and blocks
    for heading, text, table in zip(blocks[::3], blocks[1::3], blocks[2::3]):
        constant = heading["text"].split()[3]
        value = kinds.settings.str.extract(rf"\b{constant}=(\d+)", expand=False).astype(int)
        others = [c for c in duels.PRICED if c != constant and kinds.settings.str.contains(rf"\b{c}=").any()]
        for c in others:
            setting = kinds.settings.str.extract(rf"\b{c}=(\d+)", expand=False)
            value = value[setting == setting.mode()[0]]
        for v, part in kinds.loc[value.index].groupby(value):
            worst, slowest = (part.rms_error / part.peer_rms_error).max(), part.ratio.min()
            assert f"{v:,}: error {worst:.2f}, speed {slowest:.2f}" in text["text"]
        assert len(table["rows"]) == len(value) and heading["text"] == f"The cost of {constant} in 12_optimistic"
    assert told.price("11_overlap", every[every["name"] == "11_overlap"]) == []


def hot(made, factor):
    """A table with sustained columns, in which each ratio is `factor` times the rested one."""
    more = {"sustained_ratio": made.ratio * factor, "sustained_us": made.us, "sustained_peer_us": made.peer_us * factor}
    more |= {"sustained_ratio_low": made.ratio_low * factor, "sustained_ratio_high": made.ratio_high * factor}
    more |= {"sustained_tflops": made.tflops, "sustained_peer_tflops": made.peer_tflops / factor}
    more |= {"sustained_clock": 1500, "sustained_peer_clock": 1600, "sustained_power": 690, "sustained_peer_power": 640}
    return made.assign(**more, peer_status="ok")


def test_sustained_times_are_the_claim_with_clock_and_power_and_losses_are_named():
    made, where = next(iter(tables.recorded(duels.KIND).values()))
    made = hot(made, 0.9)
    ran = duels.headline(made)
    assert (ran.ratio == ran.sustained_ratio).all() and "1,500 MHz and 690 W" in told.state(ran)
    part = ran[ran["name"] == "12_optimistic"]
    said = told.sentence("12_optimistic", part)
    lost = part[part.ratio < 1].sort_values("ratio")
    assert len(lost) and f"It is slower in {len(lost)} problem" in said and f"{lost.ratio.iloc[0]:.2f} at " in said
    rows = told.table(part)
    assert set(rows.MHz) == {"1,500 / 1,600"} and set(rows.W) == {"690 / 640"}
    mixed = told.table(part.assign(peer=["flash_attn_4", *part.peer[1:]]))
    assert list(mixed.peer)[:2] == ["FlashAttention 4", "cuDNN"] and "the fastest accurate peer" in mixed
    assert told.blocks(made.assign(code_hash=""), where)[0]["text"] == "In turns with the fastest accurate peer"


def test_what_misses_the_rule_is_named_with_its_reason():
    made, _ = next(iter(tables.recorded(duels.KIND).values()))
    made = hot(made.head(3), 1.0)
    reason = "A wrong kernel gets no time. It misses."
    made = made.assign(status=["wrong", "ok", "ok"], peer_status=["ok", "less accurate", "ok"], reason=reason)
    mine, other = told.without_time(made)
    assert mine == f"{made['name'].iloc[0]} gets no time on 1 row. {reason}"
    assert other == f"cuDNN is less accurate on 1 problem. {reason}"
    assert list(duels.headline(made).index) == [2]


def test_only_rows_of_present_code_are_shown(found, monkeypatch):
    made, where = found
    monkeypatch.setattr(tables, "recorded", lambda kind: {"X": (made.assign(code_hash="other"), where)})
    assert duels.recorded() is None


def test_a_flash_attention_that_is_in_no_row_is_named_with_the_reason(found):
    made, where = found
    said = [block.get("text", "") for block in told.blocks(made.assign(peer="sdpa_cudnn"), where)]
    for name, why in wording.WORDS.table("not_timed").items():
        assert f"{recorded_times.shown_name(name)} has no row here: {why}." in said
    said = [block.get("text", "") for block in told.blocks(made.assign(peer="flash_attn_4"), where)]
    assert not any(text.startswith("FlashAttention 4 has no row") for text in said)


# ---- declared duels: every figure on the page is that of the recorded table ----


@pytest.fixture
def declared():
    made, where = next(iter(tables.recorded(gradient_duels.KIND).values()))
    return told.sustained(made), where


def test_a_sentence_has_both_ends_of_each_kernels_rates_and_ratios(declared):
    own = declared[0][duels.as_tuned(declared[0])]
    for name, part in own.groupby("name"):
        said = told.said_of(name, part)[0]
        assert f"{part.sustained_tflops.min():,.0f} to {part.sustained_tflops.max():,.0f} TFLOP/s" in said
        for peer, rows in part.groupby("peer"):
            ratio = rows.sustained_ratio
            assert f"{ratio.min():.2f} to {ratio.max():.2f} times as fast as {recorded_times.shown_name(peer)}." in said


def test_the_chart_has_each_kernel_and_peer_once_at_each_size(declared):
    own = declared[0][duels.as_tuned(declared[0])]
    points = told.lines(own)
    assert not points.duplicated(["line", "shape", "seq_len"]).any()
    assert set(points.line) == {*own["name"], *map(recorded_times.shown_name, own.peer)}
    assert points.groupby("shape").seq_len.nunique().min() > 1
    assert told.turns_chart(points).to_dict()["facet"]


def test_every_problem_is_in_the_table_and_each_other_constant_has_its_price(declared):
    rows, where = declared
    own = rows[duels.as_tuned(rows)]
    assert len(told.turns_table(own)) == len(own.drop_duplicates(["name", "problem"]))
    said = told.prices(rows)
    assert len(said) == len(set(said)) and all(" % longer." in one for one in said)
    assert [block["kind"] for block in told.turns(rows, where)].count("chart") == 1


def test_grouped_heads_have_their_own_row_and_the_only_slower_shape_is_named(declared):
    own = declared[0][duels.as_tuned(declared[0])]
    grouped = own[own.num_kv_heads != own.num_heads]
    assert len(grouped) and told.turns_table(own).heads.str.contains("KV heads").sum() == grouped[
        "problem"
    ].nunique() * len(set(grouped["name"]))
    one = grouped.iloc[0]
    two = own[(own["name"] == one["name"]) & (own.peer == one.peer)].head(2).assign(sustained_ratio=[0.8, 1.1])
    first, said = two.iloc[0], told.said_of(one["name"], two)[0]
    assert f"slower only with {first.seq_len:,} tokens, {told.heads_of(first)}, head_dim {first.head_dim}, " in said
    assert told.heads_of(one) == f"{one.num_heads} heads on {one.num_kv_heads} KV heads"


def test_a_kernels_costs_follow_its_times(declared):
    own = declared[0][duels.as_tuned(declared[0])]
    name = own["name"].iloc[0]
    assert catalog.find(name).costs in told.said_of(name, own[own["name"] == name])[1]
