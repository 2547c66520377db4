"""Duels on the page: every sentence, row and point is the recorded table's."""

import re

import pytest

from explainers.stories.timing import duels as told
from kernels import catalog
from kernels.measure import choices, duels, gradient_duels
from kernels.measure.bench_rows import pairs_of
from kernels.recordings import tables


@pytest.fixture(params=[duels.KIND, gradient_duels.KIND], scope="module")
def made(request):
    """The recorded table, whatever the code of its rows."""
    return next(iter(tables.recorded(request.param).values()))


@pytest.fixture(scope="module")
def rows(made):
    return told.at_work(made[0])


def test_sentences_count_what_is_faster_and_name_both_ends_losses_and_each_peers_range(rows):
    for name, part in rows[rows.changed == ""].groupby("name"):
        *said, costs = told.sentences(name, part)
        said = " ".join(said)
        assert costs == f"Its costs: {catalog.find(name).costs}"
        assert f"runs at {part.tflops.min():,.0f} to {part.tflops.max():,.0f} TFLOP/s" in said
        fastest = part.sort_values("peer_us", kind="stable").drop_duplicates("problem")
        wins = re.findall(r"faster than (.+?) in (\d+) of (\d+) problem", said)
        assert [sum(int(n) for n in column) for column in list(zip(*wins))[1:]] == [
            (fastest.ratio > 1).sum(),
            len(fastest),
        ]
        ends = [fastest.loc[fastest.ratio.idxmin()], fastest.loc[fastest.ratio.idxmax()]]
        assert all(f"({told.problem_said(end)})" in said for end in ends)
        assert [float(n) for n in re.findall(r"from ([\d.]+) times as fast .*? to ([\d.]+) times \(", said)[0]] == [
            round(end.ratio, 2) for end in ends
        ]
        lost = fastest[fastest.ratio < 1].sort_values("ratio")
        assert (f"It is slower in {len(lost)} problem" in said) == bool(len(lost))
        for _, row in lost.head(4).iterrows():
            assert f"{row.ratio:.2f} at {told.problem_said(row)}" in said
        for peer, met in part.groupby("peer"):
            ends = f"{met.ratio.min():.2f} to {met.ratio.max():.2f} times as fast as {told.peer_name(peer)}."
            assert (ends in said) == (part.peer.nunique() > 1)  # else the ends above are these


def test_the_table_has_every_row_and_the_chart_each_line_once_at_each_size(made, rows):
    table = told.table(rows)
    assert len(table) == len(rows) == len(duels.timed(made[0]).query("peer_status == 'ok'"))
    for row, (_, due) in zip(table.to_dict("records"), rows.iterrows()):
        assert row["ratio"] == f"{due.ratio:.3f} ({due.ratio_low:.3f} to {due.ratio_high:.3f})"
        assert row["tokens"] == due.seq_len and row["peer"] == told.peer_name(due.peer)
        assert float(row["RMS error"]) == pytest.approx(due.rms_error / due.peer_rms_error, abs=5e-4)
        assert row["MHz"] == f"{due.sustained_clock:,.0f} / {due.sustained_peer_clock:,.0f}"
        assert (row["constants"] == "") == duels.as_tuned(rows.loc[[due.name]]).iloc[0]
    points = told.lines(rows[rows.changed == ""])
    assert (
        not points.duplicated(["line", "shape", "seq_len"]).any()
        and points.groupby("shape").seq_len.nunique().max() > 1
    )
    assert {*points.line} <= {*rows["name"], *map(told.peer_name, rows.peer)} and len({*points.line}) >= 4
    assert told.chart(points).to_dict()["facet"]


def test_each_other_constant_has_its_price(rows):
    said = told.prices(rows)
    others = rows[(rows.changed != "") & rows.strongest]
    assert len(said) == len({*said}) == len(others.drop_duplicates(["name", "changed"])) > 0
    for (name, changed), part in others.groupby(["name", "changed"]):
        (text,) = [one for one in said if one.startswith(f"{name} with {changed} takes ")]
        assert f"RMS error is {part.rms.max():.2f} " in text and f"lowest speed {part.ratio.min():.2f} " in text


def test_sustained_times_are_the_claim_with_clock_and_power(made):
    ran = told.at_work(made[0])
    assert (ran.ratio == ran.sustained_ratio).all() and (ran.us == ran.sustained_us).all()
    assert f"{ran.sustained_clock.median():,.0f} MHz and {ran.sustained_power.median():.0f} W" in told.state(ran)
    rested = told.at_work(made[0].assign(sustained_ratio=None))
    assert (
        told.state(rested) == "Times are rested: turns of 50 ms."
        and (rested.ratio == made[0].ratio[rested.index]).all()
    )


def test_what_misses_the_rule_is_named_with_its_reason():
    made, where = next(iter(tables.recorded(duels.KIND).values()))
    reason = "A wrong kernel gets no time. It misses."
    three = made.head(3).assign(status=["wrong", "ok", "ok"], peer_status=["ok", "less accurate", "ok"], reason=reason)
    mine, other = told.without_time(three)
    assert mine == f"{three['name'].iloc[0]} gets no time on 1 row. {reason}"
    assert other == f"{told.peer_name(three.peer.iloc[1])} is less accurate on 1 problem. {reason}"
    assert list(told.at_work(three).index) == [2]
    blocks = told.blocks(made, where, ["FlashAttention 3 has no row here."])
    assert "FlashAttention 3 has no row here." in [block.get("text") for block in blocks]
    assert [block["kind"] for block in blocks[-2:]] == ["chart", "table"]


def test_only_rows_of_present_code_are_shown(monkeypatch):
    made, where = next(iter(tables.recorded(duels.KIND).values()))
    monkeypatch.setattr(tables, "recorded", lambda kind: {"X": (made.assign(code_hash="other"), where)})
    assert duels.recorded() is None


def test_the_map_has_the_fastest_kernel_of_every_problem_its_lead_and_the_operators_choice():
    made, where = choices.TABLE.newest()
    rows = told.winners(made)
    assert len(rows) == made.problem.nunique()
    problems = {(p.dtype, p.head_dim, p.causal, p.seq_len, choices.blocks_of(p)): p for p in choices.problems()}
    for row in rows.to_dict("records"):
        key = row["type"], row["head_dim"], row["mask"] == "causal", row["tokens"], row["query tiles"]
        part = choices.timed(made[made.problem == choices.problem_text(problems[key])])
        others = part[part["name"] != row["kernel"]]
        assert part.us.min() == row["us"] and (part.us[part["name"] == row["kernel"]].min() == row["us"])
        lead = f"{100 * (others.us.min() / row['us'] - 1):.1f} %" if len(others) else "more than 15 %"
        assert row["lead"] == lead and (row["next kernel"] == "") == others.empty
        taken, *constants = row["operators take"].split()
        pairs = pairs_of(" ".join(constants))
        assert not choices.may_round(catalog.find(taken), problems[key], pairs)
        assert ("*" in row["text"]) == (row["operators take"] != f"{row['kernel']} {row['constants']}".strip())
    heading, said, chart, table = told.choice_blocks(made, where)
    assert said["label"] == "recorded" and f"{where.device}, {where.dates}" in chart["caption"]
    assert [int(n) for n in re.findall(r"\((\d+)\)", said["text"])] == rows.kernel.value_counts().tolist()
    assert len(table["rows"]) == len(rows) and chart["spec"]["facet"]
