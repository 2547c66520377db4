"""The pages whole, through AppTest: Python only, no JavaScript. What only a browser shows is in tests/browser."""

import time
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from kernels import workers
from kernels.backends import Survey
from kernels.errors import BuildError, WorkerDied

MAIN = str(Path(__file__).parents[2] / "app" / "main.py")
PAGES = ("stories/tiling.py", "stories/online_softmax.py")
pytestmark = pytest.mark.xdist_group("pages")


def open_page(page="stories/tiling.py", **params):
    at = AppTest.from_file(MAIN, default_timeout=60)
    for name, value in params.items():
        at.query_params[name] = value
    at.run()
    if page:
        at.switch_page(page).run()
    while "is running" in texts(at.info):  # a cold worker takes longer than the page's patience
        time.sleep(0.5)
        at.run()
    assert not at.exception
    return at


def texts(elements):
    return " ".join(str(e.value) for e in elements)


@pytest.fixture(autouse=True)
def fresh_results():
    from app import runs

    runs._results.clear()


def test_the_start_page_says_where_runs_go_and_why():
    at = open_page(page=None)
    said = texts(at.markdown)
    assert "Runs go to:" in said
    survey = workers.survey()
    assert all(reason in said for reason in survey.reasons.values())


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("kernel", ["01_naive", "02_tiled", "03_flash"])
def test_a_story_shows_its_views_for_every_kernel(page, kernel):
    at = open_page(page, kernel=kernel, backend="cpu")
    assert len(at.get("bidi_component")) == 4  # clock, sentence, dense view, code
    assert "executed on" in texts(at.caption)
    assert at.selectbox(key="kernel").value == kernel
    assert not at.error and not at.warning


def test_a_recorded_run_says_the_gpu_and_the_date():
    at = open_page(backend="recorded")
    assert "recorded on NVIDIA H200, 2026-" in texts(at.caption)


def test_nonsense_in_the_url_is_told_and_the_page_stands():
    at = open_page(seq_len="-4", frob="1", kernel="x")
    assert at.selectbox(key="kernel").value == "03_flash"
    assert "frob is not a choice" in texts(at.warning) and "seq_len is -4" in texts(at.warning)


def test_an_impossible_problem_is_refused_with_the_reason():
    at = open_page(seq_len="16384", backend="cpu")
    assert "This problem cannot run." in texts(at.error) and "03_flash at seq_len 16384" in texts(at.error)


def test_a_whatif_build_is_labelled_and_told_where_it_goes_wrong():
    at = open_page("stories/online_softmax.py", what_if="RESCALE", backend="cpu")
    assert "Broken on purpose" in texts(at.caption)
    assert "goes wrong at step 9" in texts(at.error)


class Failing:
    """A job that ends as told."""

    def __init__(self, error):
        self.error = error

    def result(self, timeout=None):
        raise self.error

    def done(self):
        return True


@pytest.mark.parametrize("error", [WorkerDied("The worker process running 03_flash died (by signal 9)."), BuildError("03_flash.cu line 7: expected ;")])
def test_a_failed_run_becomes_a_message_and_can_be_run_again(monkeypatch, error):
    real = workers.submit
    monkeypatch.setattr(workers, "submit", lambda function, *args, **kw: Failing(error) if "(run)" in kw["what"] else real(function, *args, **kw))
    at = open_page(backend="cpu", seed="41")
    assert str(error) in texts(at.error)
    monkeypatch.setattr(workers, "submit", real)
    next(b for b in at.button if b.label == "Run again").click().run()
    assert not at.error and len(at.get("bidi_component")) == 4


def test_without_gpu_and_compiler_the_recordings_carry_the_page(monkeypatch):
    real = workers.survey()
    only = Survey({"recorded": real.devices["recorded"]}, {"gpu": "No GPU was found: told by the test.", "cpu": "No C++ compiler was found: told by the test."})
    monkeypatch.setattr(workers, "survey", lambda: only)
    at = open_page()
    assert "recorded on NVIDIA H200" in texts(at.caption)
    start = open_page(page=None)
    assert "No C++ compiler was found: told by the test." in texts(start.markdown)


