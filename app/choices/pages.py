"""What each page asks beside its kernel, that kernel's problem and constants, and which kernels it lists. No kernel is
named here: a story says which it can show (explainers.story.probed)."""

from dataclasses import replace

from app.choices import (
    cache,
    compared,
    items,
    levels,
    lines,
    masks,
    pipelines,
    places,
    products,
    timelines,
    times,
)
from app.choices.asked import BACKEND, Asked
from app.choices.choice import Choice
from explainers.stories.any_kernel import generic
from explainers.stories.bank_conflicts import bank_conflicts, padding
from explainers.stories.block_table import block_table, page_reads
from explainers.stories.coalescing import coalescing
from explainers.stories.compare import two_kernels
from explainers.stories.online_softmax import online_softmax
from explainers.stories.precision import precision
from explainers.stories.registers import threads
from explainers.stories.sparsity import sparsity
from explainers.stories.tensor_cores import tensor_cores
from explainers.stories.tiling import tiling
from explainers.story import probed
from kernels.build import DEFAULT_ARCH, Mode
from kernels.build.occupancy import MACHINES
from kernels.catalog import KERNELS
from kernels.core.launch import ConstantRole
from kernels.core.spec import KernelSpec

# A small problem has several tiles with these defaults.
SMALL: dict[ConstantRole, int] = {"query_rows": 16, "key_rows": 16}
LARGE = {"seq_len": 4096, "head_dim": 64, "num_heads": 8}  # enough blocks to fill a GPU
ARCHES = tuple(f"{arch}a" if arch in ("sm_90", "sm_100", "sm_120") else arch for arch in MACHINES)
MODES = tuple(mode.value for mode in Mode)
_WALKED = probed.first(block_table)  # the cache's problem is what this kernel solves


def _one_of(*allowed: str) -> Choice:
    return Choice(allowed[0], allowed)


def _next_rung(spec: KernelSpec) -> KernelSpec:
    """The kernel that was made from this one by one change; itself if there is none."""
    return next((other for other in KERNELS.values() if other.changed_from == spec.name), spec)


_TILED = probed.first(tiling)
TWO_RUNGS = (_TILED.name, _next_rung(_TILED).name)  # what is compared and timed to begin with
TILING = Asked(
    probed.accepting(tiling),
    (_TILED.name,),
    own=places.TILE,
    begin_of_role=SMALL,
    one_what_if=True,
    settle=places.settle,
    refusal=tiling.refusal,
)
ONLINE_SOFTMAX = replace(
    TILING,
    kernels=probed.accepting(online_softmax),
    first=(probed.first(online_softmax).name,),
    refusal=online_softmax.refusal,
)
REGISTERS = replace(TILING, first=(threads.first(TILING.kernels.values()).name,))
TENSOR_CORES = replace(
    TILING,
    kernels=probed.accepting(tensor_cores),
    first=(probed.first(tensor_cores).name,),
    own=products.OWN,
    settle=products.settle,
    refusal=tensor_cores.refusal,
)
PRECISION = replace(
    TILING,
    kernels=probed.accepting(precision),
    first=(precision.first(probed.accepting(precision).values()).name,),
    own=places.WHOLE_TILE,
    refusal=precision.refusal,
    begin_of_role=SMALL,
    begin={"head_dim": 64, "num_heads": 1},  # which every type has; of four kernels one head is traced
)
# The kernels whose reads of a page are counted: they solve a problem that a cache can be made into.
PAGE_READERS = tuple(spec for spec in probed.accepting(page_reads).values() if spec.problem_type.attends_to_cache())
BLOCK_TABLE = Asked(
    {name: spec for name, spec in probed.accepting(block_table).items() if spec.same_problems(_WALKED)},
    (_WALKED.name,),
    own=cache.OWN,
    begin_of_role={"partition": cache.SHOWN_PARTITION},
    without=cache.GIVEN,
    every_constant=True,
    recorded=False,
    settle=cache.settle,
)
SPARSITY = Asked(
    probed.accepting(sparsity),
    (probed.first(sparsity).name,),
    own=masks.OWN,
    begin_of=masks.beginning,
    one_what_if=True,
    settle=masks.settle,
    refusal=sparsity.refusal,
)


def banks_view(asked: Asked, state: dict) -> list[str]:
    """Every kernel; where padding is the subject, those that can pad."""
    return [name for name, spec in asked.kernels.items() if state["view"] == "lab" or padding.pads(spec)]


def sectors_view(asked: Asked, state: dict) -> list[str]:
    """Every kernel; where layouts are the subject, those whose problem has one."""
    return [name for name, spec in asked.kernels.items() if state["view"] != "layouts" or coalescing.has_layouts(spec)]


def _settle_sectors(asked: Asked, state: dict) -> list[tuple[str, str]]:
    """The source line; side by side every layout has the least width that it takes, whatever a link says."""
    moved = lines.settling("global", sectors_view)(asked, state)
    width = asked.known(state).get("width")
    if state["view"] == "layouts" and width and state["width"] != width.begin:
        moved.append(("width", f"width is {state['width']}; side by side every layout has the least that it takes."))
        state["width"] = width.begin
    return moved


BANKS = Asked(
    probed.accepting(bank_conflicts),
    (probed.first(bank_conflicts).name,),
    own={"view": _one_of("lab", "attention"), "line": lines.LINE},
    settle=lines.settling("shared", banks_view),
)
COALESCING = Asked(
    probed.accepting(coalescing),
    (probed.first(coalescing).name,),
    own={"view": _one_of("attention", "layouts"), "line": lines.LINE},
    former={"page_tokens": "block_size"},
    settle=_settle_sectors,
)
OCCUPANCY = Asked(
    KERNELS,
    (_TILED.name,),
    own={
        "view": _one_of("occupancy", "timeline"),
        "arch": Choice(DEFAULT_ARCH, ARCHES),
        "backend": BACKEND,
        "recorded": Choice(0, low=0, high=1000, meaning="which of the timelines that are recorded of this kernel"),
    },
    begin=LARGE,
    recorded=False,
    runs=False,
    settle=timelines.settle,
)
_NOTED = {name: KERNELS[name] for name in dict.fromkeys(e.request.kernel.name for e in pipelines.recorded())}
_IN_TURNS = [name for name, spec in _NOTED.items() if spec.constant_of("turns")]
PIPELINE = Asked(
    _NOTED,
    tuple([*_IN_TURNS, *_NOTED][:1]),  # the first whose warpgroups take turns
    own=pipelines.own(),
    begin_of=pipelines.beginning,
    recorded=False,
    runs=False,
    settle=pipelines.settle,
)
SOURCE = Asked(
    KERNELS,
    (_TILED.name,),
    own={"build": Choice("timed", MODES), "arch": Choice(DEFAULT_ARCH, ARCHES)},
    recorded=False,
    runs=False,
)
COMPARE = Asked(
    probed.accepting(two_kernels),
    TWO_RUNGS,
    sides=("a", "b"),
    own=compared.OWN,
    begin_of=compared.beginning,
    second=compared.another,
    settle=compared.settle,
)
ANY_KERNEL = Asked(
    probed.accepting(generic),
    (probed.first(generic).name,),
    own=items.OWN,
    begin_of_role=SMALL,
    settle=items.settle,
)
HIERARCHY = Asked(own=levels.OWN, settle=levels.settle)
TIMING = Asked(own=times.OWN, settle=times.settle)
