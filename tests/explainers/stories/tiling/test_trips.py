"""The picture `trips`: its rule against the loads of runs, and its questions."""

from dataclasses import replace

import pytest
from hand_rules import applied

from explainers.stories.tiling import trips
from explainers.stories.timing import rungs
from explainers.story import probed
from kernels.catalog import KERNELS
from kernels.core.scope import Scope
from kernels.run import execute


@pytest.mark.parametrize(("kernel", "side"), [("01_naive", 1), ("02_tiled", 8), ("02_tiled", 16), ("02_tiled", 32)])
def test_the_trips_are_those_of_the_first_launch(kernel, side):
    meta, request = trips.view().meta, probed.sample(KERNELS[kernel])
    problem = replace(request.problem, seq_len=meta["tokens"], head_dim=trips.SIZES["dim"], num_heads=1, causal=False)
    settings = {} if side == 1 else {"BLOCK_Q": side, "BLOCK_KV": side}
    request = replace(request, problem=problem, settings=request.kernel.settings(settings.items()))
    table = execute.run(replace(request, scope=Scope.everything(request.plan))).trace.frame(
        "event", "space", "tensor", "bytes"
    )
    loads = table[(table.space == "global") & (table.event == "load") & table.tensor.isin(["Q", "K"])]
    (rule,) = applied("trips", [[meta["tokens"], side]])
    assert rule["all"] * meta["bytes"] == loads.bytes.sum()
    assert rule["each"] * meta["tokens"] * meta["bytes"] == loads[loads.tensor == "K"].bytes.sum()
    assert rule["tile"] == 2 * side and side in meta["choices"]


def test_each_step_has_a_short_headline_and_no_answer_shows_at_its_question():
    meta = trips.view().meta
    assert all(len(frame["head"].split()) <= 12 for frame in meta["frames"])
    for question in trips.questions():
        said = question.options[question.answer]
        assert question.view == "trips" and len(question.reasons) == len(question.options) > 2
        assert not any(said in frame["head"] + frame["sentence"] for frame in meta["frames"][: question.step + 1])


def test_the_recorded_times_are_those_of_the_stop_how_fast():
    (main,) = [one for one in rungs.recorded() if one["id"] == "main 4096"]
    timed = trips.view().meta["timed"]
    assert (timed["before"], timed["now"]) == (main["us"]["01_naive"], main["us"]["02_tiled"])
    assert timed["times"] == f"{timed['before'] / timed['now']:.2f}" and timed["said"] == main["said"]
