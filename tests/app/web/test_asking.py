"""From a link, or a click, to a page: app/web/asking.py, between the browser and the stories."""

from dataclasses import replace
from urllib.parse import parse_qsl, urlencode

import pytest
from conftest import KINDS, one_of_each_kind
from pages import open_page, page_of

from app.stories import STORIES
from app.stories import occupancy as timelines
from app.web import asking
from explainers.story.builds import source_link
from kernels.catalog import KERNELS
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.run import workers
from kernels.run.backends import Survey

WITH_KERNELS = {path: story for path, story in STORIES.items() if page_of(story.path).kernels}
SMALL = "kernel=03_flash&seq_len=40&BLOCK_Q=16&BLOCK_KV=16&backend=cpu"
NOWHERE = {"gpu": "No GPU was found: told by the test.", "cpu": "No C++ compiler was found: told by the test."}


def ask(link, change=None, carried=False, survey=None):
    path, _, query = link.partition("?")
    return asking.ask(
        STORIES[path], dict(parse_qsl(query, keep_blank_values=True)), survey or workers.survey(), change, carried
    )


def entry(asked, name):
    return next(choice for choice in asked.choices if choice["name"] == name)


def values(asked, name):
    return [option["value"] for option in entry(asked, name)["options"]]


def only(*names):
    """A survey that finds these backends and no other."""
    found = workers.survey()
    return Survey(
        {n: d for n, d in found.devices.items() if n in names}, {n: r for n, r in NOWHERE.items() if n not in names}
    )


# ---- every story ----


@pytest.mark.parametrize("path", STORIES)
def test_an_empty_link_is_answered_and_its_answer_asks_for_the_same(path):
    first = ask(f"{path}?backend=cpu" if "backend" in ask(path).link else path)
    assert not first.error and not first.told and not first.refused and first.subject is not None
    again = asking.ask(STORIES[path], first.link, workers.survey())
    assert (again.subject, again.link, again.told) == (first.subject, first.link, [])
    assert {choice["name"] for choice in first.choices} - {"preset"} <= {*first.link, *_late(path)}
    for request in asking.requests_in(first.subject):
        assert isinstance(request, Request) and request.plan.items


def _late(path):
    return {name for name, choice in page_of(path).own.items() if choice.late}


@pytest.mark.parametrize("path", STORIES)
def test_what_no_page_knows_is_told_and_the_browsers_own_is_not(path):
    told = ask(f"{path}?nonsense=1&step=4&tab=x&picture=y").told
    assert told == ["nonsense is not a choice of this page."]


@pytest.mark.parametrize("path", STORIES)
def test_what_another_story_chose_is_taken_as_far_as_it_applies_and_nothing_is_told(path):
    made = ask(f"{path}?nonsense=1&what_if=RECALL&stride=99999&backend=cpu", carried=True)
    assert not made.told and not made.error


@pytest.mark.parametrize("path", STORIES)
def test_every_choice_is_described_as_the_toolbar_draws_it(path):
    groups = {"kernel", "preset", "what_if", "own", "place", "problem", "build", "run"}
    for choice in ask(path).choices:
        assert {"name", "label", "kind", "value", "group", "help"} <= set(choice) and choice["group"] in groups
        if choice["kind"] == "select":
            assert choice["value"] in ["", *(option["value"] for option in choice["options"])], (
                choice
            )  # "": a press away
            assert all(option["label"] for option in choice["options"])
        else:
            assert choice["kind"] in ("number", "text", "toggle", "many", "file")
        assert choice.get("disabled", "") is not True  # a reason


@KINDS
@pytest.mark.parametrize("path", WITH_KERNELS)
def test_another_kernel_can_be_asked_for_on_every_page_that_lists_it(path, chosen):
    asked = page_of(path)
    side = asked.sides[0] or "kernel"
    for kernel in chosen(asked.kernels):
        made = ask(path, change=(side, kernel))
        assert not made.refused and made.link[side] == kernel and kernel in made.headline
        assert made.error or f"name='{kernel}'" in repr(made.subject)


