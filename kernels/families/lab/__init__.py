"""The lab: small kernels for memory accesses, latencies and probes."""

from kernels.families.lab.accesses import AccessProblem, GlobalProblem
from kernels.families.lab.hierarchy import (
    ChaseProblem,
    ConstantChaseProblem,
    FmaProblem,
    StreamProblem,
    TextureChaseProblem,
)
from kernels.families.lab.patterns import (
    LoadProblem,
    ReadsProblem,
    ReduceProblem,
    RolesProblem,
    ShapesProblem,
    StagesProblem,
)
from kernels.families.lab.tiles import ColumnsProblem, TransposeProblem

PROBLEMS = {
    "columns": ColumnsProblem,
    "transpose": TransposeProblem,
    "global": GlobalProblem,
    "access": AccessProblem,
    "chase": ChaseProblem,
    "chase_constant": ConstantChaseProblem,
    "chase_texture": TextureChaseProblem,
    "stream": StreamProblem,
    "fma": FmaProblem,
    "roles": RolesProblem,
    "reduce": ReduceProblem,
    "load": LoadProblem,
    "stages": StagesProblem,
    "reads": ReadsProblem,
    "shapes": ShapesProblem,
}
