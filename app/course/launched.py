"""A kind of gain from recorded launch times: the time of a run to its last end, after all calls or as it goes."""

from app.course.compared import Compared, sizes_of
from app.course.stop import Gain, StopError
from kernels.catalog import Catalog
from kernels.measure import launch_times
from kernels.measure.launch_times import LaunchTimes, RecordedLaunchTimes


def launches(gain: Gain, catalog: Catalog) -> Compared:
    """Two kernels on one problem and one GPU, from the first start, with the host ahead. Or, with the setting `host`,
    from the first call of Python or C++. StopError without both recordings."""
    found = dict[str, dict[str, RecordedLaunchTimes]]()  # GPU -> kernel -> its times
    for entry in launch_times.recorded():
        values = entry.problem.values()
        if all(values.get(name) == value for name, value in gain.problem.items()):
            found.setdefault(entry.device, {}).setdefault(entry.kernel, entry)
    pair = next((own for own in found.values() if {gain.kernel, gain.before} <= own.keys()), None)
    if not pair:
        raise StopError(
            f"No GPU has recorded launch times of both {gain.kernel} and {gain.before} with {dict(gain.problem)}, of "
            "their present code. Choose a recorded problem, or record it again."
        )
    now, before = (pair[name].load() for name in (gain.kernel, gain.before))
    place = f"{now.device.removeprefix('NVIDIA ')}, {now.date}, rested"
    amounts = [_lasts_ns(made, gain.settings.get("host")) / 1e3 for made in (now, before)]
    return Compared(amounts[0], amounts[1], "us", place, sizes_of(now.request.problem.values()))


def _lasts_ns(made: LaunchTimes, host: object) -> float:
    return float(made.as_it_goes(host == "C++").end_ns.max()) if host else made.lasts_ns