def test_a_page_of_a_kernel_without_written_probes_runs_on_the_cpu(monkeypatch):
    monkeypatch.setattr(KernelSpec, "plain", property(lambda self: True))
    found = workers.survey().devices
    survey = Survey({"gpu": replace(found["cpu"], backend="gpu"), **found}, {})
    chosen, automatic = (ask(f"tiling?{SMALL}".replace("cpu", name), survey=survey) for name in ("gpu", "auto"))
    assert chosen.backend == automatic.backend == "cpu" and not automatic.told
    assert "Only the CPU traces a kernel in CUDA's own names" in chosen.told[0]


# ---- changes ----


def test_a_changed_choice_is_in_the_answer():
    made = ask(f"tiling?{SMALL}", change=("seq_len", "64"))
    assert made.link["seq_len"] == "64" and made.subject.problem.seq_len == 64 and not made.refused


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("seq_len", "-4"), "seq_len is -4. It must be"),
        (("seq_len", "many"), "seq_len is 'many'. It must be a whole number"),
        (("BLOCK_Q", "7"), "BLOCK_Q is 7. It must be one of"),
        (("kernel", "99_magic"), "kernel is '99_magic'. There is no such kernel here."),
        (("colour", "red"), "colour is not a choice of this page."),
        (("backend", "tpu"), "backend is tpu. It must be one of"),
        (("preset", "no such problem"), "preset is not a choice of this page."),
    ],
)
def test_a_change_that_cannot_be_is_refused_with_its_value_and_everything_else_stays(change, said):
    before, made = ask(f"tiling?{SMALL}"), ask(f"tiling?{SMALL}", change=change)
    assert list(made.refused) == [change[0]] and said in made.refused[change[0]]
    assert (made.link, made.subject, made.error) == (before.link, before.subject, "")


def test_another_kernel_keeps_what_was_chosen_where_it_has_and_allows_that():
    made = ask(f"tiling?{SMALL}&row=3", change=("kernel", "01_naive"))
    assert (made.link["kernel"], made.link["seq_len"], made.link["BLOCK_Q"], made.link["row"]) == (
        "01_naive",
        "40",
        "16",
        "3",
    )
    assert "PAD_K" not in made.link
    broken = ask(f"tiling?{SMALL}&what_if=RESCALE", change=("kernel", "01_naive"))
    assert broken.link["what_if"] == "none"


def test_a_preset_sets_its_fields_and_is_known_again():
    begin = ask("tiling?backend=cpu")
    titles = values(begin, "preset")
    assert len(titles) > 2 and entry(begin, "preset")["value"] in titles
    for title in titles:
        made = ask(f"tiling?{SMALL}", change=("preset", title))
        assert not made.refused and not made.error and entry(made, "preset")["value"] == title
    assert entry(ask("tiling?seq_len=41"), "preset")["value"] == "custom"


def test_a_smaller_problem_moves_what_is_looked_at_and_says_so_once():
    made = ask("tiling?kernel=03_flash&backend=cpu&seq_len=64&at_tile=3&row=15", change=("seq_len", "20"))
    assert made.told == ["at_tile is 3. Here it can be 0 to 1."]
    assert (made.link["at_tile"], made.link["seq_len"]) == ("0", "20")
    assert entry(made, "at_tile")["high"] == 1


def test_an_impossible_problem_is_an_error_with_its_remedy_and_the_choices_are_there_to_mend_it():
    made = ask("tiling?kernel=03_flash&seq_len=16384&backend=cpu")
    assert (
        made.subject is None and "03_flash at seq_len 16384" in made.error and "or a machine with a GPU" in made.error
    )
    assert entry(made, "seq_len")["value"] == "16384"
    assert not ask("tiling?kernel=03_flash&seq_len=16384&backend=cpu", change=("seq_len", "64")).error


