"""The tabs of most stories: the two builds, the data for download, and the meaning of the labels."""

import io

import pandas as pd

from app.parts import running
from app.store import disk
from explainers.story import stage
from explainers.story.glossary import PROVENANCE
from explainers.story.stage import Block
from kernels.build import DEFAULT_ARCH, inspection
from kernels.core.problem import Problem
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.errors import WarpglassError
from kernels.run.backends import gpu

BUILDS, DATA = stage.Tab("builds", "Builds"), stage.Tab("data", "Data and labels")


def arch_of(request: Request) -> str:
    """The architecture of the request's builds: the GPU of the run, or a well-known one."""
    return gpu.device().target if request.backend == "gpu" else DEFAULT_ARCH


def builds(request: Request) -> list[Block]:
    """Registers, shared memory and spills of both builds: the observer effect, visible."""
    return builds_of(request.kernel, request.problem, request.settings, arch_of(request))


def builds_of(kernel: KernelSpec, problem: Problem, settings: tuple[tuple[str, int], ...], arch: str) -> list[Block]:
    """The same for any architecture."""
    try:
        facts = inspection.inspect(kernel, problem, settings, arch)
    except WarpglassError as error:
        return [stage.heading("The two builds"), stage.note(f"Not known here: {error}")]
    rows = [
        {
            "build": mode,
            "kernel": e["entry"],
            "registers": e["registers"],
            "shared bytes": e["shared_bytes"],
            "bytes of local memory a thread": e["stack_bytes"],
            "spilled bytes": e["spill_bytes"],
        }
        for mode, build in facts["builds"].items()
        for e in build["entries"]
    ]
    said = (
        f"From {facts['builds']['timed']['compiler']} for {arch}. The trace comes from the probed build. Probes cost "
        "registers, so all times are of the timed build."
    )
    return [stage.heading(f"The two builds of {kernel.name}"), stage.table(pd.DataFrame(rows), said)]


def data(request: Request) -> list[Block]:
    """The trace as Parquet, and the meaning of the labels."""
    run, buffer = running.run(request), io.BytesIO()
    run.trace.save(buffer)
    file = f"{request.kernel.name}-trace.parquet"
    kept = stage.download("Download the trace (Parquet)", disk.offer_file(buffer.getvalue(), file), file)
    size = f"{run.trace.table.num_rows:,} records, {len(buffer.getvalue()):,} bytes"
    said = f"{size}. Its columns are described in kernels/formats.md."
    return [kept, stage.text(said), *labels()]


def labels() -> list[Block]:
    return [
        stage.heading("The meaning of the labels"),
        *(stage.text(said, label) for label, said in PROVENANCE.items()),
    ]
