"""A kind of gain from recorded launch times: the time from the first start to the last end of a run."""

from app.course.compared import Compared, sizes_of
from app.course.stop import Gain, StopError
from kernels.catalog import Catalog
from kernels.measure import launch_times
from kernels.measure.launch_times import RecordedLaunchTimes


def launches(gain: Gain, catalog: Catalog) -> Compared:
    """Two kernels on one problem, with the host ahead. StopError without both recordings."""
    found = dict[str, RecordedLaunchTimes]()
    for entry in launch_times.recorded():
        values = entry.problem.values()
        if all(values.get(name) == value for name, value in gain.problem.items()):
            found.setdefault(entry.kernel, entry)
    for name in (gain.kernel, gain.before):
        if name not in found:
            raise StopError(
                f"No launch times of {name} with {dict(gain.problem)} are recorded of its present code. Choose a "
                "recorded problem, or record it again."
            )
    now, before = (found[name].load() for name in (gain.kernel, gain.before))
    place = f"{now.device.removeprefix('NVIDIA ')}, {now.date}"
    amounts = [round(made.lasts_ns(True)) / 1e3 for made in (now, before)]
    return Compared(amounts[0], amounts[1], "us", place, sizes_of(now.request.problem.values()))
