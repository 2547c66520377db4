"""The one table of access kinds.

Probes, traces, the memory model, the disassembly, the calibration against Nsight Compute and the words of the pages
read this table. A new kind is one row here, and one macro and one function in device/: in probe.cuh and ptx.cuh, or in
hopper.cuh if only Hopper has it.
"""

from dataclasses import dataclass
from enum import Enum


class Rule(Enum):
    """The cost of a warp's access, in wavefronts of the shared memory pipe or in sectors (memory.model).

    MERGED: wavefronts. Lanes with the same word share it, and neighbouring passes may merge.
    SHARED: wavefronts. Lanes with the same word share it.
    SEPARATE: wavefronts. Lanes with the same word do not share it.
    BYPASS: no wavefront, as the data takes another path.
    SECTORS: sectors of global memory.
    BOXES: sectors of the boxes of a tensor in global memory."""

    MERGED = "merged"
    SHARED = "shared"
    SEPARATE = "separate"
    BYPASS = "bypass"
    SECTORS = "sectors"
    BOXES = "boxes"


@dataclass(frozen=True)
class AccessKind:
    """One kind of access. Its index in LAB_KINDS is the constant OP of lab_access.cu.

    name: unique.
    event: its name in a trace. Event and space are unique too.
    macro: its probe, or "" for a kind that only automatic probes log.
    space: shared or global.
    direction: read, write, or both for an atomic.
    widths: the possible bytes of one lane. If empty, one record is a whole tile.
    sass: the start of its opcode in the machine code.
    metric: Nsight Compute's counter of this cost, or "".
    said: its words in sentences."""

    name: str
    event: str
    macro: str
    space: str
    direction: str
    widths: tuple[int, ...]
    sass: str
    rule: Rule
    metric: str
    said: str


_ANY = (1, 2, 4, 8, 16)
_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
_LDGSTS = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts_cache_{}.sum"
_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_{}.sum"

# fmt: off
KINDS = (
    AccessKind("shared_load", "load", "PROBE_LOAD", "shared", "read", _ANY, "LDS", Rule.MERGED,
               _WAVEFRONTS.format("ld"), "a load"),
    AccessKind("shared_store", "store", "PROBE_STORE", "shared", "write", _ANY, "STS", Rule.SHARED,
               _WAVEFRONTS.format("st"), "a store"),
    AccessKind("ldmatrix", "ldmatrix", "PROBE_LDMATRIX", "shared", "read", (16,), "LDSM", Rule.SHARED,
               _WAVEFRONTS.format("ld"), "an ldmatrix"),
    AccessKind("cp_async", "cp_async", "PROBE_CP_ASYNC", "shared", "write", (4, 8, 16), "LDGSTS", Rule.SEPARATE,
               _LDGSTS.format("access"), "a cp.async"),
    AccessKind("cp_async_l2", "cp_async_l2", "PROBE_CP_ASYNC_L2", "shared", "write", (16,), "LDGSTS", Rule.BYPASS,
               _LDGSTS.format("bypass"), "a cp.async past L1"),
    AccessKind("global_load", "load", "PROBE_LOAD", "global", "read", _ANY, "LDG", Rule.SECTORS,
               _SECTORS.format("ld"), "a load"),
    AccessKind("global_store", "store", "PROBE_STORE", "global", "write", _ANY, "STG", Rule.SECTORS,
               _SECTORS.format("st"), "a store"),
    AccessKind("tma", "tma", "PROBE_TMA", "global", "read", (), "UTMALDG", Rule.BOXES, "", "a box by TMA"),
    AccessKind("product", "product", "PROBE_PRODUCT", "shared", "read", (), "HGMMA", Rule.BYPASS, "",
               "a product of a warpgroup"),
    AccessKind("tma_smem", "tma_smem", "PROBE_TMA_SMEM", "shared", "write", (), "UTMALDG", Rule.BYPASS, "",
               "a box by TMA"),
    AccessKind("tma_store", "tma_store", "PROBE_TMA_STORE", "global", "write", (), "UTMASTG", Rule.BOXES, "",
               "a box by TMA"),
    AccessKind("shared_atomic", "atomic", "", "shared", "both", _ANY, "ATOMS", Rule.SEPARATE, "", "an atomic"),
    AccessKind("global_atomic", "atomic", "", "global", "both", _ANY, "ATOM", Rule.SECTORS, "", "an atomic"),
)
# fmt: on
KIND = {kind.name: kind for kind in KINDS}
LANE_KINDS = tuple(kind for kind in KINDS if kind.widths)
"""The kinds with an access of each lane."""
LAB_KINDS = tuple(kind for kind in LANE_KINDS if kind.macro)
"""Those with a probe, for the memory lab and the calibration."""
EVENTS = tuple(dict.fromkeys(kind.event for kind in KINDS if kind.macro))
READS = tuple(dict.fromkeys(kind.event for kind in KINDS if kind.direction == "read"))
WRITES = tuple(dict.fromkeys(kind.event for kind in KINDS if kind.direction != "read"))
BOXES = tuple(kind.event for kind in KINDS if kind.rule is Rule.BOXES)
"""The events of boxes of a tensor."""
MACROS = {kind.macro: kind.event for kind in KINDS if kind.macro}
_BY_EVENT = {(kind.event, kind.space): kind for kind in KINDS}


def kind_of(event: str, space: str) -> AccessKind:
    """The kind of a trace's event in a space (shared or global). Raises KeyError."""
    return _BY_EVENT[event, space]
