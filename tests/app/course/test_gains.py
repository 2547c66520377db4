"""The gains of the stops: each number is computed anew from the recorded tables, and no number is typed by hand."""

import json
import re
from dataclasses import replace

import pytest
from pages import open_page

from app.course import Gain, StopError, gains, stops
from app.course.gains import amount
from explainers.stories.block_table import serving
from kernels.build import occupancy
from kernels.catalog import current
from kernels.kv_cache.scenarios import SERVED
from kernels.recordings import tables

STOPS = {stop.name: stop for stop in stops()}
FEW_DIGITS = re.compile(r"\d[\d,.]*")
# names with digits
NAMES = ("16-bit", "FlashAttention-4", "FlashAttention-3", "V1", "V2", "L1", "L2", "fp32", "float32")


def rows(of, /, **wanted):
    """The rows with these values in their columns, problem and constants: of the H200's table, or of the newest one."""
    of_kind = tables.recorded(of)
    table, where = of_kind.get(gains.GPU) or next(iter(of_kind.values()))
    found = []
    for row in table.to_dict("records"):
        problem = json.loads(row["problem"]) if isinstance(row.get("problem"), str) else {}
        constants = dict(pair.split("=") for pair in str(row.get("settings", "")).split() if "=" in pair)
        values = {**problem, **row, **constants}
        if all(values.get(name) == value for name, value in wanted.items()) and row.get("status", "ok") in tables.TIMED:
            found.append(row)
    assert found, wanted
    return found, where


def time(name, own=True, **wanted):
    found, _ = rows("bench", name=name, causal=False, **wanted)
    return next(row["median_us"] for row in found if row["own_settings"] or not own)


@pytest.mark.parametrize("stop", [stop for stop in STOPS.values() if stop.questions], ids=lambda stop: stop.name)
def test_a_stop_says_what_it_wins_with_computed_numbers(stop):
    told = gains.told(stop, current())
    assert stop.wins and told.wins.endswith(".") and "{" not in told.wins + told.small
    assert bool(told.source) == bool(stop.gain)
    typed = re.sub(r"\{[^}]*\}|" + "|".join(NAMES), "", stop.wins + stop.small)
    assert not FEW_DIGITS.search(typed), f"{stop.name}: type no number, but a placeholder: {typed}"
    for sentence in re.split(r"(?<=[.:]) ", f"{told.wins} {told.small}".strip()):
        assert len(sentence.split()) <= 25 and len(FEW_DIGITS.findall(sentence)) <= 4, sentence


@pytest.mark.parametrize("stop", STOPS.values(), ids=lambda stop: stop.name)
def test_each_gain_of_a_stop_is_used(stop):
    for gain in stop.gain:
        assert f"{{{gain.name}." in stop.wins + stop.small, gain.name


def test_the_race_has_the_recorded_times_of_torch_without_and_with_fusion():
    fields = {"seq_len": 8192, "batch": 4, "num_heads": 16, "head_dim": 128, "dtype": "float16"}
    ratio = time("unfused", **fields) / time("sdpa_flash", **fields)
    assert f"{ratio:.3g} times faster" in gains.told(STOPS["as_written"], current()).wins


def test_the_gain_of_flash_is_the_recorded_one_and_padding_explains_it():
    large = {"seq_len": 4096, "batch": 4, "num_heads": 16}  # of the ladder
    told = gains.told(STOPS["one_pass"], current())
    assert f"{time('01_naive', **large) / time('03_flash', **large):.3g} times faster" in told.wins
    small = {"seq_len": 4096, "batch": 1, "BLOCK_Q": "16", "BLOCK_KV": "16", "own": False}
    padded = time("03_flash", PAD_K="0", **small) / time("03_flash", PAD_K="4", **small)
    assert f"make it another {padded:.3g} times faster" in told.wins and padded > 3
    assert f"{padded:.3g} times faster" in gains.told(STOPS["banks"], current()).wins


