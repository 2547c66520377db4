"""The pages whole, through AppTest: Python only, no JavaScript. What only a browser shows is in tests/browser."""

from dataclasses import replace

import pytest
from pages import charts, components, open_page, parameter, texts, widgets

from app.choices import pages
from app.stories import PAGES
from kernels.catalog import KERNELS
from kernels.core.request import Request
from kernels.errors import BuildError, WorkerDied
from kernels.run import workers
from kernels.run.backends import Survey
from kernels.timing import bench
from kernels.trace.probes import sites_of

STORIES = ("stories/tiling.py", "stories/online_softmax.py")
pytestmark = pytest.mark.xdist_group("pages")


def choices(at, page):
    """What this session chose on a page."""
    return at.session_state["choices"][page]


def test_the_start_page_says_where_runs_go_and_why():
    at = open_page(page=None)
    said = texts(at.markdown)
    assert "Runs go to:" in said
    assert all(reason in said for reason in workers.survey().reasons.values())


@pytest.mark.parametrize("page", [path for path, _, _ in PAGES])
def test_every_page_tells_what_of_a_link_it_does_not_take(page):
    at = open_page(page, nonsense="1", backend="cpu")
    assert "nonsense is not a choice" in texts(at.warning)
    assert "nonsense" not in at.query_params


# ---- tiling and online softmax ----


@pytest.mark.parametrize("page", STORIES)
@pytest.mark.parametrize("kernel", pages.TILING.kernels)
def test_a_story_shows_its_views_for_every_kernel(page, kernel):
    at = open_page(page, kernel=kernel, backend="cpu")
    assert components(at) == 4  # clock, sentence, dense view, code
    assert "executed on" in texts(at.caption)
    assert at.selectbox(key="kernel").value == kernel
    assert not at.error and not at.warning


def test_the_badge_names_the_worst_output_and_what_it_is_allowed():
    said = texts(open_page(backend="cpu").caption)
    assert "largest error against float64" in said and "(o), torch's own" in said and ", allowed " in said


def test_a_recorded_run_says_the_gpu_and_the_date(recordings):
    recordings("03_flash", settings=(("BLOCK_Q", 16), ("BLOCK_KV", 16)))
    at = open_page(backend="recorded")
    assert "recorded on NVIDIA Test, 2026-01-02" in texts(at.caption)
    assert at.selectbox(key="kernel").value == "03_flash" and not at.error
    assert "01_naive is not compared. No recording of 01_naive" in texts(at.caption)


def test_recordings_are_labelled_with_their_own_kernels_defaults(recordings):
    small = (("BLOCK_Q", 16), ("BLOCK_KV", 16))
    recordings("04_flash_registers", settings=small)
    recordings("04_flash_registers", settings=(*small, ("PAD", 0)))
    recordings("03_flash", settings=small)
    at = open_page(kernel="04_flash_registers", backend="recorded")
    labels = next(box for box in at.selectbox if box.label == "Recorded build").options
    assert labels == ["BLOCK_Q 16, BLOCK_KV 16", "BLOCK_Q 16, BLOCK_KV 16, PAD 0"]
    at = open_page(kernel="03_flash", backend="recorded")
    assert next(box for box in at.selectbox if box.label == "Recorded build").options == ["as written"]


def test_a_recorded_build_is_chosen_with_its_problem(recordings):
    problem = KERNELS["03_flash"].problem_type
    recordings("03_flash")
    recordings("03_flash", settings=(("RESCALE", 0),))
    recordings("03_flash", problem(seq_len=50, head_dim=64, num_heads=1))
    at = open_page("stories/online_softmax.py", backend="recorded", what_if="RESCALE")
    assert choices(at, "")["what_if"] == "RESCALE" and "Broken on purpose" in texts(at.caption)
    box = next(box for box in at.selectbox if box.label == "Recorded problem")
    assert box.options == ["the default problem", "seq_len 50, head_dim 64, num_heads 1"]
    box.set_value(1).run()
    assert not at.exception and not at.error
    state = choices(at, "")
    assert (state["seq_len"], state["head_dim"], state["what_if"]) == (50, 64, "none")


def test_what_is_not_recorded_is_said_with_what_to_do(recordings):
    recordings("02_tiled")
    at = open_page(kernel="03_flash", backend="recorded")
    assert "Nothing is recorded of the present code of 03_flash" in texts(at.warning)
    assert "No recording of 03_flash has this code" in texts(at.error)


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


