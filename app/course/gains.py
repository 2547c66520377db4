"""The gains of a stop, computed from the recordings or counted by a rule: the sentences of a stop with their numbers.

A sentence has placeholders such as {time.times}: the name of a gain, and a field of `Compared`. No number of a
sentence is typed by hand.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from app.course.stop import Gain, Stop, StopError
from explainers.models.memory_levels import plateaus
from explainers.stories.block_table import serving
from explainers.story import glossary
from kernels.build.occupancy import MACHINES, limits
from kernels.catalog import Catalog
from kernels.core.remembered import of_recordings
from kernels.kv_cache.scenarios import SERVED
from kernels.measure import chains, launch_times, rings
from kernels.measure.launch_times import LaunchTimes, RecordedLaunchTimes
from kernels.measure.protocol import plan_bytes
from kernels.recordings import tables
from kernels.recordings.tables import Provenance
from kernels.trace.memory.model import global_sectors

UNITS = {"us": glossary.MICROSECONDS, "B": glossary.BYTES}
SIZES = {  # field of Compared -> the size that it writes. With _before: of the problem before
    "tokens": "seq_len",
    "heads": "num_heads",
    "dim": "head_dim",
    **{name: name for name in ("numbers", "gpus", "batch", "window")},
}
WARP = 32  # lanes
GPU = "NVIDIA H200"  # of the course: its tables come first, so one thing has one number at all stops
Sizes = Mapping[str, object]  # of a problem, or of something else that is counted


@dataclass(frozen=True)
class Compared:
    """Two amounts of one kind, in words.

    value, value_before: the amounts. unit: of both.
    place: the GPU and the date, or the rule of a derived amount.
    sizes, sizes_before: of the problem, such as seq_len, batch and window, and the constants of the kernel.
    copy_rate: bytes per microsecond of a copy on that GPU, for bytes.
    """

    value: float
    value_before: float
    unit: str
    place: str
    sizes: Mapping[str, float] = field(default_factory=dict)
    sizes_before: Mapping[str, float] = field(default_factory=dict)
    copy_rate: float = 0.0

    def __getattr__(self, name: str) -> str:
        """A field of FIELDS, or a size (SIZES), in words."""
        if name in FIELDS:
            return FIELDS[name](self)
        size = SIZES.get(name.removesuffix("_before"))
        if size is None:
            raise AttributeError(name)
        return f"{(self.sizes_before if name.endswith('_before') else self.sizes)[size]:,.0f}"


FIELDS: dict[str, Callable[[Compared], str]] = {
    "now": lambda one: amount(one.value, one.unit),
    "before": lambda one: amount(one.value_before, one.unit),
    "times": lambda one: _ratio(one.value_before, one.value),  # how many times smaller the amount is now
    "loss": lambda one: _ratio(one.value, one.value_before),  # how many times larger it is now
    "less": lambda one: _percent(1 - one.value / one.value_before),  # by how much it is smaller now
    "more": lambda one: _percent(one.value / one.value_before - 1),  # by how much it is larger now
    "percent": lambda one: _percent(one.value),  # a share of one
    "copy_before": lambda one: amount(one.value_before / one.copy_rate, "us"),  # in which the GPU copies these bytes
}


def _percent(share: float) -> str:
    return f"{glossary.short(100 * share, 2)}%"


def amount(value: float, unit: str) -> str:
    """A value in at most three digits, in the unit that fits."""
    return glossary.amount(value, UNITS.get(unit, ((1.0, unit),))).strip()


def _ratio(larger: float, smaller: float) -> str:
    if larger < smaller:
        raise StopError(f"{larger:g} is less than {smaller:g}, so this is no gain. Take .loss, .less or .more.")
    return glossary.short(larger / smaller, 3)


def sizes_of(row: Mapping[str, object]) -> dict[str, float]:
    return {name: float(value) for name, value in row.items() if isinstance(value, (int, float))}


# ---- recorded ----


SHORT, LONG = "short runs with pauses", "runs without pauses"  # rested and sustained times, for people
# Of a gain's kind: the kind of its tables, the column with the name of a kernel or a level, the column with the
# amounts, their unit, and the values that a row must have.
COLUMNS: dict[str, tuple[str, str, str, str, dict[str, object]]] = {
    "time": ("bench", "name", "median_us", "us", {"causal": False}),
    "bytes": ("bench", "name", "bytes", "B", {"causal": False}),
    "cycles": ("cycles", "", "cycles", "cycles", {}),
    "error": ("precision", "name", "relative error", "", {"field": "score_scale", "value": 1.0}),
}
Row = dict[str, Any]


def _recorded(gain: Gain, catalog: Catalog) -> Compared | None:
    """From the newest table with both rows, of the kernels' present code."""
    kind, key, column, unit, wanted = COLUMNS[gain.kind]
    before_settings = gain.before_settings or (gain.settings if gain.kernel == gain.before else {})
    wanted = {**wanted, **gain.problem}
    for rows, where in recorded_rows(kind):
        now = row_of(rows, key, gain.kernel, wanted, gain.settings, catalog)
        before = row_of(rows, key, gain.before, wanted | dict(gain.before_problem), before_settings, catalog)
        if now and before:
            place = place_of(where, SHORT if gain.kind == "time" else "")
            rate = where.roofs.get("copy_gb_per_s", 0.0) * 1e3
            return Compared(now[column], before[column], unit, place, sizes_of(now), sizes_of(before), rate)
    return None


