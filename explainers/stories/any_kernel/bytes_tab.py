"""The bytes of a kernel: what its threads ask of each tensor and each array of shared memory."""

import pandas as pd

from explainers.story import axes, stage
from explainers.story.base import Runner
from explainers.story.glossary import short
from explainers.story.stage import Block
from kernels.core.request import Request
from kernels.run.results import Traffic


def bytes_tab(subject: Request, runner: Runner) -> list[Block]:
    """The accesses and bytes of each tensor, counted over all blocks if they fit."""
    traffic = runner.traffic(subject)
    if not len(traffic.table):
        return [stage.note("No access of this kernel has a probe, so no byte is counted.")]
    blocks = "all blocks" if traffic.whole else f"the traced {subject.plan.item} only, as all blocks do not fit"
    said = f"Counted over {blocks}, from the logged accesses. A cache may serve a read."
    return [stage.heading("Bytes by tensor"), stage.table(by_tensor(subject, traffic), said)]


def by_tensor(subject: Request, traffic: Traffic) -> pd.DataFrame:
    """A row for each tensor, memory and kind of access. times: its bytes over the tensor's own."""
    known = axes.tensors(subject)
    rows = [
        {
            "tensor": row.tensor,
            "memory": row.space,
            "access": row.kind,
            "accesses": int(row.accesses),
            "bytes": int(row.bytes),
            "times its size": short(row.bytes / known[row.tensor].nbytes) if row.space == "global" else "",
        }
        for row in traffic.table.itertuples()
        if row.space == "shared" or row.tensor in known
    ]
    return pd.DataFrame(rows)