@pytest.mark.parametrize("page", STORIES)
def test_every_field_and_every_constant_has_a_widget(page):
    at = open_page(page, backend="cpu")
    spec = KERNELS["03_flash"]
    fields = spec.problem_type.__dataclass_fields__
    labels = set(widgets(at))
    assert {name for name in fields if name in choices(at, "")} <= labels
    assert {c.name for c in spec.constants if not c.what_if} <= labels and "What-if build" in labels


class Failing:
    """A job that ends as told."""

    def __init__(self, error):
        self.error = error

    def result(self, timeout=None):
        raise self.error

    def done(self):
        return True


@pytest.mark.parametrize(
    "error",
    [
        WorkerDied("The worker process running 03_flash died (by signal 9)."),
        BuildError("03_flash.cu line 7: expected ;"),
    ],
)
def test_a_failed_run_becomes_a_message_and_can_be_run_again(monkeypatch, error):
    real = workers.submit

    def submit(function, *args, **kw):
        return Failing(error) if "(run)" in kw["what"] else real(function, *args, **kw)

    monkeypatch.setattr(workers, "submit", submit)
    at = open_page(backend="cpu", seed="41")
    assert str(error) in texts(at.error)
    monkeypatch.setattr(workers, "submit", real)
    next(b for b in at.button if b.label == "Run again").click().run()
    assert not at.error and components(at) == 4


def test_a_failure_of_a_moment_is_not_kept_as_the_answer(monkeypatch):
    from app import runs

    spec = KERNELS["03_flash"]
    asked = spec, spec.problem_type(), tuple({**spec.settings(), "BLOCK_KV": 32}.items()), "sm_80"
    real = workers.submit
    monkeypatch.setattr(workers, "submit", lambda *args, **kw: Failing(WorkerDied("Its worker died.")))
    assert runs.facts(*asked) == (None, "Its worker died.")
    monkeypatch.setattr(workers, "submit", real)
    facts, reason = runs.facts(*asked)
    assert reason is None and facts["kernel"] == "03_flash"


def test_one_kernels_fault_in_the_comparison_is_said_and_not_the_pages(monkeypatch):
    real = workers.submit

    def submit(function, *args, **kw):
        died = kw["what"] == "02_tiled (traffic)"
        return Failing(WorkerDied("It died. Look.")) if died else real(function, *args, **kw)

    monkeypatch.setattr(workers, "submit", submit)
    at = open_page(backend="cpu", seed="43")
    assert not at.error and "02_tiled is not compared. It died." in texts(at.caption)
    assert "Tiled" not in texts(at.caption).split("K is read: ")[1].split(";")[1]


def test_without_gpu_and_compiler_the_recordings_carry_the_page(monkeypatch, recordings):
    recordings("03_flash")
    only = {"recorded": workers.survey().devices["recorded"]}
    reasons = {
        "gpu": "No GPU was found: told by the test.",
        "cpu": "No C++ compiler was found: told by the test.",
    }
    monkeypatch.setattr(workers, "survey", lambda: Survey(only, reasons))
    at = open_page()
    assert "recorded on NVIDIA Test" in texts(at.caption)
    start = open_page(page=None)
    assert "No C++ compiler was found: told by the test." in texts(start.markdown)


def test_choices_survive_a_visit_to_another_page():
    at = open_page(seq_len="50", backend="cpu")
    at.switch_page("stories/start.py").run()
    at.switch_page("stories/online_softmax.py").run()
    assert at.number_input(key="seq_len").value == 50


@pytest.mark.parametrize("way", [STORIES, STORIES[::-1]])
def test_choices_stay_on_the_way_between_pages_that_share_them(way):
    at = open_page(way[0], backend="cpu", seq_len="40", score_scale="2", at_tile="1", BLOCK_KV="8", row="3")
    before = dict(choices(at, ""))
    at.switch_page(way[1]).run()
    assert not at.exception and choices(at, "") == before
    at.number_input(key="seq_len").set_value(48).run()
    at.switch_page(way[0]).run()
    assert choices(at, "") == {**before, "seq_len": 48} and at.number_input(key="seq_len").value == 48