def place_of(where: Provenance, how: str) -> str:
    return ", ".join(filter(None, (where.device.removeprefix("NVIDIA "), where.date, how)))


@of_recordings(lru_cache(maxsize=8))
def recorded_rows(kind: str) -> tuple[tuple[list[Row], Provenance], ...]:
    """The rows of each recorded table of a kind: of GPU first, then the newest table first."""
    found = sorted(tables.recorded(kind).values(), key=lambda one: one[1].device != GPU)
    return tuple(([_values(row) for row in table.to_dict("records")], where) for table, where in found)


def row_of(
    rows: list[Row], key: str, name: str, wanted: Mapping[str, object], settings: Mapping[str, object], catalog: Catalog
) -> Row | None:
    """The first row of a kernel or level with these values. Without settings, a kernel has its own constants."""
    due = {**wanted, **settings} | ({key: name} if key else {})
    if name in catalog.kernels and key:
        due["code_hash"] = catalog.kernels[name].code_hash
    found = (
        row
        for row in rows
        if row.get("status", "ok") in tables.TIMED and all(row.get(field) == value for field, value in due.items())
    )
    return next((row for row in found if settings or row.get("own_settings", True)), None)


def _values(row: Row) -> Row:
    """The columns of a row that have a value, with the fields of its problem and its constants."""
    fields, settings = row.get("problem"), row.get("settings")
    found: Row = json.loads(fields) if isinstance(fields, str) else {}
    found |= {str(name): value for name, value in row.items() if value == value}  # a missing number is NaN
    pairs = [pair.split("=") for pair in settings.split()] if isinstance(settings, str) else []
    return found | {name: int(value) for name, value in pairs}


def _latency(gain: Gain, catalog: Catalog) -> Compared | None:
    """The wait for a load of two levels of memory: the figures of the picture `places`."""
    found = tables.recorded("hierarchy").values()
    for table, where in sorted(found, key=lambda one: one[1].device != GPU):
        cycles = plateaus(table).set_index("level").cycles.dropna()
        if {gain.kernel, gain.before} <= set(cycles.index):
            return Compared(cycles[gain.kernel], cycles[gain.before], "cycles", place_of(where, ""))
    return None


DUELS = {"duel": ("sustained_us", "sustained_peer_us", LONG), "rested": ("us", "peer_us", SHORT)}


def _duel(gain: Gain, catalog: Catalog) -> Compared | None:
    """A kernel's time against a rival's, round by round on one GPU: at work, or rested."""
    now, before, how = DUELS[gain.kind]
    wanted = {"peer": gain.before, **gain.problem}
    for rows, where in recorded_rows("duels"):
        measured = [row for row in rows if now in row]
        if row := row_of(measured, "name", gain.kernel, wanted, gain.settings, catalog):
            return Compared(row[now], row[before], "us", place_of(where, how), sizes_of(row))
    return None


