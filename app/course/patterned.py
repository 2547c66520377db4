"""A kind of gain from the recorded cycles of two ways of a pattern."""

from collections.abc import Mapping

from app.course.compared import Compared, sizes_of
from app.course.stop import Gain, StopError
from kernels.catalog import Catalog
from kernels.core.request import Request
from kernels.measure import pattern_cycles


def pattern(gain: Gain, catalog: Catalog) -> Compared:
    """Two ways of a pattern on one problem. StopError without both recordings."""

    def request(name: str, settings: Mapping[str, object]) -> Request:
        spec = catalog.kernels[name]
        chosen = tuple((constant, int(str(value))) for constant, value in settings.items())
        return Request(spec, spec.problem_type(**gain.problem), chosen, backend="recorded")

    now, before = request(gain.kernel, gain.settings), request(gain.before, gain.before_settings)
    found, found_before = pattern_cycles.cycles(now), pattern_cycles.cycles(before)
    if not found or not found_before:
        raise StopError(
            f"{gain.kernel} and {gain.before} have no recorded cycles of their present code with {dict(gain.problem)}. "
            "Choose a recorded problem, or run python -m kernels measure patterns on a GPU."
        )
    place = f"{found.device.removeprefix('NVIDIA ')}, {found.date}"
    return Compared(found.cycles, found_before.cycles, "cycles", place, sizes_of(now.problem.values()))
