"""What each page asks beside its kernel, that kernel's problem and constants, and which kernels it lists. No kernel is
named here: a story says which it can show (explainers.stories)."""

from app.choices import cache, lines, places
from app.choices.asked import BACKEND
from app.choices.choice import Choice
from app.choices.page import Page
from explainers import bank_conflicts, block_table, coalescing, compare, generic, online_softmax, stories, tiling
from kernels.build import DEFAULT_ARCH, Mode
from kernels.build.occupancy import MACHINES
from kernels.catalog import KERNELS
from kernels.core.spec import KernelSpec

SMALL = {"BLOCK_Q": 16, "BLOCK_KV": 16}  # rows and keys of a tile to begin with: a small problem then has several tiles
LARGE = {"seq_len": 4096, "head_dim": 64, "num_heads": 8}  # enough blocks to fill a GPU
ARCHES = tuple(f"{arch}a" if arch in ("sm_90", "sm_100", "sm_120") else arch for arch in MACHINES)
MODES = tuple(mode.value for mode in Mode)
_WALKED = stories.first(block_table)  # the cache's problem is what this kernel solves


def _one_of(*allowed: str) -> Choice:
    return Choice(allowed[0], allowed)


def _next_rung(spec: KernelSpec) -> KernelSpec:
    """The kernel that was made from this one by one change; itself if there is none."""
    return next((other for other in KERNELS.values() if other.changed_from == spec.name), spec)


_TILED = stories.first(tiling)
TWO_RUNGS = (_TILED.name, _next_rung(_TILED).name)  # what is compared and timed to begin with
TILING = Page(
    "", stories.accepting(tiling), (_TILED.name,), own=places.TILE, begin=SMALL, one_what_if=True, settle=places.settle
)  # these two share their choices
ONLINE_SOFTMAX = Page(
    "",
    stories.accepting(online_softmax),
    (stories.first(online_softmax).name,),
    own=places.TILE,
    begin=SMALL,
    one_what_if=True,
    settle=places.settle,
)
BLOCK_TABLE = Page(
    "cache",
    {name: spec for name, spec in stories.accepting(block_table).items() if spec.problem_type is _WALKED.problem_type},
    (_WALKED.name,),
    own=cache.OWN,
    begin={"PARTITION": cache.SHOWN_PARTITION},
    without=cache.GIVEN,
    every_constant=True,
    settle=cache.settle,
)
BANKS = Page(
    "banks",
    stories.accepting(bank_conflicts),
    (stories.first(bank_conflicts).name,),
    own={"view": _one_of("lab", "attention"), "line": lines.LINE},
)
COALESCING = Page(
    "coalescing",
    stories.accepting(coalescing),
    (stories.first(coalescing).name,),
    own={"view": _one_of("attention", "layouts"), "line": lines.LINE},
    former={"page_tokens": "block_size"},
)
OCCUPANCY = Page(
    "occupancy",
    KERNELS,
    (_TILED.name,),
    own={
        "view": _one_of("occupancy", "timeline"),
        "arch": Choice(DEFAULT_ARCH, ARCHES),
        "recorded": Choice(2, low=0, high=1000),
    },
    begin=LARGE,
)
SOURCE = Page(
    "source", KERNELS, (_TILED.name,), own={"arch": Choice(DEFAULT_ARCH, ARCHES), "build": Choice("timed", MODES)}
)
COMPARE = Page(
    "compare",
    stories.accepting(compare),
    TWO_RUNGS,
    sides=("a", "b"),
    own=places.QUERY,
    begin=SMALL,
    settle=places.settle,
)
ANY_KERNEL = Page(
    "any",
    stories.accepting(generic),
    (stories.first(generic).name,),
    own={"at_item": Choice(0, low=0, high=2**31 - 1, meaning="which item's blocks write a trace")},
    begin=SMALL,
)
HIERARCHY = Page("hierarchy", own={"backend": BACKEND})
TIMING = Page("timing", own={name: Choice("", late=True) for name in ("gpus", "sweep", "baseline", "hide")})
