"""Pipelines: the start of each step of each warp or warpgroup of a run, from a build of its own (device/marks.cuh) on
a GPU.

Each SM counts its own cycles. All SMs share a coarse clock of nanoseconds. Each writer notes both clocks at its start
and its end. Rule: each block gets one frequency and one shift, by least squares over its writers, because the
frequency changes while a kernel runs. `residual_ns` is the largest remaining difference.
"""

import datetime
import statistics
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from kernels.build import Mode, builds
from kernels.core.launch import Plan
from kernels.core.request import Request
from kernels.errors import ProblemError, TraceError
from kernels.measure.in_worker import in_worker
from kernels.measure.judging import check_right
from kernels.recordings import same_code, tables
from kernels.recordings.requests import RecordedRequest, Recordings, Stored
from kernels.run import execute
from kernels.run.backends import gpu
from kernels.run.results import Marked
from kernels.trace.probes import MAX_KEYS, OUT_OF_RANGE, Site, Sites, sites_of

CAPACITY = 4096  # marks of a writer. `lost` is the number of others
BYTES = 2**30  # of all marks
TIMED_RUNS = 20
MOST_MARKS = 40_000  # of a recording: whole blocks from block 0 on, and at least one block
PARTS = ("marks", "writers")
_FIGURES = ("every", "lost", "mhz", "residual_ns", "marks_ms", "timed_ms")


@dataclass(frozen=True)
class Pipeline:
    """The marks of a run, in common nanoseconds from the first writer's start.

    marks: one row per mark, with launch, block, writer, seq, role, event, place, ns (rounded to tenths) and a column
    for each key (NA for a mark without it).
    writers: launch, block, writer, sm, start_ns, end_ns.
    every: threads of a writer.
    lost: marks that did not fit.
    mhz: of the SMs, from the two clocks.
    residual_ns: the largest difference between the clocks.
    marks_ms, timed_ms: medians of a whole run of the marks build and of the timed build."""

    request: Request
    marks: pd.DataFrame
    writers: pd.DataFrame
    every: int
    lost: int
    mhz: float
    residual_ns: float
    marks_ms: float
    timed_ms: float
    device: str
    date: str

    @property
    def overhead(self) -> float:
        """The observer effect: how much longer a run of the marks build takes, as a share."""
        return self.marks_ms / self.timed_ms - 1

    @property
    def blocks(self) -> pd.DataFrame:
        """sm, start_ns and end_ns of each (launch, block): from its first writer's begin to its last one's end."""
        each = self.writers.groupby(["launch", "block"])
        return each.agg(sm=("sm", "first"), start_ns=("start_ns", "min"), end_ns=("end_ns", "max"))

    @property
    def launch(self) -> int:
        """The launch of the picture: its blocks are there for the longest time in all."""
        lasts = (self.writers.end_ns - self.writers.start_ns).groupby(self.writers.launch).sum()
        return int(lasts.idxmax()) if len(lasts) else 0

    @property
    def walked(self) -> str:
        """The rows of the tiles that a block walks over: query if it keeps a tile of keys, else key."""
        return "query" if self.request.plan.launches[self.launch].item == "key tile" else "key"

    @property
    def provenance(self) -> str:
        """measured for a pipeline of this machine, else recorded."""
        return "measured" if self.request.backend == "gpu" else "recorded"

    @property
    def noun(self) -> str:
        return "warpgroup" if self.every > 32 else "warp"


def pipeline(request: Request) -> Pipeline:
    """The Pipeline of a request on the GPU, from a marks build with a correct output. ProblemError on the CPU."""
    if request.backend != "gpu":
        raise ProblemError("A pipeline consists of times, and a CPU run yields none. Choose a machine with a GPU.")
    made, plan, arrays = execute.prepare(request, Mode.MARKS)
    every = builds.mark_every(request.kernel)
    found, marked = gpu.launch_marks(made, plan, arrays, every, capacity(plan, every))
    check_right(request, arrays, "This pipeline is")
    timed = gpu.launch_repeatedly(*execute.prepare(request, Mode.TIMED), TIMED_RUNS)
    marks_ms, timed_ms = statistics.median(marked), statistics.median(timed)
    today = datetime.date.today().isoformat()
    return read(request, found, every, marks_ms, timed_ms, gpu.device().name, today)


