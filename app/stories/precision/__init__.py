"""Precision: the source of the error in a kernel's output, next to equal numbers in every other type."""

from dataclasses import dataclass, replace
from functools import lru_cache

import pandas as pd

from app.choices import estimates, pages, places
from app.choices.page import Page, State
from app.measured import sweeps
from app.parts import running, tabs
from app.parts.story import Story
from app.stories.precision import choices
from explainers.stories.precision import error_tables, precision, precision_charts, replay, replays, rounding
from explainers.story import picture, stage
from explainers.story.stage import Block, Stage
from kernels.catalog import Catalog
from kernels.core.request import Request
from kernels.errors import WarpglassError
from kernels.run import execute
from kernels.run.results import Run

DEFAULTS = {"head_dim": 64, "num_heads": 1}  # sizes of every type. For four kernels, one head is traced


@dataclass(frozen=True)
class Look:
    """The requests of the page.

    request: of the chosen kernel.
    others: of the other types.
    absent: (type, reason) of each type without a request.
    """

    request: Request
    others: tuple[Request, ...]
    absent: tuple[tuple[str, str], ...]


@lru_cache(maxsize=2)
def page(catalog: Catalog) -> Page:
    tiles = pages.of_tiles(precision, catalog, own=places.WHOLE_TILE, defaults=DEFAULTS)
    return replace(tiles, first=(precision.first(tiles.kernels.values()).name,)) if tiles.kernels else tiles


def subject(page: Page, state: State, backend: str) -> Look:
    others, absent = choices.others(page, state, backend)
    return Look(places.request(page, state, backend), others, absent)


def make(look: Look) -> Stage:
    run = running.run(look.request)
    story, absent = _story(look)
    summary = running.broken(run)
    return precision.stage_of(story, run, running.provenance(run), summary, absent)


def _story(look: Look) -> tuple[replays.Replays, list[tuple[str, str]]]:
    """The story, and (type, why) of each that is not in it."""
    found, absent = list[Run](), [*look.absent]
    for request in look.others:
        label = replay.label_of(request)
        try:
            if rounding.same_numbers(look.request, request):
                found.append(running.run(request))
            else:
                absent.append((label, f"{request.kernel.name} cannot be given the same Q, K, V and mask."))
        except WarpglassError as error:
            absent.append((label, error.brief))
    return precision.explain(running.run(look.request), found), absent


def lead(look: Look) -> list[Block]:
    """The worst row, and the way to it."""
    replayed = rounding.replay(running.run(look.request))
    said, row = error_tables.lead_sentence(replayed)
    return [stage.text(said, links=[_row(replayed, row, "Open it in Online softmax")])]


def _row(replayed: replay.Replay, row: int, said: str) -> Block:
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


def types_tab(look: Look) -> list[Block]:
    """The error of every type, its causes, and its meaning for a model."""
    story, absent = _story(look)
    said = "Against float64 from the numbers as drawn. " + " ".join(_rows(replayed) for replayed in story.all)
    said += "".join(f" {label} is not beside: {why}" for label, why in absent)
    return [
        stage.heading("The same numbers in every type"),
        stage.table(error_tables.types_table(story), said, lit="chosen"),
        stage.text(
            "float32 as 3 bfloat16: every float is the sum of three bfloat16, and tensor cores multiply the parts."
        ),
        stage.heading("By how much each step moves O"),
        stage.table(error_tables.parts_table(story), "Root mean square over the elements of O."),
        stage.heading("What that means for a model"),
        *(stage.text(error_tables.meaning(replayed), "derived") for replayed in story.all),
    ]


def _rows(replayed: replay.Replay) -> str:
    return f"{replayed.label}: rows {replayed.rows[0]} to {replayed.rows[1] - 1}."


def spread_tab(look: Look) -> list[Block]:
    """How the errors of O's elements are distributed, type by type."""
    story, _ = _story(look)
    said = "Of the step that is shown. The further left, the better; an element without error is not drawn."
    chart = precision_charts.spread(story)
    return [stage.chart(chart, "The share of elements of O off by at most so much, for each type", said, "O's error")]


def _sweeps(look: Look) -> list[Request]:
    """Every request of the sweeps."""
    return [
        swept
        for field in sweeps.VALUES
        for request in (look.request, *look.others)
        for swept in sweeps.swept(request, field)
    ]


def sweep_tab(look: Look) -> list[Block]:
    """O's error over score_scale and seq_len, type by type: run now, and as a GPU's are recorded."""
    story, _ = _story(look)
    blocks: list[Block] = []
    for field in sweeps.VALUES:
        requests = [swept for each in story.all for swept in sweeps.swept(each.request, field)]
        # these runs are not kept, because they would replace the runs of the stage
        runs = [execute.run(request) for request in requests]
        table = error_tables.sweep_table(field, [rounding.replay(run) for run in runs])
        if not table.empty:
            blocks += _sweep(field, table, f"Over {field}", runs[0].provenance)
    found = sweeps.recorded()
    for field in sweeps.VALUES if found else ():
        made, where = found
        blocks += _sweep(
            field,
            sweeps.recorded_sweep(made, field),
            f"Over {field}, on {where.device}",
            f"recorded on {where.device}, {where.date}, head_dim {sweeps.BEGIN['head_dim']}",
        )
    nothing = "A sweep is run, and this page shows recorded runs. Choose another place to run under More."
    return blocks or [stage.note(nothing)]


def _sweep(field: str, table: pd.DataFrame, title: str, provenance: str) -> list[Block]:
    """A sweep's chart, and its table (error_tables.sweep_table)."""
    said = f"O of the first query tile of head 0, {provenance}; against float64 from the numbers as drawn."
    chart = stage.chart(
        precision_charts.sweep(field, table), f"O's error {title[0].lower()}{title[1:]}, for each type", said
    )
    shown = table.assign(**{name: [f"{v:.2g}" for v in table[name]] for name in ("RMS error of O", "relative error")})
    return [stage.heading(title), chart, stage.table(shown, f"{title}, in numbers; the step that moves O the most.")]


def rows_tab(look: Look) -> list[Block]:
    """The worst rows, and the largest errors row by row and tile by tile."""
    replayed = rounding.replay(running.run(look.request))
    links = [_row(replayed, int(row), f"row {row}") for row in replayed.worst_rows()[: error_tables.SHOWN_ROWS]]
    said = "The largest error of each row in the end; of the tile that is traced."
    chart = stage.chart(
        precision_charts.tiles(replayed),
        "The largest error of scores, shares, sum and O for each row and key tile",
        "Scores and shares: of the keys of the tile. Sum and O: after the tile. Against float64 from the numbers as "
        "drawn.",
    )
    return [
        stage.heading("The worst rows"),
        stage.table(error_tables.worst_rows_table(replayed), said),
        stage.text("Open in Online softmax:", links=links),
        stage.heading("Row by row, tile by tile"),
        chart,
    ]


STORY = Story(
    path="precision",
    title="Precision",
    look="Float64 is given the kernel's own numbers, one kind a step. Look for the step at which the error appears: "
    "with what goes in, in the sums, in the exponential, or when P and O are rounded.",
    page=page,
    subject=subject,
    order=90,
    make=make,
    launches={"sweep": lambda look: estimates.run(_sweeps(look))},
    parts={
        "lead": lead,
        "types": types_tab,
        "spread": spread_tab,
        "sweep": sweep_tab,
        "rows": rows_tab,
        **tabs.PARTS,
    },
)