def test_another_kernel_keeps_the_problem_that_was_chosen():
    at = open_page(seq_len="40", BLOCK_Q="8", backend="cpu")
    at.selectbox(key="kernel").set_value("01_naive").run()
    state = choices(at, "")
    assert (state["kernel"], state["seq_len"], state["BLOCK_Q"]) == ("01_naive", 40, 8)
    assert not at.exception and not at.error


def test_a_kernel_that_this_machine_cannot_run_says_so_and_can_be_compiled(monkeypatch):
    picky = replace(KERNELS["03_flash"], requires="sm_100a")
    monkeypatch.setitem(pages.TILING.kernels, "03_flash", picky)
    monkeypatch.setitem(pages.SOURCE.kernels, "03_flash", picky)
    real = workers.survey()
    gpu = replace(real.devices["cpu"], backend="gpu", name="NVIDIA Test", target="sm_90a")
    monkeypatch.setattr(workers, "survey", lambda: Survey({"gpu": gpu, **real.devices}, {}))
    at = open_page(kernel="03_flash", backend="gpu")
    assert "03_flash needs sm_100a; NVIDIA Test is sm_90a." in texts(at.error)
    assert "It can still be compiled, inspected and shown from recordings." in texts(at.error)
    assert components(open_page("stories/source.py", kernel="03_flash")) == 1


# ---- block table ----

PAGED = "stories/block_table.py"


@pytest.mark.parametrize(
    ("view", "views", "drawn"), [("cache", 4, 1), ("walk", 4, 0), ("partitions", 5, 1), ("heads", 0, 3)]
)
@pytest.mark.parametrize("scenario", ["two_chats", "one_long"])
def test_every_section_of_the_block_table_story_shows_its_views(view, views, drawn, scenario):
    at = open_page(PAGED, view=view, scenario=scenario, backend="cpu")
    assert components(at) == views and charts(at) == drawn
    assert not at.error and not at.warning
    if view != "cache":
        assert "executed on" in texts(at.caption)


def test_the_block_table_is_shown_from_recordings(recordings):
    at = open_page(PAGED, view="walk", scenario="two_chats", backend="cpu")
    request = _last_walk(at)
    recordings("paged_v1", request.problem, request.settings)
    at = open_page(PAGED, view="walk", scenario="two_chats", backend="recorded")
    assert "recorded on NVIDIA Test" in texts(at.caption) and components(at) == 4 and not at.error


def _last_walk(at):
    """What the walk of this session ran."""
    from app import runs

    return next(request for task, request in reversed(runs._results) if task == "run")


def test_a_shuffle_is_told_to_give_the_same_output():
    at = open_page(PAGED, view="walk", scenario="churn", shuffle="1", backend="cpu")
    assert "the same output, bit for bit" in texts(at.success)
    assert at.dataframe[0].value["equal bit for bit"].tolist() == ["yes"] * 3


def test_the_button_runs_the_kernel_on_the_cache_as_it_stands():
    at = open_page(PAGED, scenario="shared_prompt", moment="5", backend="cpu")
    next(b for b in at.button if b.label == "Run the kernel on this cache").click().run()
    assert not at.exception and at.segmented_control(key="cache_view").value == "walk"
    assert at.selectbox(key="cache_sequence").options == ["S", "A", "B", "C"] and "executed on" in texts(at.caption)


def test_events_by_hand_grow_the_cache_and_a_refused_one_changes_nothing():
    at = open_page(PAGED, scenario="by_hand", events="add A 20", num_blocks="3", backend="cpu")

    def press(label):
        next(b for b in at.button if b.label == label).click().run()

    next(n for n in at.number_input if n.label == "Tokens").set_value(40)
    press("Apply")
    refused = "Out of pages. 40 tokens for A need 2 more pages of 16 slots; 1 of 3 are free."
    assert refused in texts(at.error).replace("**", "")
    assert choices(at, "cache")["events"] == "add A 20"
    next(n for n in at.number_input if n.label == "Tokens").set_value(5)
    press("Apply")
    assert choices(at, "cache")["events"] == "add A 20, append A 5" and choices(at, "cache")["moment"] == 2
    press("Undo")
    assert choices(at, "cache")["events"] == "add A 20"
    press("Clear")
    assert choices(at, "cache")["events"] == "" and not at.exception
    at.segmented_control(key="cache_view").set_value("walk").run()
    assert "holds no sequence" in texts(at.info) and not at.exception


