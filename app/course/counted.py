"""The kinds of gains that follow from the sizes of a problem by a rule, without a recording."""

from collections.abc import Callable, Mapping

from app.course.compared import Compared, sizes_of
from app.course.stop import Gain, StopError
from explainers.stories.block_table import serving
from kernels.build.occupancy import MACHINES, limits
from kernels.catalog import Catalog
from kernels.kv_cache.scenarios import SERVED
from kernels.measure.protocol import plan_bytes
from kernels.trace.memory.model import global_sectors

WARP = 32  # lanes


def _cache(gain: Gain, catalog: Catalog) -> Compared:
    """The bytes of K and V that a run reads at least once."""

    def read(name: str, problem: Mapping[str, object]) -> float:
        work = catalog.kernels[name].problem_type(**_as_tuples(problem)).work
        return sum(size for tensor, size in work.touched.items() if tensor in ("k_cache", "v_cache"))

    before = {**gain.problem, **gain.before_problem}
    place = "counted from the sizes of the problem"
    return Compared(read(gain.kernel, gain.problem), read(gain.before, before), "B", place)


def _as_tuples(problem: Mapping[str, object]) -> dict[str, object]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in problem.items()}


def _sectors(gain: Gain, catalog: Catalog) -> Compared:
    """The sectors of a warp's access of global memory. problem: bytes of a lane, and stride in bytes between lanes."""

    def count(access: Mapping[str, object]) -> int:
        stride, width = int(str(access["stride"])), int(str(access["bytes"]))
        return global_sectors([lane * stride for lane in range(WARP)], width).sectors

    place = "counted by the rule of sectors"
    before = {**gain.problem, **gain.before_problem}
    return Compared(count(gain.problem), count(before), "sectors", place)


def _stored(gain: Gain, catalog: Catalog) -> Compared:
    """The bytes of LSE, one number per query, against those of P, one number for each query and key."""
    problem = catalog.kernels[gain.kernel].problem_type(**_as_tuples(gain.problem))
    part = {problem.picture.get(tensor.name, tensor.name): tensor for tensor in problem.tensors()}
    lse = next(tensor for tensor in part.values() if tensor.axes == ("batch", "head", "query"))
    keys = part["K"].shape[part["K"].axes.index("key")]
    place, sizes = "counted from the sizes of the problem", sizes_of(problem.values())
    return Compared(lse.nbytes, lse.size * keys * part["O"].itemsize, "B", place, sizes, sizes)


def _moved(gain: Gain, catalog: Catalog) -> Compared:
    """The least bytes of all launches of a kernel: each launch reads or writes each of its tensors once."""

    def count(name: str) -> int:
        spec = catalog.kernels[name]
        problem = spec.problem_type(**_as_tuples(gain.problem))
        plan, work = spec.plan(problem, tuple(spec.settings_for(problem).items())), problem.work
        return plan_bytes(plan, work.touched if work else {})

    place, sizes = "counted from the sizes of the tensors", sizes_of(gain.problem)
    return Compared(count(gain.kernel), count(gain.before), "B", place, sizes, sizes)


def _warps(gain: Gain, catalog: Catalog) -> Compared:
    """The warps of an SM. problem: threads, registers and shared_bytes of a build's block."""

    def count(block: Mapping[str, object]) -> int:
        threads, registers, shared = (int(str(block[name])) for name in ("threads", "registers", "shared_bytes"))
        return min(limits(threads, registers, shared, MACHINES["sm_90"]).values()) * threads // WARP

    before = {**gain.problem, **gain.before_problem}
    return Compared(count(gain.problem), count(before), "warps", "warps counted from the registers of each build")


def _serving(gain: Gain, catalog: Catalog) -> Compared:
    """The steps until all answers end: with pages, and with reserved slots before."""
    paged, reserved = serving.ends(SERVED[str(gain.problem["scenario"])], int(str(gain.problem["block_size"])))
    if reserved is None:
        raise StopError(
            f"The scenario {gain.problem['scenario']} cannot be served with reserved slots. Choose another."
        )
    return Compared(paged, reserved, "steps", "counted in the model of a server")


COUNTED: dict[str, Callable[[Gain, Catalog], Compared]] = {
    "cache": _cache,
    "moved": _moved,
    "sectors": _sectors,
    "serving": _serving,
    "stored": _stored,
    "warps": _warps,
}
