"""The story of the source: a kernel's CUDA next to the compiler's PTX and machine code."""

from collections.abc import Sequence

import pandas as pd

from explainers.stories.source.frames import MachineLines, SourceMeta
from explainers.stories.source.stalls import Matched
from explainers.story import stage
from explainers.story.glossary import count, listed
from kernels.build.disassembly import Line, Listing, Place, WidthCheck
from kernels.core.spec import KernelSpec

LIVE_RULE = (
    "Live registers are derived from the SASS by backward liveness. A register lives from the instruction with its "
    "write to the last instruction with a possible read. Every way of the branches counts. "
    "A write under a predicate starts no life, because the old value may stay. "
    "An instruction counts the registers alive before it and its own results. R0 to R254 count. RZ, uniform registers "
    "and predicates do not. Pairs and quads count as far as the opcode says. The compiler allots a few more: it rounds "
    "up, and keeps pairs and quads aligned."
)


def view(kernel: KernelSpec, listing: Listing, stalls: Matched) -> SourceMeta:
    """The meta of the view `source`."""
    held = {_place(line.source) for line in (*listing.ptx, *listing.sass)} - {""}
    made = {place.rpartition(":")[0] for place in (*held, *stalls.lines)}
    files = [stage.source_file(name, text) for n, (name, text) in enumerate(kernel.files) if n == 0 or name in made]
    return {
        "files": files,
        "held": sorted(held),
        "ptx": _lines(listing.ptx),
        "sass": _lines(listing.sass),
        "registers": listing.registers,
        "most_live": most_live(listing),
        "stalls": stalls.lines,
    }


def most_live(listing: Listing) -> dict[str, int]:
    """kernel -> the most live registers."""
    return {entry: max(line.live for line in listing.sass if line.entry == entry) for entry in listing.registers}


def stage_of(
    kernel: KernelSpec, listing: Listing, checks: Sequence[WidthCheck], mode: str, arch: str, stalls: Matched
) -> stage.Stage:
    """The whole stage of a build. stalls: of an opened report."""
    said = (
        f"PTX and machine code of the {mode} build for {arch}, by {listing.compiler}. "
        "The tab on live registers has their rule."
    )
    return stage.Stage(
        headline=stage.headline(kernel),
        frames=[],
        views=[stage.View("source", "source", "CUDA, PTX and SASS", view(kernel, listing, stalls))],
        tabs=[
            stage.Tab("mix", "Instruction mix", _mix(listing)),
            stage.Tab("widths", "Widths in the machine code", _widths(kernel, checks)),
            stage.Tab("live", "Live registers", [stage.table(live_table(listing)), stage.text(LIVE_RULE, "derived")]),
            stage.Tab("builds", "Builds"),
        ],
        provenance=stage.Provenance("derived", said),
        summary=f"{stalls.said} {sentence(listing)}".strip(),
    )


def sentence(listing: Listing) -> str:
    """The build in numbers."""
    parts = []
    for entry, most in most_live(listing).items():
        mine = [line for line in listing.sass if line.entry == entry]
        peak = next(line for line in mine if line.live == most)
        at = f"{_place(peak.source)}, " if peak.source else ""
        parts.append(
            f"{entry} is {count(len(mine), 'instruction')} of SASS with at most {most} live registers ({at}address "
            f"{peak.address:04x}) of the {listing.registers[entry]} that each thread has{_local(listing, entry)}"
        )
    return f"{'; '.join(parts)}."


def _local(listing: Listing, entry: str) -> str:
    size = listing.local_bytes.get(entry, 0)
    return f", and {size:,} bytes of local memory a thread" if size else ""


def live_table(listing: Listing) -> pd.DataFrame:
    """A row per kernel."""
    return pd.DataFrame(
        [
            {
                "kernel": entry,
                "most live at once": most,
                "registers of a thread": listing.registers[entry],
                "bytes of local memory a thread": listing.local_bytes.get(entry, 0),
            }
            for entry, most in most_live(listing).items()
        ]
    )


def _lines(lines: Sequence[Line]) -> MachineLines:
    return {
        "text": [line.text for line in lines],
        "source": [_place(line.source) for line in lines],
        "entry": [line.entry for line in lines],
        "labels": [list(line.labels) for line in lines],
        "target": [line.target for line in lines],
        "address": [line.address for line in lines],
        "live": [line.live for line in lines],
    }


def _place(source: Place | None) -> str:
    return f"{source[0]}:{source[1]}" if source else ""


def _mix(listing: Listing) -> list[stage.Block]:
    rows = [
        {
            "kind": kind,
            "instructions": sum(counts.values()),
            "opcodes": ", ".join(f"{name} {times}" for name, times in list(counts.items())[:8]),
        }
        for kind, counts in listing.mix.items()
    ]
    said = "Counted in the machine code, not in a run. An instruction in a loop counts once."
    return [stage.table(pd.DataFrame(rows), said)]


def _widths(kernel: KernelSpec, checks: Sequence[WidthCheck]) -> list[stage.Block]:
    wrong = [check for check in checks if not check.ok]
    held = [check for check in checks if check.found]
    if wrong:
        missed = [
            f"{c.file} line {c.line} wants {c.wanted}. The machine code has {listed(list(c.found))}." for c in wrong
        ]
        verdict = stage.note(" ".join(missed), "bad")
    elif held:
        said = f"All {len(held)} accesses of this build have the width of their source line."
        verdict = stage.note(said, "good")
    else:
        return [stage.note("No access of this build has a probe with its width.")]
    texts = {name: text.splitlines() for name, text in kernel.files}
    rows: list[dict[str, object]] = [
        {
            "file": c.file,
            "line": str(c.line),
            "wanted": c.wanted,
            "found": ", ".join(f"{name} × {times}" for name, times in c.found.items()) or "absent",
            "source": texts[c.file][c.line - 1].strip(),
        }
        for c in checks
    ]
    return [verdict, stage.table(pd.DataFrame(rows))]