def test_events_that_do_not_fit_the_pool_are_refused_whole_and_can_be_left():
    at = open_page(PAGED, scenario="by_hand", events="add A 300", num_blocks="3", backend="cpu")
    said = "These events cannot be played. Event 1: 300 tokens for A need 19 more pages"
    assert said in texts(at.error).replace("**", "")
    at.button[0].click().run()
    assert not at.exception and not at.error


def test_another_scenario_begins_at_its_end():
    at = open_page(PAGED, backend="cpu", moment="2", shuffle="3")
    at.selectbox(key="cache_scenario").set_value("churn").run()
    state = choices(at, "cache")
    assert (state["moment"], state["shuffle"], parameter(at, "moment")) == (12, 0, "12")


def test_what_a_recording_lacks_is_refused_with_the_reason(recordings):
    recordings("03_flash")
    at = open_page(PAGED, view="walk", scenario="by_hand", backend="recorded")
    assert "No recording of paged_v1 has this code, this problem and these constants" in texts(at.error)
    assert not at.exception


def test_the_calculator_refuses_heads_that_do_not_divide():
    at = open_page(PAGED, view="heads", backend="cpu")
    assert [m.value for m in at.metric] == ["1 GiB", "256 MiB", "32 MiB"]
    next(n for n in at.number_input if n.label == "KV heads").set_value(5).run()
    assert "must be a multiple of KV heads" in texts(at.error) and not at.metric


# ---- the memory lab ----


@pytest.mark.parametrize(
    ("params", "wavefronts"),
    [
        ({}, "32"),
        ({"PAD": "1"}, "1"),
        ({"SWIZZLE": "1"}, "1"),
        ({"WIDTH": "16", "PAD": "4"}, "4"),
        ({"WIDTH": "16", "MATRICES": "4"}, "32"),
        ({"stride": "50"}, "2"),
    ],
)
def test_the_bank_lab_shows_wavefronts_and_cycles_where_they_are_recorded(params, wavefronts):
    at = open_page("stories/bank_conflicts.py", backend="cpu", **params)
    shown = {m.label: m.value for m in at.metric}
    assert shown["Wavefronts per access"] == wavefronts
    known = shown["Cycles per access (recorded)"]
    assert known == "not known" or 0.5 * int(wavefronts) <= float(known) <= int(wavefronts) + 4
    assert components(at) == 4 and not at.error


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"WIDTH": "16", "PAD": "1"}, "132 bytes; an access of 16 bytes must begin at a multiple of 16"),
        ({"kernel": "lab_columns", "MATRICES": "4"}, "an ldmatrix reads rows of 16 bytes"),
        ({"stride": "4000"}, "512,000 bytes of shared memory per block"),
        ({"stride": "24", "SWIZZLE": "1"}, "the XOR swizzle needs a power of two"),
    ],
)
def test_what_the_bank_lab_cannot_run_is_refused_with_the_reason(params, says):
    at = open_page("stories/bank_conflicts.py", backend="cpu", **params)
    assert says in texts(at.error)


@pytest.mark.parametrize(
    ("page", "params", "says"),
    [
        ("stories/bank_conflicts.py", {"stride": "0"}, "stride is 0; it must be a whole number from 1 to 4096"),
        ("stories/source.py", {"arch": "sm_12"}, "arch is sm_12; it must be one of"),
        ("stories/occupancy.py", {"kernel": "04_none"}, "kernel is '04_none'; it must be one of"),
        ("stories/memory_hierarchy.py", {"backend": "tpu"}, "backend is tpu; it must be one of"),
        ("stories/any_kernel.py", {"at_item": "-1"}, "at_item is -1"),
        ("stories/coalescing.py", {"backend": "cpu", "line": "x.cu:7"}, "line is 'x.cu:7'; there is no such choice"),
    ],
)
def test_a_wrong_link_is_told_and_the_defaults_taken(page, params, says):
    assert says in texts(open_page(page, **params).warning)


@pytest.mark.parametrize("kernel", ["02_tiled", "03_flash"])
def test_k_smem_is_compared_with_and_without_padding(kernel):
    at = open_page("stories/bank_conflicts.py", view="attention", kernel=kernel, backend="cpu")
    assert "32 wavefronts a request without, 4 with, 4 at best" in texts(at.info)
    assert "executed on" in texts(at.caption)
    table = at.dataframe[0].value
    assert {"Q", "K", "V", "P"} & set(table.tensor) and "not padded" in table.columns


