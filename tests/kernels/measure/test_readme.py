"""The times in README.md and kernels/results.md: each table follows from the recordings and counts wins and losses."""

import re
from dataclasses import replace

import pytest

from kernels.measure import bench, duels, readme
from kernels.measure.bench_rows import SUSTAINED
from kernels.recordings import tables


def test_the_tables_of_the_files_are_those_of_the_recordings_and_of_the_catalogue():
    """If this fails after a recording or a new kernel: python -m kernels.measure.readme --write."""
    texts = [file.read_text() for file in readme.FILES]
    assert re.findall(r"<!-- (?:times|table): ([\w ]+) -->", "".join(texts)) == list(readme.tables())
    assert [readme.written(text) for text in texts] == texts


def test_the_results_of_the_readme_count_wins_and_losses_by_length(hot):
    """On `hot`, each duel has 0.9 times its rested ratio, so its largest loss is larger than the recorded one."""
    _, met = hot
    lines = readme.tables()["results"].splitlines()
    every = duels.headline(met)
    every = every[duels.as_tuned(every)]
    plain = every.num_kv_heads == every.num_heads
    groups = {
        "Short": every[plain & (every.seq_len <= 1024)],
        "Medium": every[plain & every.seq_len.between(1025, 4096)],
        "Long": every[plain & (every.seq_len > 4096)],
        "Grouped": every[~plain],
    }
    assert sum(map(len, groups.values())) == len(every)
    for line, (group, rows) in zip(lines, groups.items()):
        best = max(rows.groupby("name"), key=lambda pair: pair[1].ratio.mean())
        name, part = best
        assert f"{group}, " in line and f" tokens, sustained: `{name}` is faster than " in line
        wins = re.findall(r"on (\d+) of (\d+) problem", line)
        assert [sum(map(int, column)) for column in zip(*wins)] == [(part.ratio > 1).sum(), len(part)]
        lost = part[part.ratio < 1]
        assert (f"It is slower on {len(lost)}, at worst {part.ratio.min():.2f} times" in line) == bool(len(lost))
        untimed = rows.problem.nunique() - len(part)
        assert (f"No time yet: {untimed} problem" in line) == bool(untimed)
    decoding = lines[5]
    assert lines[4].startswith("- Grouped, backward, ") and "`backward_6_overlap` is faster than" in lines[4]
    assert decoding.startswith("- Rested, decoding") and " problems (" in decoding
    assert " The largest loss of decoding is 0." in decoding and "only by name." in lines[2]


def test_a_table_that_nobody_makes_is_refused():
    with pytest.raises(KeyError, match="warp drive"):
        readme.written("<!-- times: warp drive -->\n<!-- end -->")


@pytest.fixture
def hot(monkeypatch):
    """Recordings in which each kernel of the bench takes 1.2 times as long at work, and each peer of torch 1.1 times.
    Each duel's ratio is 0.9 times the rested one."""
    (device, (made, where)), *_ = bench.recorded().items()
    torchs = made["name"].str.startswith("sdpa_")
    ours = (made.kind == "kernel") | torchs
    factor = torchs.map({True: 1.1, False: 1.2}).where(ours)
    values = (made.median_us * factor, made.p10_us, made.p90_us, factor * 0 + 1500, factor * 0 + 690)
    made = made.assign(**dict(zip(SUSTAINED, values)))
    monkeypatch.setattr(bench, "recorded", lambda: {device: (made, where)})
    met = next(iter(tables.recorded(duels.KIND).values()))[0]
    more = {f"sustained_{name}": met[name] for name in duels.FIGURES} | {"peer_status": "ok"}
    more |= {"sustained_ratio": met.ratio * 0.9, "sustained_clock": 1500, "sustained_power": 690}
    met = met.assign(**more, sustained_peer_clock=1600, sustained_peer_power=640)
    monkeypatch.setattr(duels, "recorded", lambda: (met, replace(where, date="2026-11-25")))
    return made, met


def test_claims_are_sustained_where_both_sides_are(hot):
    made, _ = hot
    said = readme.tables()
    row = made[(made["name"] == "08b_three_bfloat16") & (made.seq_len == 1024) & made.own_settings]
    row = row[(row.num_heads == 8) & (row.head_dim == 64) & (row.batch == 1) & ~row.causal.astype(bool)].iloc[0]
    peer = made[(made.problem == row.problem) & (made["name"] == "sdpa_efficient")].iloc[0]
    ratio = peer.sustained_us / row.sustained_us
    assert f"| {row.sustained_us:.1f} us at 1,500 MHz, 690 W / {peer.sustained_us:.0f} us at" in said["fp32"]
    assert f"| {ratio:.2f} |" in said["fp32"] and said["fp32"].startswith(
        "Sustained, the kernel is faster on 3 of 4 pro"
    )
    assert "and slower on 1: (1) seq_len 1,024, batch 1, 8 heads, head_dim 128 (0.98)." in said["fp32"]
    assert "comparisons are rested only" in said["decode"] and said["decode"].startswith("Rested, ")


def test_a_duel_s_losses_stand_next_to_its_wins(hot):
    _, met = hot
    said = readme.tables()["16 bits"]
    every = duels.strongest(met)
    names = [name for name in duels.names() if name in set(every["name"])]  # a young rung has no duels yet
    assert names == ["11_overlap", "12_optimistic", "13_short"]
    dense = set(map(readme.problem_text, readme.DENSE))
    for name in names:
        part = every[(every["name"] == name) & duels.as_tuned(every)]
        lost = part[part.sustained_ratio < 1]
        assert f"Sustained, `{name}` is faster than" in said
        assert len(lost) and f"It is slower on {len(lost)} of all {len(part)}. The largest losses: " in said
        assert f" ({lost.sustained_ratio.min():.2f}" in said and "1,500 MHz, 690 W / 1,600 MHz, 640 W" in said
        shown = part[part.problem.isin(dense)]
        assert len(shown) == len(dense) or name == "13_short" and len(shown) == 12
        for row in shown.itertuples():
            rivals = every[(every.problem == row.problem) & duels.as_tuned(every)]
            strongest = rivals[rivals.peer == rivals.peer[rivals.sustained_peer_us.idxmin()]]
            fastest = row.Index == strongest.sustained_ratio.idxmax()
            best = (f"| `{name}` |", f"| {row.sustained_ratio:.3f} (", f"| {row.ratio:.3f} |")
            wanted = best if fastest else (f"`{name}` {row.sustained_ratio:.3f}",)
            assert any(all(cell in line for cell in wanted) for line in said.splitlines())


def test_a_claim_names_the_peers_that_were_met_and_counts_their_problems(hot):
    _, met = hot
    some = met[met.peer == "flash_attn_4"].problem.unique()
    every = duels.strongest(met)
    part = every[(every["name"] == "11_overlap") & duels.as_tuned(every)]
    both, fewer = part[part.problem.isin(some)], part[~part.problem.isin(some)]
    assert len(both) and len(fewer)
    said = readme.tables()["16 bits"]
    wins = (both.sustained_ratio > 1).sum(), (fewer.sustained_ratio > 1).sum()
    short = every[(every["name"] == "13_short") & duels.as_tuned(every)]
    assert set(short.met) == {"sdpa_cudnn"} and short.problem.isin(some).any()  # others met FlashAttention 4 there
    assert f"faster than cuDNN and FlashAttention 4 on {wins[0]} of {len(both)} problems" in said
    assert f"faster than cuDNN on {wins[1]} of {len(fewer)} problems" in said