def capacity(plan: Plan, every: int) -> int:
    """Marks per writer. Together they fit into BYTES."""
    writers = sum(step.blocks * step.groups(every) for step in plan.launches)
    return max(1, min(CAPACITY, BYTES // (16 * writers)))


def read(
    request: Request, found: list[Marked], every: int, marks_ms: float, timed_ms: float, device: str, date: str
) -> Pipeline:
    """The Pipeline of a marks build's records. TraceError for a mark without a line in the source, or for a key out of
    range."""
    sites = sites_of(request)
    writers = pd.concat([_writers(marked) for marked in found], ignore_index=True)
    marks = pd.concat([_marks(marked, sites) for marked in found], ignore_index=True)
    lost = sum(int(np.maximum(m.counts.astype(np.int64) - m.records.shape[1], 0).sum()) for m in found)
    zero = writers.start_ns.min() if len(writers) else 0  # both clocks count from long ago: float64 could not hold them
    writers = writers.assign(start_ns=writers.start_ns - zero, end_ns=writers.end_ns - zero)
    clocks, residual = fit(writers)
    at = marks[["launch", "block"]].merge(clocks, how="left", left_on=["launch", "block"], right_index=True)
    ns = (marks.cycles - at.begin).astype(float) * at.ns_of_cycle + at.ns
    marks = marks.drop(columns="cycles").assign(ns=ns.round(1))
    cycles, passed = ((writers[f"end_{unit}"] - writers[f"start_{unit}"]).sum() for unit in ("cycles", "ns"))
    writers = writers.drop(columns=["start_cycles", "end_cycles"])
    mhz = 1e3 * float(cycles / passed) if passed else 0.0
    return Pipeline(request, marks, writers, every, lost, mhz, residual, marks_ms, timed_ms, device, date)


def fit(writers: pd.DataFrame) -> tuple[pd.DataFrame, float]:
    """(begin, ns and ns_of_cycle of each (launch, block), the largest residual in ns). begin: its first cycle. ns:
    that cycle in ns."""
    by = [writers.launch, writers.block]
    begin = writers.groupby(["launch", "block"]).start_cycles.min()
    first = writers.start_cycles.groupby(by).transform("min")
    ends = [
        pd.DataFrame({"launch": writers.launch, "block": writers.block, "cycles": cycles - first, "ns": ns})
        for cycles, ns in ((writers.start_cycles, writers.start_ns), (writers.end_cycles, writers.end_ns))
    ]
    points = pd.concat(ends, ignore_index=True).astype({"cycles": float, "ns": float})
    means = points.groupby(["launch", "block"])[["cycles", "ns"]].transform("mean")
    apart = points[["cycles", "ns"]] - means
    by = [points.launch, points.block]
    products, squares = ((apart.cycles * apart[name]).groupby(by).sum() for name in ("ns", "cycles"))
    slope = (products / squares.where(squares > 0)).fillna(0.0)
    mean = points.groupby(["launch", "block"])[["cycles", "ns"]].mean()
    found = pd.DataFrame({"begin": begin, "ns": mean.ns - mean.cycles * slope, "ns_of_cycle": slope})
    slopes = slope.reindex(pd.MultiIndex.from_arrays(by)).to_numpy()
    residual = np.abs(apart.ns.to_numpy() - apart.cycles.to_numpy() * slopes)
    return found, float(residual.max(initial=0.0))


def _writers(marked: Marked) -> pd.DataFrame:
    clocks = marked.clocks
    number = np.arange(len(clocks))
    frame = pd.DataFrame(
        {"launch": marked.launch, "block": number // marked.writers, "writer": number % marked.writers}
        | {name: clocks[name] for name in clocks.dtype.names or ()}
    )
    return frame[marked.counts > 0].reset_index(drop=True)


def _marks(marked: Marked, sites: Sites) -> pd.DataFrame:
    kept = np.minimum(marked.counts, marked.records.shape[1]).astype(np.int64)
    records = marked.records[np.arange(marked.records.shape[1]) < kept[:, None]]
    refused = np.flatnonzero(records["site"] & np.uint32(OUT_OF_RANGE))
    place = sites.index_of_words(records["site"].copy() & np.uint32(OUT_OF_RANGE - 1))
    if len(place) and place.min() < 0:
        raise TraceError("A mark is of a line that holds no probe: the source changed under the run. Run it again.")
    if len(refused):
        site = sites[int(place[refused[0]])]
        raise TraceError(
            f"{site.file}:{site.line}: a key of the mark {site.event} was no whole number from 0 to 65,535. Choose a "
            "smaller problem."
        )
    slot = np.repeat(np.arange(len(kept)), kept)
    frame = pd.DataFrame(
        {
            "launch": marked.launch,
            "block": slot // marked.writers,
            "writer": slot % marked.writers,
            "seq": np.arange(len(slot)) - np.repeat(np.cumsum(kept) - kept, kept),
            "event": np.array([site.event for site in sites], object)[place],
            "kind": np.array([site.kind for site in sites], object)[place],
            "place": np.array([site.place for site in sites], object)[place],
            "cycles": records["clock"],
        }
    )
    by_writer = [frame.block, frame.writer]
    frame["role"] = frame.event.where(frame.kind == "role").groupby(by_writer).ffill().fillna("")
    for name in dict.fromkeys(key for site in sites if site.kind == "mark" for key in site.keys):
        frame[name] = _key(name, records["keys"], place, list(sites))
    return frame.drop(columns="kind")


def _key(name: str, words: np.ndarray, place: np.ndarray, sites: list[Site]) -> pd.Series:
    """A key of each mark, NA for a mark without it."""
    found = pd.array(np.zeros(len(words), np.int64), dtype="Int64")
    missing = np.ones(len(words), bool)
    for at in range(MAX_KEYS["mark"]):
        here = np.array([site.kind == "mark" and site.keys[at : at + 1] == (name,) for site in sites], bool)[place]
        found[here] = (words[here] >> np.uint32(16 * at)) & np.uint32(0xFFFF)
        missing &= ~here
    found[missing] = pd.NA
    return pd.Series(found)


def keys_of(frame: pd.DataFrame) -> list[str]:
    return [name for name in frame.columns if isinstance(frame[name].dtype, pd.Int64Dtype)]


# ---- recorded ----


class RecordedPipeline(RecordedRequest):
    """A recorded pipeline, its tables not yet read. A mark is stored with the number of its probe. Its event and its
    line therefore follow the kernel's source, also after a comment moved the lines."""

    def load(self) -> Pipeline:
        """The Pipeline. TraceError for an unreadable file."""
        stored, writers = self.read(*PARTS)
        sites = sites_of(self.request)
        probes = same_code.probes_now(self.code_hash, self.said["probes"])
        if sum(probe >= 0 for probe in probes) != len(sites):
            raise TraceError(
                f"{self.path.name} has {self.said['probes']} probes, the kernel {len(sites)}. {tables.REMEDY}."
            )
        probe = np.array(probes).take(stored.probe)
        marks = stored[["launch", "block", "writer", "seq"]].copy()
        marks["event"] = pd.Series(np.array([site.event for site in sites], object)[probe], dtype=object)
        marks["place"] = pd.Series(np.array([site.place for site in sites], object)[probe], dtype=object)
        marks["role"] = stored.role.astype(object)
        for key in self.said["keys"]:
            marks[key] = stored[key].astype("Int64")
        marks["ns"] = stored.tenths / 10
        said = {name: self.said[name] for name in _FIGURES}
        return Pipeline(self.request, marks, writers, device=self.device, date=self.date, **said)


def stored(made: Pipeline) -> Stored:
    """The header and the tables of a recording, with the marks of the picture's launch: its first blocks with at most
    MOST_MARKS, and at least one block."""
    own = made.marks[made.marks.launch == made.launch]
    counts = own.groupby(["launch", "block"], sort=True).size().cumsum()
    kept = counts[counts <= MOST_MARKS].index if (counts <= MOST_MARKS).any() else counts.index[:1]
    marks = own.set_index(["launch", "block"]).loc[kept].reset_index()
    sites, keys = sites_of(made.request), keys_of(marks)
    number = {(site.place, site.event): number for number, site in enumerate(sites)}
    table = marks[["launch", "block", "writer", "seq", "role", *keys]].assign(
        probe=[number[place] for place in zip(marks.place, marks.event)],
        tenths=(10 * marks.ns).round().astype(np.int64),  # of ns
    )
    header = {name: getattr(made, name) for name in _FIGURES}
    header |= {"keys": keys, "blocks": int(marks.block.nunique()), "probes": len(sites)}
    return header, {"marks": table, "writers": made.writers}


RECORDINGS = Recordings(
    "pipeline",
    RecordedPipeline,
    "pipeline_cases",
    partial(in_worker, "Pipelines", pipeline),
    stored,
    PARTS,
    ordered=True,
)
recorded, find = RECORDINGS.all, RECORDINGS.find