def test_choices_survive_a_visit_to_another_page():
    at = open_page(seq_len="50", backend="cpu")
    at.switch_page("stories/start.py").run()
    at.switch_page("stories/online_softmax.py").run()
    assert at.number_input(key="seq_len").value == 50


PAGED = "stories/block_table.py"


@pytest.mark.parametrize("backend", ["cpu", "recorded"])
@pytest.mark.parametrize(("view", "components", "charts"), [("cache", 4, 1), ("walk", 4, 0), ("partitions", 5, 1), ("heads", 0, 3)])
@pytest.mark.parametrize("scenario", ["two_chats", "one_long"])
def test_every_section_of_the_block_table_story_shows_its_views(view, components, charts, scenario, backend):
    at = open_page(PAGED, view=view, scenario=scenario, backend=backend)
    assert len(at.get("bidi_component")) == components
    assert len(at.get("vega_lite_chart")) == charts
    assert not at.error and not at.warning
    if view != "cache":
        assert ("recorded on NVIDIA H200" if backend == "recorded" else "executed on") in texts(at.caption)


def test_a_shuffle_is_told_to_give_the_same_output():
    at = open_page(PAGED, view="walk", scenario="churn", shuffle="1", backend="recorded")
    assert "the same output, bit for bit" in texts(at.success)
    assert at.dataframe[0].value["equal bit for bit"].tolist() == ["yes"] * 3


def test_the_button_runs_the_kernel_on_the_cache_as_it_stands():
    at = open_page(PAGED, scenario="shared_prompt", moment="5", backend="cpu")
    next(b for b in at.button if b.label == "Run the kernel on this cache").click().run()
    assert not at.exception and at.segmented_control(key="cache_view").value == "walk"
    assert at.selectbox(key="cache_sequence").options == ["S", "A", "B", "C"] and "executed on" in texts(at.caption)


def test_events_by_hand_grow_the_cache_and_a_refused_one_changes_nothing():
    at = open_page(PAGED, scenario="by_hand", events="add A 20", num_blocks="3", backend="cpu")
    number = next(n for n in at.number_input if n.label == "Tokens")
    number.set_value(40)
    next(b for b in at.button if b.label == "Apply").click().run()
    assert "Out of pages. 40 tokens for A need 2 more pages of 16 slots; 1 of 3 are free." in texts(at.error).replace("**", "")
    assert at.session_state.cache_state["events"] == "add A 20"
    next(n for n in at.number_input if n.label == "Tokens").set_value(5)
    next(b for b in at.button if b.label == "Apply").click().run()
    assert at.session_state.cache_state["events"] == "add A 20, append A 5" and at.session_state.cache_state["moment"] == 2
    next(b for b in at.button if b.label == "Undo").click().run()
    assert at.session_state.cache_state["events"] == "add A 20"
    next(b for b in at.button if b.label == "Clear").click().run()
    assert at.session_state.cache_state["events"] == "" and not at.exception
    at.segmented_control(key="cache_view").set_value("walk").run()
    assert "holds no sequence" in texts(at.info) and not at.exception


def test_events_that_do_not_fit_the_pool_are_refused_whole_and_can_be_left():
    at = open_page(PAGED, scenario="by_hand", events="add A 300", num_blocks="3", backend="cpu")
    assert "These events cannot be played. Event 1: 300 tokens for A need 19 more pages" in texts(at.error).replace("**", "")
    at.button[0].click().run()
    assert not at.exception and not at.error


def test_what_a_recording_lacks_is_refused_with_the_reason():
    at = open_page(PAGED, view="walk", scenario="by_hand", backend="recorded")
    assert "No recording of paged_v1 has this source, this problem and these constants" in texts(at.error)
    assert not at.exception


def test_the_calculator_refuses_heads_that_do_not_divide():
    at = open_page(PAGED, view="heads", backend="cpu")
    assert [m.value for m in at.metric] == ["1 GiB", "256 MiB", "32 MiB"]
    next(n for n in at.number_input if n.label == "KV heads").set_value(5).run()
    assert "must be a multiple of KV heads" in texts(at.error) and not at.metric


