"""The picture `buckets`: its rule against the model of the hardware, and its recorded gain against the table."""

import random

import pytest
from hand_rules import applied

from explainers.stories.bank_conflicts import buckets
from kernels.recordings import tables
from kernels.trace.memory.model import shared_wavefronts

ACCESSES = 300
STATES = [
    {"read": read, "xor": xor, "width": width}
    for read in ("column", "same")
    for xor in (False, True)
    for width in range(30, 49)
]


def random_access(number):
    """Offsets and bytes of a lane: strides, scattered words, few words, and pairs with one offset, with idle lanes."""
    pick = random.Random(number)
    width = pick.choice([1, 2, 4, 8, 16])
    step, few = pick.choice([1, 2]), [pick.randrange(512) for _ in range(pick.randrange(1, 6))]
    stride, base = pick.randrange(70), [pick.randrange(64) for _ in range(32)]
    offsets = {
        0: [lane * stride for lane in range(32)],
        1: [pick.randrange(2048) for _ in range(32)],
        2: [pick.choice(few) for _ in range(32)],
        3: [base[min(lane, lane ^ step)] for lane in range(32)],
    }[number % 4]
    idle = pick.choice([0, 0, 0.1, 0.5])
    return [[None if pick.random() < idle else offset * width for offset in offsets], width]


def of_model(offsets, width):
    found = shared_wavefronts(offsets, width, "load")
    words = [
        (t.part, bank, t.word, t.wavefront, list(t.lanes)) for bank, touches in found.banks.items() for t in touches
    ]
    return found.wavefronts, found.ideal, sorted(words)


def of_rule(found):
    words = [(w["part"], w["bank"], w["word"], w["turn"], w["lanes"]) for w in found["words"]]
    return found["turns"], found["ideal"], sorted(words)


def test_the_rule_agrees_with_the_model_on_random_accesses():
    cases = [random_access(number) for number in range(ACCESSES)]
    for case, found in zip(cases, applied("sharedLoad", cases), strict=True):
        assert of_rule(found) == of_model(*case), case


def test_every_state_of_the_picture_agrees_with_the_model():
    for ask, found in zip(STATES, applied("access", [[ask] for ask in STATES]), strict=True):
        assert of_rule(found) == of_model(found["offsets"], found["bytes"]), ask
        assert len({word["turn"] for word in found["words"]}) == found["turns"]


@pytest.mark.parametrize(("width", "turns"), [(32, 32), (33, 1), (34, 2), (36, 4), (40, 8), (48, 16)])
def test_the_turns_are_the_common_factor_of_the_width_and_32(width, turns):
    (found,) = applied("access", [[{"read": "column", "xor": False, "width": width}]])
    assert found["turns"] == turns


def test_the_gain_is_of_two_recorded_rows_that_differ_in_padding_only():
    pair = buckets.padded_pair()
    made, _ = tables.recorded("bench")[f"NVIDIA {pair['device']}"]
    rows = made[(made.name == pair["name"]) & (made.seq_len == pair["tokens"]) & (made.causal == False)]  # noqa: E712
    plain, padded = (rows[rows.settings.str.contains(rf"\bPAD_K={n}\b")] for n in (0, pair["words"]))
    ratios = [before / after for before in plain.median_us for after in padded.median_us]
    assert min(abs(ratio - pair["times"]) for ratio in ratios) < 1e-9 and pair["times"] > 1


def test_only_the_walk_over_a_whole_row_of_banks_has_the_picture(cpu_run):
    (view,) = buckets.view(cpu_run("lab_columns"))
    assert len(view.meta["frames"]) == 7 and "times as fast (H200, " in view.meta["gain"]
    assert max(len(frame["sentence"].split()) for frame in view.meta["frames"]) <= 12
    assert buckets.view(cpu_run("02_tiled")) == []