def _chain(gain: Gain, catalog: Catalog) -> Compared | None:
    """A fused kernel's time in a graph against its separate launches or torch.compile, or with `mode` both ways of one
    kernel: in a graph and one after another. With a hot L2. A graph is sustained, launches one after another rested."""
    spec, before_mode = catalog.kernels[gain.kernel], str(gain.before_problem.get("mode", "graph"))
    fused = (other for other in catalog.kernels.values() if catalog.separate_of(other) is spec)
    recorded = chains.recorded(spec if catalog.separate_of(spec) else next(fused, spec))
    if recorded is None:
        return None
    table, where = recorded
    rows = [_values(row) for row in table[table.l2 == "hot"].to_dict("records")]
    now = row_of(rows, "name", gain.kernel, {"mode": "graph", **gain.problem}, {}, catalog)
    before = row_of(rows, "name", gain.before, {**gain.problem, "mode": before_mode}, {}, catalog)
    if not now or not before:
        return None
    earlier = before["sustained_us" if before_mode == "graph" else "us"]
    how = LONG if before_mode == "graph" else f"a graph in {LONG}, one after another in {SHORT}"
    return Compared(now["sustained_us"], earlier, "us", place_of(where, how), sizes_of(now))


def _ring(gain: Gain, catalog: Catalog) -> Compared | None:
    """A way to use several GPUs against another one, both at work (measure/rings.py)."""
    recorded = rings.recorded()
    for turns in rings.in_turns(recorded[0]) if recorded else []:
        rows = [_values(row) for row in turns.to_dict("records")]
        now, before = (row_of(rows, "way", name, gain.problem, {}, catalog) for name in (gain.kernel, gain.before))
        if now and gain.before == rings.FASTEST_ALONE:
            before = rings.fastest_alone(rows, "sustained_us")
        if recorded and now and before:
            place = place_of(recorded[1], LONG)
            return Compared(now["sustained_us"], before["sustained_us"], "us", place, sizes_of(now))
    return None


def _launches(gain: Gain, catalog: Catalog) -> Compared | None:
    """Two kernels on one problem and one GPU, from the first start, with the host ahead. Or, with the setting `host`,
    from the first call of Python or C++."""
    of_gpu = dict[str, dict[str, RecordedLaunchTimes]]()  # GPU -> kernel -> its times
    for entry in launch_times.recorded():
        values = entry.problem.values()
        if all(values.get(name) == value for name, value in gain.problem.items()):
            of_gpu.setdefault(entry.device, {}).setdefault(entry.kernel, entry)
    pair = next((times for times in of_gpu.values() if {gain.kernel, gain.before} <= times.keys()), None)
    if not pair:
        return None
    now, before = (pair[name].load() for name in (gain.kernel, gain.before))
    place = f"{now.device.removeprefix('NVIDIA ')}, {now.date}, {SHORT}"
    host = gain.settings.get("host")

    def lasts_us(times: LaunchTimes) -> float:
        return (float(times.as_it_goes(host == "C++").end_ns.max()) if host else times.lasts_ns) / 1e3

    return Compared(lasts_us(now), lasts_us(before), "us", place, sizes_of(now.request.problem.values()))


# ---- counted by a rule, without a recording ----


def _counted(gain: Gain, catalog: Catalog) -> Compared:
    """Both amounts by one of the rules of COUNTED."""
    count, unit, rule = COUNTED[gain.kind]
    sizes, sizes_before = gain.problem, {**gain.problem, **gain.before_problem}
    now, before = count(catalog, gain.kernel, sizes), count(catalog, gain.before, sizes_before)
    return Compared(now, before, unit, rule, sizes_of(sizes), sizes_of(sizes_before))


def _read_bytes(catalog: Catalog, name: str, sizes: Sizes) -> float:
    """The bytes of K and V that a run reads at least once."""
    work = catalog.kernels[name].problem_type(**_as_tuples(sizes)).work
    return sum(size for tensor, size in work.touched.items() if tensor in ("k_cache", "v_cache"))


def _moved_bytes(catalog: Catalog, name: str, sizes: Sizes) -> float:
    """The least bytes of all launches of a kernel: each launch reads or writes each of its tensors once."""
    spec = catalog.kernels[name]
    problem = spec.problem_type(**_as_tuples(sizes))
    plan, work = spec.plan(problem, tuple(spec.settings_for(problem).items())), problem.work
    return plan_bytes(plan, work.touched if work else {})


def _sectors(catalog: Catalog, name: str, access: Sizes) -> float:
    """The sectors of a warp's access of global memory: bytes of a lane, and stride in bytes between lanes."""
    stride, width = int(str(access["stride"])), int(str(access["bytes"]))
    return global_sectors([lane * stride for lane in range(WARP)], width).sectors


