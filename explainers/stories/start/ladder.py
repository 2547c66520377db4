"""The ladder of a family: each rung with its one new idea, its bytes and its time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from explainers.charts.palette import kernel_colour
from explainers.story import picture
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.recordings.tables import Provenance
from kernels.run.results import Traffic


@dataclass(frozen=True)
class Timed:
    """The recorded time of a rung.

    us: median microseconds.
    tokens: of its problem.
    build: the constants of the timed build, in words.
    """

    us: float
    tokens: int
    build: str


def times(
    rungs: list[KernelSpec], recorded: Mapping[str, tuple[pd.DataFrame, Provenance]]
) -> tuple[dict[str, Timed], str]:
    """(kernel -> its Timed, the source) at the largest problem with recordings of most rungs, for their present code,
    in one table. ({}, "") without recordings.

    recorded: the tables of the bench.
    """
    best: tuple[tuple[int, float], dict[str, Timed], str] = ((0, 0.0), {}, "")
    specs = {spec.name: spec for spec in rungs}
    for table, where in recorded.values():
        present = [spec.name for spec in rungs if where.codes.get(spec.name) == spec.code_hash]
        rows = table[(table.status == "ok") & table.own_settings.astype(bool) & table.name.isin(present)]
        for (_, l2), part in rows.groupby(["problem", "l2"]):
            part = part.drop_duplicates("name")
            first = part.iloc[0]
            size = (len(part), float(first.seq_len * first.seq_len * first.batch * first.num_heads * first.head_dim))
            if size > best[0]:
                said = f"{first['dtype']}, batch {first.batch:g}, {first.num_heads:g} heads, {first.seq_len:g} queries "
                said += f"and keys of {first.head_dim:g} numbers{', causal' if first.causal else ''}, {l2} L2, "
                said += f"recorded on {where.device}, {where.date}"
                found = {
                    row.name: Timed(
                        float(row.median_us), int(row.seq_len), _build(specs[row.name], _settings(row.settings))
                    )
                    for row in part.itertuples(index=False)
                }
                best = size, found, said
    return best[1], best[2]


def _build(spec: KernelSpec, settings: Mapping[str, int]) -> str:
    """The sizes of a build in words, without its what-ifs."""
    broken = {c.name for c in spec.what_ifs}
    return ", ".join(f"{name} {value}" for name, value in spec.settings(settings).items() if name not in broken)


def _settings(text: object) -> dict[str, int]:
    """The constants of a recorded row, written NAME=VALUE NAME=VALUE."""
    pairs = [pair.split("=") for pair in text.split()] if isinstance(text, str) else []
    return {name: int(value) for name, value in pairs}


def rungs(counted: Sequence[tuple[Request, Traffic]], timed: Mapping[str, Timed]) -> list[dict[str, object]]:
    """The fields of each rung on the start page, in order: name, title, idea, changed, read and written (bytes of
    global memory), us (microseconds, or None), tokens and build of both, colour.

    counted: the whole runs of one problem.
    """
    found = []
    for request, traffic in counted:
        part = traffic.table[traffic.table.space == "global"]
        spec, q = request.kernel, picture.tensor_at(request, "Q")
        found.append(
            {
                "name": spec.name,
                "title": spec.title,
                "idea": spec.idea,
                "changed": spec.changed,
                "read": int(part.bytes[part.kind == "load"].sum()),
                "written": int(part.bytes[part.kind != "load"].sum()),
                "bytes_tokens": q.shape[q.axes.index("query")],
                "bytes_build": _build(spec, request.constants),
                "us": timed[spec.name].us if spec.name in timed else None,
                "us_tokens": timed[spec.name].tokens if spec.name in timed else None,
                "us_build": timed[spec.name].build if spec.name in timed else "",
                "colour": kernel_colour(spec),
            }
        )
    return found