@pytest.mark.parametrize("kernel", pages.COALESCING.kernels)
def test_the_coalescing_page_shows_every_kernel_that_it_lists(kernel):
    at = open_page("stories/coalescing.py", backend="cpu", kernel=kernel)
    assert components(at) == 4 and not at.error and not at.warning
    table = at.dataframe[0].value
    assert (table["used of 32 bytes"] <= 32).all() and len(table)


@pytest.mark.parametrize("kernel", pages.BANKS.kernels)
def test_the_bank_page_shows_every_kernel_that_it_lists(kernel):
    at = open_page("stories/bank_conflicts.py", backend="cpu", kernel=kernel)
    assert not at.error and not at.warning
    assert components(at) == 4 or "This run touched no shared memory" in texts(at.info)


@pytest.mark.parametrize("params", [{}, {"layout": "paged_whole"}])
def test_the_layouts_are_shown_side_by_side(params):
    at = open_page("stories/coalescing.py", view="layouts", backend="cpu", **params)
    assert components(at) == 4 and not at.error and not at.warning
    table = at.dataframe[0].value
    assert len(table) == 5 and (table["used of 32 bytes"] <= 32).all()


def test_a_line_of_a_link_is_looked_at_also_by_its_number_alone():
    spec = KERNELS["03_flash"]
    sites = sites_of(Request(spec, spec.problem_type()))
    stored = next(site for site in sites if (site.event, site.space) == ("store", "global"))
    for line in (f"{stored.file}:{stored.line}", str(stored.line)):
        at = open_page("stories/coalescing.py", backend="cpu", kernel="03_flash", line=line)
        assert parameter(at, "line") == f"{stored.file}:{stored.line}" and not at.warning


def test_the_hierarchy_page_says_whose_figures_it_shows():
    at = open_page("stories/memory_hierarchy.py")
    if "gpu" not in workers.survey().devices:
        assert "no GPU" in texts(at.info)
    if at.success:
        assert "a load waits" in texts(at.success) and "they are not measured" in texts(at.caption)
        assert at.dataframe[0].value["textbook cycles"].tolist()[:5] == ["1", "20", "28", "200", "400"]
    else:
        assert "There is no recording of the hierarchy" in texts(at.warning)


@pytest.mark.parametrize(
    "params", [{}, {"kernel": "paged_v2", "arch": "sm_75"}, {"kernel": "lab_stream", "arch": "sm_100a"}]
)
def test_occupancy_is_told_for_kernels_and_architectures(params):
    at = open_page("stories/occupancy.py", **params)
    assert "a multiprocessor of" in texts(at.info) and "driver's own figure" in texts(at.caption) and not at.error


def test_a_recorded_timeline_is_drawn_where_there_is_no_gpu():
    at = open_page("stories/occupancy.py", view="timeline", backend="cpu")
    said = texts(at.info)
    assert "multiprocessors" in said and charts(at) == 2 or "No timeline of the present code is recorded" in said


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"kernel": "paged_v1", "build": "probed", "arch": "sm_80"},
        {"kernel": "lab_access", "op": "ldmatrix", "width": "16", "arch": "sm_100a"},
    ],
)
def test_the_source_page_compiles_without_a_gpu(params):
    at = open_page("stories/source.py", **params)
    assert "accesses that this build holds have the width" in texts(at.success)
    assert components(at) == 1 and not at.error


def test_the_source_page_asks_only_what_a_build_depends_on():
    labels = set(widgets(open_page("stories/source.py", kernel="03_flash")))
    assert {"head_dim", "BLOCK_Q", "RESCALE"} <= labels and not {"seq_len", "seed", "causal"} & labels


def test_the_source_page_says_what_an_architecture_cannot():
    at = open_page("stories/source.py", kernel="lab_access", op="cp_async", arch="sm_75")
    assert "requires .target sm_80 or higher" in texts(at.error)


# ---- timing and compare ----


def test_the_timing_page_shows_what_is_recorded_and_says_why(times):
    at = open_page("stories/timing.py")
    assert "This machine has no GPU, so the times are recorded ones." in texts(at.info)
    assert "NVIDIA Test" in texts(at.caption) and "as fast as sdpa_efficient" in texts(at.success)
    assert charts(at) == 6
    at.selectbox(key="timing_baseline").set_value("01_naive").run()
    assert not at.exception and "as fast as 01_naive" in texts(at.success)
    assert parameter(at, "baseline") == "01_naive"