def _warps(catalog: Catalog, name: str, block: Sizes) -> float:
    """The warps of an SM. block: threads, registers and shared_bytes of a build's block."""
    threads, registers, shared = (int(str(block[size])) for size in ("threads", "registers", "shared_bytes"))
    return min(limits(threads, registers, shared, MACHINES["sm_90"]).values()) * threads // WARP


COUNTED: dict[str, tuple[Callable[[Catalog, str, Sizes], float], str, str]] = {  # how, the unit, and the rule in words
    "cache": (_read_bytes, "B", "counted from the sizes of the problem"),
    "moved": (_moved_bytes, "B", "counted from the sizes of the tensors"),
    "sectors": (_sectors, "sectors", "counted by the rule of sectors"),
    "warps": (_warps, "warps", "warps counted from the registers of each build"),
}


def _as_tuples(problem: Sizes) -> dict[str, object]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in problem.items()}


def _stored(gain: Gain, catalog: Catalog) -> Compared:
    """The bytes of LSE, one number per query, against the bytes of P, one number for each query and key."""
    problem = catalog.kernels[gain.kernel].problem_type(**_as_tuples(gain.problem))
    part = {problem.picture.get(tensor.name, tensor.name): tensor for tensor in problem.tensors()}
    lse = next(tensor for tensor in part.values() if tensor.axes == ("batch", "head", "query"))
    keys = part["K"].shape[part["K"].axes.index("key")]
    place, sizes = "counted from the sizes of the problem", sizes_of(problem.values())
    return Compared(lse.nbytes, lse.size * keys * part["O"].itemsize, "B", place, sizes, sizes)


def _serving(gain: Gain, catalog: Catalog) -> Compared | None:
    paged, reserved = serving.ends(SERVED[str(gain.problem["scenario"])], int(str(gain.problem["block_size"])))
    if reserved is None:
        return None
    return Compared(paged, reserved, "steps", "counted in the model of a server")


RULES: dict[str, Callable[[Gain, Catalog], Compared | None]] = {
    "latency": _latency,
    "duel": _duel,
    "rested": _duel,
    "chain": _chain,
    "ring": _ring,
    "launches": _launches,
    "serving": _serving,
    "stored": _stored,
    **dict.fromkeys(COUNTED, _counted),
}


# ---- the sentences ----


@dataclass(frozen=True)
class Told:
    """The sentences of a stop.

    wins, small: with their numbers.
    source: the origin of the numbers, in a sentence. Empty without numbers.
    """

    wins: str
    small: str
    source: str


def compared(gain: Gain, catalog: Catalog) -> Compared:
    """Both amounts of a gain. Raises StopError without them."""
    if found := RULES.get(gain.kind, _recorded)(gain, catalog):
        return found
    raise StopError(
        f"No recorded table of the kind {gain.kind} has {gain.kernel} and {gain.before} with {dict(gain.problem)}, of "
        "their present code. Choose a recorded problem, or record it again on a GPU: python -m kernels measure."
    )


def told(stop: Stop, catalog: Catalog) -> Told:
    """The sentences of a stop with their numbers. Raises StopError for an unknown placeholder or recording."""
    found = {gain.name: compared(gain, catalog) for gain in stop.gain}
    try:
        wins, small = stop.wins.format(**found), stop.small.format(**found)
    except (KeyError, AttributeError, IndexError, ValueError) as error:
        raise StopError(
            f"The sentences of {stop.name} have an unknown placeholder: {error}. Write {{NAME.FIELD}} with a gain's "
            f"name ({', '.join(found)}) and one of {', '.join([*SIZES, *FIELDS])}."
        ) from error
    # the origin of the amounts: each place once, with the tokens of its timed problems
    tokens: dict[str, list[str]] = {one.place: [] for one in found.values()}
    for one in found.values():
        if one.unit == "us" and "seq_len" in one.sizes and one.tokens not in tokens[one.place]:
            tokens[one.place].append(one.tokens)
    whole = {place: n for place, n in tokens.items() if not any(o != place and o.startswith(place) for o in tokens)}
    places = [f"{place}, {glossary.listed(sizes)} tokens" if sizes else place for place, sizes in whole.items()]
    return Told(wins, small, ". ".join(place[0].upper() + place[1:] for place in places))