def test_a_what_if_is_one_choice_with_its_effect_and_the_scale_at_which_it_shows():
    options = {o["value"]: o for o in entry(ask("tiling?kernel=03_flash"), "what_if")["options"]}
    assert options["none"]["label"] == "As written"
    for constant in KERNELS["03_flash"].what_ifs:
        assert options[constant.name]["label"] == constant.what_if and constant.effect in options[constant.name]["help"]
    assert "from score_scale 30 on" in options["SUBTRACT_MAX"]["help"]
    made = ask("tiling?kernel=03_flash&backend=cpu", change=("what_if", "RESCALE"))
    assert dict(made.subject.settings)["RESCALE"] == 0 and made.subject.broken


def test_a_whatif_that_shows_nothing_at_this_scale_offers_the_scale_at_which_it_does():
    made = ask("tiling?kernel=03_flash&backend=cpu&what_if=SUBTRACT_MAX")
    assert made.offer["set"] == ("score_scale", "30") and "from score_scale 30 on. Here it is 1." in made.offer["text"]
    taken = asking.ask(STORIES["tiling"], made.link, workers.survey(), made.offer["set"])
    assert taken.link["score_scale"] == "30" and taken.offer is None and not taken.refused
    assert ask("tiling?kernel=03_flash&what_if=RESCALE").offer is None and ask("tiling").offer is None


@pytest.mark.parametrize(
    "link", ["any_kernel?kernel=03_flash&SUBTRACT_MAX=0", "compare?a_SUBTRACT_MAX=0", "compare?b_SUBTRACT_MAX=0"]
)
def test_the_scale_is_offered_wherever_values_are_shown(link):
    made = ask(f"{link}&backend=cpu")
    assert made.offer["set"] == ("score_scale", "30")
    assert ask(f"{link}&score_scale=30&backend=cpu").offer is None
    assert ask("source?kernel=03_flash&SUBTRACT_MAX=0").offer is None


@pytest.mark.parametrize("path", ["start", "timing", "memory_hierarchy"])
def test_a_page_without_kernels_has_no_problem_to_choose(path):
    assert ask(path, change=("preset", "tiny")).refused == {"preset": "preset is not a choice of this page."}


# ---- where it runs ----


def test_the_backends_are_told_with_their_devices_and_the_others_with_the_reason():
    options = {o["value"]: o for o in entry(ask("tiling", survey=only("cpu")), "backend")["options"]}
    assert options["cpu"]["label"].startswith("The CPU: ") and options["auto"]["label"].startswith("Automatic: ")
    assert options["gpu"]["why"] == NOWHERE["gpu"]


def test_a_backend_that_is_not_there_is_told_and_the_first_usable_one_taken():
    made = ask("tiling?backend=gpu", survey=only("cpu"))
    (told,) = made.told
    assert told == f"backend is gpu. This machine has no usable gpu backend: {NOWHERE['gpu']}"
    assert made.backend == "cpu" and made.subject.backend == "cpu" and made.link["backend"] == "auto"


def test_a_kernel_that_this_machine_cannot_run_says_so(monkeypatch):
    picky = replace(KERNELS["03_flash"], requires="sm_100a")
    monkeypatch.setitem(page_of("tiling").kernels, "03_flash", picky)
    gpu = replace(workers.survey().devices["cpu"], backend="gpu", name="NVIDIA Test", target="sm_90a")
    made = ask("tiling?kernel=03_flash&backend=gpu", survey=Survey({"gpu": gpu}, {}))
    assert "03_flash needs sm_100a, and NVIDIA Test is sm_90a." in made.error
    assert "It can still be compiled, inspected and shown from recordings." in made.error


# ---- recorded runs ----

TILES = (("BLOCK_Q", 16), ("BLOCK_KV", 16))


def test_recordings_take_the_place_of_the_problem_and_the_build(recordings):
    recordings("03_flash", settings=TILES)
    made = ask("tiling?kernel=03_flash&backend=recorded&seq_len=1000")
    assert made.backend == "recorded" and made.subject.problem == KERNELS["03_flash"].problem_type()
    assert not {choice["group"] for choice in made.choices} & {"problem", "build", "what_if"}
    assert [o["label"] for o in entry(made, "recorded_problem")["options"]] == ["the default problem"]


