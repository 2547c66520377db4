"""Precision in a real Chromium: the errors read off the page are those of the replay of the run's own trace."""

import numpy as np
import pytest
from browser.stepping import asked, count, hover, press, read, sentence
from pages import page_of

from app.choices.links import read_link
from app.measured import sweeps
from app.stories import precision as story_page
from explainers.stories.precision import rounding
from explainers.stories.precision.error_tables import TITLES
from explainers.stories.precision.rounding import STAGES
from kernels.run import execute

FIELDS = "seq_len=80&num_heads=1&causal=true&at_tile=2"


def replays_of(kernel):
    state, _ = read_link(page_of("precision"), {"kernel": kernel, **dict(p.split("=") for p in FIELDS.split("&"))})
    look = story_page.subject(page_of("precision"), state, "cpu")
    chosen, *others = [rounding.replay(execute.run(r)) for r in (look.request, *look.others)]
    return chosen, sorted((chosen, *others), key=lambda r: r.so_far[-1])


@pytest.mark.slow
def test_errors_and_parts_are_those_of_the_replay(visit):
    page, (made, every) = visit(f"/precision?kernel=06_mma&{FIELDS}&backend=cpu&step=1"), replays_of("06_mma")
    assert count(page) == len(STAGES)
    cells = {"S": (made.score, "key", 20), "P": (made.weight, "key", 33), "l": (made.sum, "tile", 1)}
    cells["O"] = made.o, "dim", 7
    row = made.rows[0] + 5
    for step, name in enumerate(STAGES):
        shown = read(page)
        assert shown["step"] == step and shown["title"] == TITLES[name]
        assert float(dict(shown["state"])["RMS error of O so far"]) == float(f"{made.so_far[step]:.2g}")
        for part, (all_errors, axis, column) in cells.items() if step in (1, 4, 7) else ():
            due = np.float32(all_errors[step, 5, column])
            text = hover(page, "Errors", part=part, row=row, **{axis: column})
            assert text.startswith(f"{part} of row {row}, {axis} {column}")
            if due == 0:
                assert "so far no error" in text
            else:
                value, where = text.split("so far ")[1].split("\n")[0].split(" ", 1)
                assert np.float32(value) == abs(due) and where.startswith("below" if due < 0 else "above"), (name, text)
        press(page, "ArrowRight")
    for stage in (1, 2, 4, 7):
        moves = dict(line.split(": ", 1) for line in hover(page, "Errors", step=STAGES[stage]).split("\n"))
        assert {label: float(said.split(" O by ")[1].split(" ")[0]) for label, said in moves.items()} == {
            replay.label: float(f"{replay.sizes[stage]:.6g}") for replay in every
        }
    for replay in every:
        text = hover(page, "Errors", type=replay.label)
        assert text.startswith(f"{replay.label}, {replay.request.kernel.name}, rows ")
        assert float(text.split("RMS error of O: ")[1]) == float(f"{replay.so_far[-1]:.6g}")


def test_a_hidden_key_and_a_type_that_is_not_beside_are_told(visit):
    page = visit("/precision?kernel=03_flash&head_dim=32&seq_len=64&causal=true&num_heads=1&backend=cpu")
    assert "hidden by the causal mask" in hover(page, "Errors", part="S", row=3, key=40)
    page.locator('.wg .tabs [data-tab="types"]').click()
    page.get_by_text(" float16 is missing: head_dim is 32").wait_for()
    assert "bfloat16 is missing: head_dim is 32" in page.locator(".wg").inner_text()


def test_the_worst_row_opens_in_online_softmax(visit):
    made, _ = replays_of("06_mma")
    page = visit(f"/precision?kernel=06_mma&{FIELDS}&backend=cpu")
    page.get_by_role("link", name="Open it in Online softmax").click()
    page.wait_for_url("**/online_softmax?**")
    row = made.worst_rows()[0]
    page.wait_for_function(f"() => window.clock.views.some(view => view.title === 'Row {row}')")
    assert asked(page)["row"] == str(made.worst_rows()[0] - made.rows[0]) and asked(page)["at_tile"] == "2"


def test_without_max_subtraction_fp16_overflows_at_the_rounding_of_weights(visit):
    page = visit("/precision?kernel=06_mma&what_if=SUBTRACT_MAX&score_scale=5&backend=cpu&step=4")
    assert "NaN" not in sentence(page)
    press(page, "ArrowRight")
    assert "From here on O holds NaN or infinity." in sentence(page)


@pytest.mark.slow
def test_sweeps_are_run_for_every_type(visit):
    page = visit("/precision?kernel=06_mma&seq_len=64&num_heads=1&tab=sweep&backend=cpu")
    page.get_by_role("heading", name="Over seq_len", exact=True).wait_for(timeout=60_000)
    table = page.locator(".wg table").first
    values = sweeps.VALUES["score_scale"]["cpu"]
    assert table.locator("tbody tr").count() == 4 * len(values)