# ---- the memory lab ----


@pytest.mark.parametrize("params, wavefronts, cycles", [({}, "32", "32"), ({"PAD": "1"}, "1", "2."), ({"SWIZZLE": "1"}, "1", "3."),
                                                        ({"WIDTH": "16", "PAD": "4"}, "4", "5."),
                                                        ({"WIDTH": "16", "MATRICES": "4"}, "32", "32."), ({"stride": "50"}, "2", "not known")])
def test_the_bank_lab_shows_wavefronts_and_recorded_cycles(params, wavefronts, cycles):
    at = open_page("stories/bank_conflicts.py", backend="cpu", **params)
    shown = {m.label: m.value for m in at.metric}
    assert shown["Wavefronts per access"] == wavefronts and shown["Cycles per access (recorded)"].startswith(cycles)
    assert len(at.get("bidi_component")) == 4 and "equal in 3,180 of 3,180 accesses" in texts(at.caption) and not at.error


@pytest.mark.parametrize("params, says", [
    ({"WIDTH": "16", "PAD": "1"}, "132 bytes; an access of 16 bytes must begin at a multiple of 16"), ({"MATRICES": "4"}, "an ldmatrix reads rows of 16 bytes"),
    ({"stride": "4000"}, "512,000 bytes of shared memory per block"), ({"stride": "24", "SWIZZLE": "1"}, "the XOR swizzle needs a power of two")])
def test_what_the_bank_lab_cannot_run_is_refused_with_the_reason(params, says):
    at = open_page("stories/bank_conflicts.py", backend="cpu", **params)
    assert says in texts(at.error)


@pytest.mark.parametrize("page, params, says", [
    ("stories/bank_conflicts.py", {"stride": "0"}, "stride is 0; it must be a whole number from 1 to 4096"),
    ("stories/source.py", {"arch": "sm_12"}, "arch is 'sm_12'; it must be one of"),
    ("stories/occupancy.py", {"kernel": "04_none"}, "kernel is '04_none'; here it must be one of"),
    ("stories/coalescing.py", {"nonsense": "1"}, "nonsense is not a choice")])
def test_a_wrong_link_is_told_and_the_defaults_taken(page, params, says):
    assert says in texts(open_page(page, **params).warning)


@pytest.mark.parametrize("backend", ["cpu", "recorded"])
@pytest.mark.parametrize("kernel", ["02_tiled", "03_flash"])
def test_k_smem_is_compared_with_and_without_padding(kernel, backend):
    at = open_page("stories/bank_conflicts.py", view="attention", kernel=kernel, backend=backend)
    assert "32 wavefronts a request without, 4 with, 4 at best" in texts(at.info)
    assert ("recorded on" if backend == "recorded" else "executed on") in texts(at.caption)
    table = at.dataframe[0].value
    assert {"Q", "K", "V", "P"} & set(table.tensor) and "not padded" in table.columns


@pytest.mark.parametrize("params", [{"kernel": "01_naive"}, {"kernel": "02_tiled"}, {"kernel": "03_flash"}, {"kernel": "paged_v1"}, {"kernel": "paged_v2"},
                                    {"kernel": "03_flash", "backend": "recorded"}, {"view": "layouts"},
                                    {"view": "layouts", "backend": "recorded", "layout": "paged_whole"}])
def test_the_coalescing_page_shows_every_kernel_and_the_layouts(params):
    at = open_page("stories/coalescing.py", **{"backend": "cpu", **params})
    assert len(at.get("bidi_component")) == 4 and not at.error and not at.warning
    table = at.dataframe[0].value
    assert (table["used of 32 bytes"] <= 32).all() and len(table) >= 4


def test_the_hierarchy_page_shows_the_recorded_plateaus_and_says_so():
    at = open_page("stories/memory_hierarchy.py")
    if "gpu" not in workers.survey().devices:
        assert "no GPU" in texts(at.info)
    assert "NVIDIA H200 a load waits 29 cycles for shared memory" in texts(at.success) and "they are not measured" in texts(at.caption)
    assert at.dataframe[0].value["textbook cycles"].tolist()[:5] == ["1", "20", "28", "200", "400"]


