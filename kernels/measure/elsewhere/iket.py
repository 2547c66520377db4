"""Reads the JSON of IKET, NVIDIA's profiler inside kernels of CuTe DSL: `run-iket profile --postprocess json`.

The format: NVIDIA/cutlass, media/docs/pythonDSL/cute_dsl_general/iket_profiling.rst, "JSON Trace Shape". Its writer
is `RawCaptureDecoder.export_decoded_json` of the wheel nvidia-cutlass-dsl-libs-base (iket/profiler/postprocess.py, in
C++). Version 4.8.1 writes names and places once, as stringTable and locationTable, and numbers into them: rangeNameIdx
and warpLocIdxs in place of rangeName and warpLocs, and locIdx in place of warpLocation. Both forms are read.

A timestamp counts ns of the GPU's timer, in steps of 32 ns. A group is a block (CTA) of a launch, and a lane is a
warp. A range over several warps counts for its first one."""

from collections.abc import Iterator, Mapping, Sequence

from kernels.errors import TraceError
from kernels.measure.elsewhere.record import Bars, Trace, entries, table, whole

WRITER = "IKET"
CLOCK = "the GPU's timer, in steps of 32 ns"
LIFETIME = "warp lifetime"


def is_mine(root: object) -> bool:
    return isinstance(root, dict) and ("launches" in root or "graphLaunches" in root)


def read(root: Mapping[str, object], file: str) -> Trace:
    """Raises TraceError for other content."""
    bars = Bars(file, WRITER, CLOCK)
    strings = entries(root.get("stringTable", []), file, "stringTable")
    places = entries(root.get("locationTable", []), file, "locationTable")

    def entry(known: Sequence[object], index: object, where: str) -> object:
        if 0 <= (number := whole(index, file, where)) < len(known):
            return known[number]
        raise TraceError(f"{file}: {where} is {number}, and its table has {len(known)} entries. Write the file again.")

    def lane_of(launch: str, place: object, where: str) -> tuple[str, str]:
        at = table(place, file, where)
        block = ", ".join(str(whole(n, file, f"{where}.ctaId")) for n in entries(at.get("ctaId"), file, where)[:3])
        sm = f", SM {whole(at['smId'], file, f'{where}.smId')}" if "smId" in at else ""
        return f"{launch}, block ({block}){sm}", f"warp {whole(at.get('warpId'), file, f'{where}.warpId')}"

    markers = 0
    for n, launch in _launches(root, file):
        where, name = f"launch {n}", str(launch.get("kernelName", f"launch {n}"))
        own = f"{name[:60]}, launch {n}"
        for one in entries(launch.get("ranges", []), file, f"{where}.ranges"):
            found = table(one, file, f"a range of {where}")
            if "rangeNameIdx" in found:
                kind = entry(strings, found["rangeNameIdx"], f"rangeNameIdx of {where}")
                held = entries(found.get("warpLocIdxs"), file, f"warpLocIdxs of {where}")[:1]
                held = [entry(places, index, f"warpLocIdxs of {where}") for index in held]
            else:
                kind, held = found.get("rangeName"), entries(found.get("warpLocs"), file, f"warpLocs of {where}")[:1]
            for place in held:
                _add(bars, lane_of(own, place, f"a place of {where}"), kind, found, where)
        for one in entries(launch.get("warpLifetimes", []), file, f"{where}.warpLifetimes"):
            found = table(one, file, f"a lifetime of {where}")
            indexed = "locIdx" in found
            place = entry(places, found["locIdx"], f"locIdx of {where}") if indexed else found.get("warpLocation")
            _add(bars, lane_of(own, place, f"a place of {where}"), LIFETIME, found, where)
        markers += len(entries(launch.get("markers", []), file, f"{where}.markers"))
    return bars.trace(markers=markers)


def _add(bars: Bars, place: tuple[str, str], kind: object, found: Mapping[str, object], where: str) -> None:
    start, end = (whole(found.get(name), bars.file, f"{name} of {where}") for name in ("startTs", "endTs"))
    bars.add(*place, str(kind)[:200], start, end)


def _launches(root: Mapping[str, object], file: str) -> Iterator[tuple[int, Mapping[str, object]]]:
    """The launches, then the launches of CUDA graphs: a list for each graph."""
    found = [*entries(root.get("launches", []), file, "launches")]
    for graph in table(root.get("graphLaunches", {}), file, "graphLaunches").values():
        found += entries(graph, file, "a graph of graphLaunches")
    for n, launch in enumerate(found):
        yield n, table(launch, file, f"launch {n}")