def test_the_timing_page_says_that_nothing_is_recorded(times):
    from kernels.timing import tables

    tables.path_of(bench.KIND, "NVIDIA Test").unlink()
    at = open_page("stories/timing.py")
    assert "Nothing is recorded and nothing was measured yet. No times are recorded." in texts(at.warning)


def test_every_recorded_sweep_can_be_looked_at(times):
    from explainers import timing

    at = open_page("stories/timing.py")
    ((made, where),) = bench.recorded().values()
    found = timing.sweeps(timing.prepared(made, where, "recorded"))
    assert len(found) == 2
    for key in found:
        at.selectbox(key="timing_sweep").set_value(key).run()
        assert not at.exception and at.success


def test_what_is_shown_is_in_the_link_and_stays_on_the_way_back(times):
    at = open_page("stories/timing.py")
    at.multiselect(key="timing_hide").set_value(["01_naive", "sdpa_efficient"]).run()
    hidden = parameter(at, "hide").split("|")
    assert "03_flash" in hidden and "01_naive" not in hidden
    at.switch_page("stories/start.py").run()
    at.switch_page("stories/timing.py").run()
    assert at.multiselect(key="timing_hide").value == ["01_naive", "sdpa_efficient"]
    again = open_page("stories/timing.py", hide="|".join(hidden))
    assert again.multiselect(key="timing_hide").value == ["01_naive", "sdpa_efficient"] and not again.warning


def test_a_link_to_a_sweep_that_is_not_there_shows_the_first_and_says_so(times):
    at = open_page("stories/timing.py", sweep="nonsense", baseline="<b>x</b>", gpus="none", hide="all")
    assert "as fast as sdpa_efficient" in texts(at.success)
    said = texts(at.warning)
    assert all(f"{name} is " in said for name in ("sweep", "baseline", "gpus", "hide"))


@pytest.mark.parametrize(
    "choice",
    [
        {},
        {"a": "01_naive", "b": "02_tiled"},
        {"a": "04_flash_registers", "b": "04_flash_registers", "b_PAD": "0"},
        {"b_RESCALE": "0", "b": "03_flash"},
    ],
    ids=["default", "two", "paddings", "what-if"],
)
def test_the_compare_page_shows_both_sides(choice):
    at = open_page("stories/compare.py", backend="cpu", **choice)
    assert components(at) == 7  # one clock; twice a sentence, matrices and code
    assert "shared bytes of a block" in at.dataframe[0].value["what"].tolist()
    assert "Against float64" in texts(at.info) and not at.error


def test_compare_says_the_times_of_both(times):
    at = open_page("stories/compare.py", backend="cpu")
    assert "as fast as" in texts(at.success) and "NVIDIA Test" in texts(at.success)


def test_the_compare_page_refuses_what_cannot_be_and_recovers():
    at = open_page("stories/compare.py", backend="cpu", a="03_flash", a_BLOCK_Q="64", seq_len="50", colour="red")
    said = texts(at.warning)
    assert "a_BLOCK_Q is 64" in said and "colour is not a choice" in said


def test_recordings_can_be_compared(recordings):
    small = (("BLOCK_Q", 16), ("BLOCK_KV", 16))
    for kernel in ("03_flash", "04_flash_registers"):
        recordings(kernel, settings=small)
    at = open_page("stories/compare.py", backend="recorded")
    assert not at.error and "Addresses recorded" in texts(at.caption)
    labels = [box.label for box in at.selectbox]
    assert "Recorded build of A" in labels and "Recorded build of B" in labels


# ---- any kernel ----


@pytest.mark.parametrize("kernel", pages.ANY_KERNEL.kernels)
def test_any_kernel_is_shown_with_its_tensors(kernel):
    at = open_page("stories/any_kernel.py", kernel=kernel, backend="cpu")
    assert components(at) == 4 and not at.error and not at.warning
    spec = KERNELS[kernel]
    names = {t.name for t in spec.plan(spec.problem_type()).tensors}
    assert names == set(at.dataframe[0].value["tensor"])


def test_every_kernel_that_marks_its_steps_is_on_the_page_of_any_kernel():
    marked = {name for name, spec in KERNELS.items() if "PROBE_MARK" in "".join(text for _, text in spec.files)}
    assert marked <= set(pages.ANY_KERNEL.kernels)
