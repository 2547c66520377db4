"""Start: a small flash run that moves, an explanation of attention and of a GPU, and the ladder of kernels.

The page has no toolbar. Its only choice is the place to run.
"""

from app.choices.described import TITLES
from app.choices.page import BACKEND, Page, State
from app.parts import running
from app.parts.explained import story_of
from app.stories import online_softmax, tiling
from explainers.stories.start import story
from explainers.stories.start.story import Shown
from explainers.story.stage import Block
from kernels.build import folders
from kernels.catalog import Catalog, current
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import BackendUnavailable
from kernels.jail import setting
from kernels.recordings import run_index
from kernels.run import workers

ALIVE = {"seq_len": 64, "head_dim": 32, "num_heads": 1, "batch": 1}  # of the run that moves: some tiles, soon there


def subject(page: Page, state: State, backend: str) -> Shown:
    survey = workers.survey()
    where = [(TITLES[name], f"{device.name} {device.driver}".strip()) for name, device in survey.devices.items()]
    where += [(TITLES[name], f"not here: {reason}") for name, reason in survey.reasons.items()]
    if said := setting.sentence():
        where.append(("Your kernels", said))
    faults = (*page.catalog.faults, *run_index.left_out(), *filter(None, [folders.notice()]))
    return Shown(_alive(page.catalog, backend), tuple(where), faults)


def _alive(catalog: Catalog, backend: str) -> Request:
    """The default kernel of Online softmax on a small problem, or its smallest recording."""
    softmax = online_softmax.STORY.page(catalog)
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


def spine(shown: Shown) -> list[Block]:
    """The ladder, on the default problem of the kernel that moves."""
    kernel, backend = shown.request.kernel, shown.request.backend
    rungs = tiling.STORY.page(current()).solving(kernel).values()
    requests = [Request(spec, kernel.problem_type(), backend=backend) for spec in rungs]
    where = TITLES[backend]
    return story.ladder_tab(requests, f"{where[0].lower()}{where[1:]}", running)


STORY = story_of(
    story.STORY,
    path="start",
    title="Start",
    look="One query tile of a flash attention kernel, step by step.",
    page=lambda catalog: Page(catalog, own={"backend": BACKEND}),
    subject=subject,
    order=0,
    parts={"ladder": spine},
)