def test_what_a_link_names_and_the_recording_has_otherwise_is_told(recordings):
    recordings("03_flash", settings=TILES)
    link = "tiling?kernel=03_flash&seq_len=100&at_tile=2&BLOCK_Q=16"
    said = ["seq_len is 100. Recorded is 64.", "at_tile is 2. Recorded is 0."]
    assert ask(f"{link}&backend=recorded").told == said
    assert ask(f"{link}&backend=cpu", change=("backend", "recorded")).told == said
    assert not ask(f"{link}&backend=recorded", carried=True).told
    assert not ask(f"{link}&backend=recorded", change=("recorded_problem", "0")).told


def test_recordings_are_labelled_with_their_own_kernels_defaults(recordings):
    recordings("08b_three_bfloat16", settings=TILES)
    recordings("08b_three_bfloat16", settings=(*TILES, ("PAD", 0)))
    made = ask("tiling?kernel=08b_three_bfloat16&backend=recorded")
    labels = [o["label"] for o in entry(made, "recorded_build")["options"]]
    assert labels == ["BLOCK_Q 16, BLOCK_KV 16", "BLOCK_Q 16, BLOCK_KV 16, PAD 0"]
    other = ask("tiling?kernel=08b_three_bfloat16&backend=recorded", change=("recorded_build", "1"))
    assert dict(other.subject.settings)["PAD"] == 0
    assert entry(asking.ask(STORIES["tiling"], other.link, workers.survey()), "recorded_build")["value"] == "1"


def test_a_recorded_build_is_chosen_with_its_problem(recordings):
    problem = KERNELS["03_flash"].problem_type
    recordings("03_flash")
    recordings("03_flash", settings=(("RESCALE", 0),))
    recordings("03_flash", problem(seq_len=50, head_dim=64, num_heads=1))
    made = ask("tiling?kernel=03_flash&backend=recorded&what_if=RESCALE")
    assert made.link["what_if"] == "RESCALE" and made.subject.broken
    labels = [o["label"] for o in entry(made, "recorded_problem")["options"]]
    assert labels == ["the default problem", "seq_len 50, head_dim 64, num_heads 1"]
    made = asking.ask(STORIES["tiling"], made.link, workers.survey(), ("recorded_problem", "1"))
    assert (made.link["seq_len"], made.link["head_dim"], made.link["what_if"]) == ("50", "64", "none")


def test_what_is_not_recorded_is_said_with_what_to_do(recordings):
    recordings("02_tiled")
    made = ask("tiling?kernel=03_flash&backend=recorded")
    assert "Nothing is recorded of the present code of 03_flash" in made.error
    assert "python -m kernels record" in made.error and entry(made, "kernel")["value"] == "03_flash"


def test_without_gpu_and_compiler_recordings_carry_the_page(recordings):
    recordings("03_flash")
    made = ask("tiling?kernel=03_flash", survey=only("recorded"))
    assert made.backend == "recorded" and not made.error and not made.told


# ---- machine code ----


