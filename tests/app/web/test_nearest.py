"""A page that cannot run proposes the nearest choice that can."""

import re
from urllib.parse import urlencode

from pages import open_page, page_of

from app.web import asking
from kernels.errors import WarpglassError


def test_a_sequence_that_is_too_long_for_the_cpu_has_a_shorter_one():
    asked = open_page("online_softmax?seq_len=16384&backend=cpu").asked
    assert "would take about" in asked.error
    name, value = asked.offer["set"]
    assert name == "seq_len" and asked.offer["label"] == f"Use seq_len {value}"
    again = open_page(f"online_softmax?seq_len={value}&backend=cpu").asked
    assert not again.error and 256 <= int(value) < 16384


def test_a_page_that_runs_proposes_nothing_of_the_kind():
    assert open_page("online_softmax?backend=cpu").asked.offer is None


def test_the_choices_of_the_reader_come_first_and_the_slower_value_is_the_second_choice():
    page = page_of("tiling")
    state = page.default_state() | {"batch": 64}

    def seconds(other):
        if other["batch"] > 16:
            raise WarpglassError("too large")
        return 100.0

    assert asking.nearest_offer(page, state, seconds)["set"] == ("batch", "16")
    assert asking.nearest_offer(page, state, lambda other: 0.1 * other["batch"])["set"] == ("batch", "8")


def test_nothing_is_proposed_if_no_choice_helps():
    page = page_of("tiling")

    def seconds(other):
        raise WarpglassError("nothing runs here")

    assert asking.nearest_offer(page, page.default_state(), seconds) is None


def test_a_call_too_large_for_this_cpu_still_names_its_fastest_kernel_its_share_and_its_bytes():
    call = {"kernel": "11_overlap", "seq_len": "4096", "batch": "4", "num_heads": "16", "head_dim": "128"}
    asked = open_page(f"any_kernel?{urlencode(call)}&backend=cpu").asked
    assert re.search(r"Recorded: \w+ is the fastest rung for this call: about \d+ µs on an NVIDIA", asked.error)
    assert re.search(r"reaches \d+ % of the .* roof", asked.error) and "have 257 MiB" in asked.error