def test_the_warps_of_the_builds_of_occupancy_are_the_derived_ones():
    stop, kernel = STOPS["occupancy"], current().kernels["03_flash"]
    time, enough, warps, fewer = stop.gain
    problem = kernel.problem_type(seq_len=4096, batch=1, num_heads=8, head_dim=64)
    blocks = (warps.problem, warps.before_problem, fewer.problem)
    for settings, block in zip((time.settings, time.before_settings, enough.settings), blocks):
        (found,) = occupancy.occupancy(kernel, problem, settings)
        assert block == {"threads": found.threads, "registers": found.registers, "shared_bytes": found.shared_bytes}
    told = gains.told(stop, current())
    assert "48 warps" in told.wins and "20 warps" in told.wins and "32 warps" in told.small


def test_the_steps_of_serving_are_those_of_its_page():
    told = gains.told(STOPS["serving"], current())
    made = serving.stage_of(SERVED["one_prompt"], 16, None)
    assert made.summary == "With pages, all answers end by step 26. With reserved slots they need 49 steps."
    assert "26 steps" in told.wins and "49 steps" in told.wins


def test_other_kinds_are_the_recorded_ones():
    (before,), _ = rows("cycles", stride=32, WIDTH=4, PAD=0, SWIZZLE=0, MATRICES=0)
    assert f"takes {before['cycles']:.3g} cycles" in gains.told(STOPS["banks"], current()).wins
    *_, far = open_page("memory_hierarchy?stop=levels&source=NVIDIA H200").stage.views[0]["meta"]["levels"]
    assert f"waits {far['wait']} for device memory" in gains.told(STOPS["levels"], current()).wins
    duels, _ = rows("duels", name="12_optimistic", peer="flash_attn_4", seq_len=4096, head_dim=128, SHARE="2")
    pairs = [(row["sustained_peer_us"], row["sustained_us"]) for row in duels]
    dense = [row for row in rows("duels", name="12_optimistic", peer="sdpa_cudnn", seq_len=16384, num_heads=16)[0]]
    assert any(
        f"takes {amount(row['us'], 'us')} for the same" in gains.told(STOPS["masks"], current()).wins for row in dense
    )
    found = [f"takes {peer / ours:.3g} times as long" for peer, ours in pairs if ours == ours]
    assert any(text in gains.told(STOPS["how_fast"], current()).small for text in found)
    (ring, *_), _ = rows("rings", way="ring", seq_len=65536, order="zigzag")
    (rival, *_), _ = rows("rings", way="last rung", seq_len=65536, causal=True)
    factor = rival["sustained_us"] / ring["sustained_us"]
    assert f"{factor:.3g} times as long" in gains.told(STOPS["ring"], current()).wins
    assert "4 times as many tokens" in gains.told(STOPS["grouped_heads"], current()).wins


@pytest.mark.parametrize("text", ["{speed.times}", "{time.speed}", "{time.times", "{}"])
def test_an_unknown_placeholder_is_refused_with_the_known_ones(text):
    with pytest.raises(StopError, match=r"unknown placeholder.*\(time, padded\).*times"):
        gains.told(replace(STOPS["one_pass"], wins=text), current())


def test_a_problem_without_a_recording_is_refused():
    gain = Gain("time", "time", "02_tiled", "01_naive", {"seq_len": 12345})
    with pytest.raises(StopError, match="No recorded table .* 12345"):
        gains.compared(gain, current())


def test_a_loss_is_never_told_as_a_gain():
    slower = gains.Compared(2.0, 1.0, "us", "a GPU")
    assert (slower.loss, slower.more, slower.now) == ("2", "100%", "2 µs")
    with pytest.raises(StopError, match="no gain"):
        slower.times  # noqa: B018
    assert gains.amount(34_493_956_096, "B") == "34.5 GB" and gains.amount(213126.968, "us") == "213 ms"


def test_lse_has_four_bytes_for_a_query_and_p_two_for_each_pair():
    told = gains.told(STOPS["backward"], current())
    assert "65.5 kB" in told.wins and "537 MB" in told.wins
    assert told.source == "Counted from the sizes of the problem"
