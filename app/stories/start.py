"""Start: a small flash run that moves, an explanation of attention and of a GPU, and the ladder of kernels.

The page has no toolbar. Its only choice is the place to run.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

from app.choices.described import TITLES
from app.choices.page import BACKEND, Page, State
from app.parts import running
from app.parts.story import Story
from app.stories import online_softmax
from app.stories import tiling as tiling_story
from explainers.stories.start import ladder
from explainers.stories.tiling import tiling
from explainers.story import picture, stage
from explainers.story.stage import Block, Stage
from kernels.build import folders
from kernels.catalog import Catalog, current
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import BackendUnavailable
from kernels.recordings import run_index, tables
from kernels.run import workers
from kernels.run.backends import PROVENANCE

ALIVE = {"seq_len": 64, "head_dim": 32, "num_heads": 1, "batch": 1}  # of the run that moves: some tiles, soon there


@dataclass(frozen=True)
class Shown:
    """The content of the page.

    request: the run that moves.
    where: backend in words -> its device, or the reason why it cannot be used.
    faults: of the user's kernels, of recordings and of the cache folder.
    """

    request: Request
    where: tuple[tuple[str, str], ...]
    faults: tuple[str, ...]


@lru_cache(maxsize=2)
def page(catalog: Catalog) -> Page:
    return Page(catalog, own={"backend": BACKEND})


def subject(page: Page, state: State, backend: str) -> Shown:
    survey = workers.survey()
    where = [(TITLES[name], f"{device.name} {device.driver}".strip()) for name, device in survey.devices.items()]
    where += [(TITLES[name], f"not here: {reason}") for name, reason in survey.reasons.items()]
    faults = (*page.catalog.faults, *run_index.left_out(), *filter(None, [folders.notice()]))
    return Shown(_alive(page.catalog, backend), tuple(where), faults)


def _alive(catalog: Catalog, backend: str) -> Request:
    """The default kernel of Online softmax on a small problem, or its smallest recording."""
    softmax = online_softmax.page(catalog)
    spec = softmax.kernels[softmax.first[0]]
    fields = spec.problem_type.__dataclass_fields__
    if backend != "recorded":
        problem = spec.problem_type(**{name: value for name, value in ALIVE.items() if name in fields})
        settings = tuple(softmax.settings_of(softmax.default_state(), kernel=spec).items())
        middle = Request(spec, problem, settings).plan.items // 2
        return Request(spec, problem, settings, Scope(middle), backend)
    what_ifs = {c.name: c.default for c in spec.what_ifs}
    found = [e for e in run_index.of(spec) if all(e.settings.get(name, v) == v for name, v in what_ifs.items())]
    if not found:
        raise BackendUnavailable(f"Nothing is recorded of the present code of {spec.name}.")
    entry = min(found, key=lambda e: e.problem.get("seq_len", 0) * e.problem.get("head_dim", 0))
    problem = spec.problem_type(**{k: tuple(v) if isinstance(v, list) else v for k, v in entry.problem.items()})
    return Request(spec, problem, tuple(entry.settings.items()), Scope(entry.scope.first), backend)


def make(shown: Shown) -> Stage:
    run = running.run(shown.request)
    result = tiling.stage_of(run, running.provenance(run))
    said = [stage.text(f"{name}: {text}.".replace("..", ".")) for name, text in shown.where]
    faults = [stage.note(fault, "bad") for fault in (*shown.faults, *tables.unreadable())]
    return replace(result, codes=(), tabs=(), views=result.views[:1], side=[*said, *faults], questions=(), step=0)


def spine(shown: Shown) -> list[Block]:
    """The ladder, each rung with its bytes on one problem and its recorded time."""
    kernel = shown.request.kernel
    problem, rungs = kernel.problem_type(), list(tiling_story.page(current()).solving(kernel).values())
    requests = [Request(spec, problem, backend=shown.request.backend) for spec in rungs]
    counted, absent = running.traffic_of_each(requests)
    timed, said = ladder.times(rungs, tables.recorded("bench"))
    heads = " x ".join(str(n) for n in picture.tensor_at(requests[0], "Q").shape)
    where = TITLES[requests[0].backend]
    about = (
        "Bytes read from and written to global memory, counted in the probes of whole runs "
        f"({where[0].lower()}{where[1:]}); Q, K and V are {heads}."
    )
    if timed:
        about += f" Times, of another problem and of the builds that are named: the median of one run; {said}."
    label, rows = PROVENANCE[requests[0].backend], ladder.rungs(counted, timed)
    return [{"kind": "ladder", "rungs": rows, "label": label, "about": " ".join([about, *absent])}]


STORY = Story(
    path="start",
    title="Start",
    look="One query tile of a flash attention kernel, step by step.",
    page=page,
    subject=subject,
    order=0,
    stop=False,
    make=make,
    parts={"ladder": spine},
)
