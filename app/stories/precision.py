"""Precision: the source of the error in a kernel's output, next to equal numbers in every other type."""

from dataclasses import replace

import pandas as pd

from app.choices import block_places, estimates, pages, places
from app.choices.page import NONE, Correction, Descriptions, Page, State
from app.measured import sweeps
from app.parts import running
from app.parts.explained import story_of
from explainers.stories.precision import error_tables, gradients, rounding, story
from explainers.stories.precision.story import Look
from explainers.story import picture, probed, stage
from explainers.story.glossary import short
from explainers.story.stage import Block
from kernels.catalog import Catalog
from kernels.core.fields import fields_of
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import WarpglassError
from kernels.run import execute

DEFAULTS = {"head_dim": 64, "num_heads": 1}  # sizes of every type. For four kernels, one head is traced


def page(catalog: Catalog) -> Page:
    own = {"own": places.WHOLE_TILE, "correct": correct, "describe": describe}
    tiles = pages.of_tiles(story.STORY, catalog, defaults=DEFAULTS, **own)
    forward = probed.accepting(rounding, tiles.kernels)
    return replace(tiles, first=(rounding.first(forward.values()).name,)) if forward else tiles


def subject(page: Page, state: State, backend: str) -> Look:
    if is_backward(page, state):
        return Look(block_places.request(page, state, backend), (), ())
    return Look(places.request(page, state, backend), *others(page, state, backend))


def lead(look: Look) -> list[Block]:
    replayed = rounding.replay(running.run(look.request))
    said, row = story.lead_sentence(replayed)
    return [stage.text(said, links=[_row(replayed, row, "Open it in Online softmax")])]


def _row(replayed: rounding.Replay, row: int, said: str) -> Block:
    """A way to a row, counted in its head."""
    request, size = replayed.request, places.room(replayed.request)
    problem = request.problem.texts()
    constants = {c.name: str(request.constants[c.name]) for c in request.kernel.constants if not c.what_if}
    broken = {"what_if": request.broken[0].name} if request.broken else {}
    head, first, _ = picture.query_rows(request)
    batch, head = divmod(head, size.heads)
    at = {"at_batch": batch, "at_head": head, "at_tile": first // size.rows, "row": row - first}
    places_said = {name: str(value) for name, value in at.items()}
    query = {"kernel": request.kernel.name, **problem, **constants, **broken, **places_said}
    return stage.link(said, "online_softmax", query)


def sweep_tab(look: Look) -> list[Block]:
    """O's error over score_scale and seq_len, type by type: run now, and recorded on a GPU."""
    replays, _ = story.replays_of(look, running)
    blocks: list[Block] = []
    for field in sweeps.VALUES:
        requests = [swept for each in replays.all for swept in sweeps.swept(each.request, field)]
        # these runs are not kept, because they would replace the runs of the stage
        runs = [execute.run(request) for request in requests]
        table = error_tables.sweep_table(field, [rounding.replay(run) for run in runs])
        if not table.empty:
            blocks += _sweep(field, table, f"Over {field}", runs[0].provenance)
    if found := sweeps.recorded():
        made, where = found
        said = f"recorded on {where.device}, {where.date}, head_dim {sweeps.BEGIN['head_dim']}"
        for field in sweeps.VALUES:
            blocks += _sweep(field, sweeps.recorded_sweep(made, field), f"Over {field}, on {where.device}", said)
    nothing = "A sweep needs new runs, and this page shows recorded runs. Choose another place to run under More."
    return blocks or [stage.note(nothing)]


def _sweep(field: str, table: pd.DataFrame, title: str, provenance: str) -> list[Block]:
    said = (
        f"O of the first query tile of head 0, {provenance}. The reference is float64 with Q, K and V before rounding."
    )
    chart = stage.chart(
        error_tables.sweep(field, table), f"O's error {title[0].lower()}{title[1:]}, for each type", said
    )
    shown = table.assign(**{name: [short(v, 2) for v in table[name]] for name in ("RMS error of O", "relative error")})
    caption = f"{title}, in numbers. The last column names the step with the largest change of O."
    return [stage.heading(title), chart, stage.table(shown, caption)]


def rows_tab(look: Look) -> list[Block]:
    """The worst rows, and the largest errors row by row and tile by tile."""
    replayed = rounding.replay(running.run(look.request))
    links = [_row(replayed, int(row), f"row {row}") for row in replayed.worst_rows()[: error_tables.SHOWN_ROWS]]
    said = "The largest error of each row after the last step. The rows are of the traced query tile."
    chart = stage.chart(
        error_tables.tiles(replayed),
        "The largest error of scores, shares, sum and O for each row and key tile",
        "Scores and shares are of the keys of the tile. Sum and O are after the tile. The reference is float64 with Q, "
        "K and V before rounding.",
    )
    return [
        stage.heading("The worst rows"),
        stage.table(error_tables.worst_rows_table(replayed), said),
        stage.text("Open in Online softmax:", links=links),
        stage.heading("Row by row, tile by tile"),
        chart,
    ]


# ---- the choices ----


def is_backward(page: Page, state: State) -> bool:
    """Whether the chosen kernel makes gradients. Its places are blocks of keys and of queries."""
    return gradients.is_backward(page.kernel_of(state))


def correct(page: Page, state: State) -> list[Correction]:
    return block_places.correct(page, state) if is_backward(page, state) else places.correct(page, state)


def describe(page: Page, state: State) -> Descriptions:
    return block_places.describe(page, state) if is_backward(page, state) else places.describe(page, state)


def others(page: Page, state: State, backend: str) -> tuple[tuple[Request, ...], tuple[tuple[str, str], ...]]:
    """The requests of the other types, and (type, reason) of each type without one.

    Each request traces the query tile with the first row of the chosen one, without a what-if. Raises ProblemError if
    the chosen request has no such tile.
    """
    chosen = places.request(page, state, backend)
    values, whole_state = chosen.problem.values(), {**state, "what_if": NONE}
    found: list[Request] = []
    absent: list[tuple[str, str]] = []
    for label, (spec, changes) in rounding.of_each_type(probed.accepting(rounding, page.kernels).values()).items():
        if label == rounding.label_of(chosen):
            continue
        try:
            fields = {name: values[name] for name in fields_of(spec.problem_type) if name in state and name in values}
            settings = tuple(page.settings_of(whole_state, kernel=spec).items())
            whole = Request(spec, spec.problem_type(**{**fields, **changes}), settings, Scope(), backend)
            size, (head, row, _) = places.room(whole), picture.query_rows(chosen)
            found.append(replace(whole, scope=Scope(head * size.tiles + row // size.rows)))
        except WarpglassError as error:
            absent.append((label, error.brief))
    return tuple(found), tuple(absent)


STORY = story_of(
    story.STORY,
    path="precision",
    title="Precision",
    look="Each step gives float64 one more kind of the kernel's own numbers. Look for the step with the error: "
    "the inputs, the sums, the exponential, or the rounding of P and O.",
    page=page,
    subject=subject,
    order=90,
    launches={
        "sweep": lambda look: estimates.run(
            swept
            for field in sweeps.VALUES
            for request in (look.request, *look.others)
            for swept in sweeps.swept(request, field)
        )
    },
    parts={"lead": lead, "sweep": sweep_tab, "rows": rows_tab},
)