@pytest.mark.parametrize("params", [{}, {"kernel": "paged_v2", "arch": "sm_75"}, {"kernel": "lab_stream", "arch": "sm_100a"}])
def test_occupancy_is_told_for_kernels_and_architectures(params):
    at = open_page("stories/occupancy.py", **params)
    assert "a multiprocessor of" in texts(at.info) and "equal in 120 of 120 launches" in texts(at.caption) and not at.error


def test_a_recorded_timeline_is_drawn_where_there_is_no_gpu():
    at = open_page("stories/occupancy.py", view="timeline", backend="cpu")
    assert "blocks ran on 132 of 132 multiprocessors" in texts(at.info) and "Recorded on NVIDIA H200" in texts(at.caption)


@pytest.mark.parametrize("params", [{}, {"kernel": "paged_v1", "build": "probed", "arch": "sm_80"},
                                    {"kernel": "lab_access", "op": "ldmatrix", "width": "16", "arch": "sm_100a"}])
def test_the_source_page_compiles_without_a_gpu(params):
    at = open_page("stories/source.py", **params)
    assert "accesses that this build holds have the width" in texts(at.success) and len(at.get("bidi_component")) == 1 and not at.error


def test_the_source_page_says_what_an_architecture_cannot():
    at = open_page("stories/source.py", kernel="lab_access", op="cp_async", arch="sm_75")
    assert "requires .target sm_80 or higher" in texts(at.error)


def test_the_timing_page_shows_the_recorded_set_and_says_why():
    at = open_page("stories/timing.py")
    assert "This machine has no GPU, so the times are recorded ones." in texts(at.info)
    assert "NVIDIA H200" in texts(at.caption) and "as fast as sdpa_efficient" in texts(at.success)
    assert len(at.get("vega_lite_chart")) + len(at.get("arrow_vega_lite_chart")) == 6
    at.selectbox(key="timing_baseline").set_value("01_naive").run()
    assert not at.exception and "as fast as 01_naive" in texts(at.success)
    assert at.query_params["baseline"] in ("01_naive", ["01_naive"])


def test_every_recorded_sweep_can_be_looked_at():
    at = open_page("stories/timing.py")
    for sweep in at.selectbox(key="timing_sweep").options:
        assert sweep
    from explainers import timing
    from kernels import bench

    (made, where), = bench.recorded().values()
    for key in timing.sweeps(timing.prepared(made, where, "recorded")):
        at.selectbox(key="timing_sweep").set_value(key).run()
        assert not at.exception and at.success


def test_a_link_to_a_sweep_that_is_not_there_shows_the_first():
    at = open_page("stories/timing.py", sweep="nonsense", baseline="<b>x</b>", gpus="none", hide="all")
    assert not at.exception and "as fast as sdpa_efficient" in texts(at.success)


@pytest.mark.parametrize("choice", [{}, {"a": "01_naive", "b": "02_tiled"}, {"a": "04_flash_registers", "b": "04_flash_registers", "b_PAD": "0"},
                                    {"b_RESCALE": "0", "b": "03_flash"}], ids=["default", "two", "paddings", "what-if"])
def test_the_compare_page_shows_both_sides(choice):
    at = open_page("stories/compare.py", backend="cpu", **choice)
    assert len(at.get("bidi_component")) == 7  # one clock; twice a sentence, matrices and code
    assert "shared bytes of a block" in at.dataframe[0].value["what"].tolist()
    assert "Against float64" in texts(at.info) and not at.error


def test_the_compare_page_refuses_what_cannot_be_and_recovers():
    at = open_page("stories/compare.py", backend="cpu", a="03_flash", a_BLOCK_Q="64", seq_len="50", colour="red")
    said = texts(at.warning)
    assert "a_BLOCK_Q is 64" in said and "colour is not a choice" in said and not at.exception


def test_recordings_can_be_compared():
    at = open_page("stories/compare.py", backend="recorded")
    assert not at.exception and not at.error and "Addresses recorded" in texts(at.caption)