@pytest.mark.parametrize(
    ("link", "builds"),
    [
        (f"tiling?{SMALL}&what_if=RESCALE&head_dim=32", 1),
        pytest.param(f"online_softmax?{SMALL}&what_if=SUBTRACT_MAX", 1, marks=pytest.mark.slow),
        pytest.param("registers?kernel=08b_three_bfloat16&BLOCK_Q=16&PAD=0&backend=cpu", 1, marks=pytest.mark.slow),
        pytest.param("bank_conflicts?kernel=03_flash&view=attention&BLOCK_Q=8&backend=cpu", 1, marks=pytest.mark.slow),
        ("bank_conflicts?kernel=lab_columns&WIDTH=8&stride=40&backend=cpu", 1),
        pytest.param("coalescing?kernel=lab_global&layout=strided&backend=cpu", 1, marks=pytest.mark.slow),
        pytest.param("block_table?dtype=float16&block_size=8&head_dim=96&backend=cpu", 1, marks=pytest.mark.slow),
        ("block_table?view=partitions&PARTITION=32&backend=cpu", 2),
        ("any_kernel?kernel=03_flash&RESCALE=0&BLOCK_Q=8&backend=cpu", 1),
        ("compare?a=03_flash&b=08b_three_bfloat16&a_RESCALE=0&b_BLOCK_Q=16&b_PAD=0&head_dim=128&backend=cpu", 2),
    ],
)
def test_machine_code_is_of_the_very_build_that_is_shown(link, builds):
    page = open_page(link)
    assert not page.asked.told, page.asked.told
    shown = asking.requests_in(page.asked.subject)
    assert len(page.stage.codes) == builds
    for code in page.stage.codes:
        made = asking.ask(STORIES["source"], code["source"], workers.survey())
        assert not made.told and not made.error
        defines = {**made.subject.problem.defines, **made.subject.kernel.settings(made.subject.settings)}
        build = next(r for r in shown if r.kernel.name == code["kernel"])
        assert defines == build.defines and made.subject.mode == "probed"


@pytest.mark.parametrize("kernel", one_of_each_kind(KERNELS))
def test_a_build_is_linked_whatever_its_problem_is(kernel):
    spec = KERNELS[kernel]
    for case in spec.problem_type.check_cases(spec):
        request = Request(spec, case.problem, tuple(case.settings))
        made = asking.ask(STORIES["source"], source_link(request), workers.survey())
        assert not made.told and not made.error, (request.problem, made.told, made.error)
        assert {**made.subject.problem.defines, **spec.settings(made.subject.settings)} == request.defines


SEEN = {  # by the links of the memory's levels, at the step that they name
    "registers": "scores",
    "bank_conflicts": "bank 0 holds 32 of the words and serves one at a time",
    "coalescing": "sectors",
    "block_table": "Entry 0",
    "tiling": "copies K and V from global",
}


def test_the_memorys_levels_lead_to_pages_at_a_step_that_shows_them():
    page = open_page("memory_hierarchy")
    links = [block for block in page.tab("levels") if block["kind"] == "link"]
    assert {block["story"] for block in links} == set(SEEN)
    for block in links:
        there = open_page(f"{block['story']}?{urlencode(block['query'])}&backend=cpu")
        assert not there.asked.told and not there.asked.error
        step = int(block["query"].get("step", 1 + there.stage.step)) - 1
        assert SEEN[block["story"]] in there.stage.frames[step]["sentence"], there.stage.frames[step]["sentence"]


@pytest.mark.skipif("gpu" in workers.survey().devices, reason="here a timeline is measured")
def test_what_a_link_names_and_the_recorded_timeline_has_otherwise_is_told():
    made = ask("occupancy?kernel=03_flash&view=timeline&recorded=77&seq_len=128")
    (request,) = asking.requests_in(made.subject)
    last = len(timelines.recorded_of("03_flash")) - 1
    assert made.told[0] == f"recorded is 77. The last of 03_flash's timelines is {last}."
    assert f"seq_len is 128. The shown timeline has {request.problem.seq_len}." in made.told
    assert made.link["recorded"] == str(last) and made.link["seq_len"] == str(request.problem.seq_len)
    for number in range(last):  # another one brings its problem, and nobody is told what they did themselves
        made = ask("occupancy?kernel=03_flash&view=timeline", ("recorded", str(number)))
        (request,) = asking.requests_in(made.subject)
        assert not made.told and made.link["seq_len"] == str(request.problem.seq_len)


def test_a_width_that_no_layout_shows_side_by_side_is_told():
    made = ask("coalescing?view=layouts&width=8")
    assert made.told == ["width is 8. Side by side, every layout has its least width."]
    assert made.link["width"] == ask("coalescing?view=layouts").link["width"] != "8"
