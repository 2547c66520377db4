"""The lab: small kernels for memory accesses, latencies and probes."""

from kernels.families.lab import accesses, hierarchy, patterns, tiles

PROBLEMS = {
    "columns": tiles.ColumnsProblem,
    "transpose": tiles.TransposeProblem,
    "global": accesses.GlobalProblem,
    "access": accesses.AccessProblem,
    "chase": hierarchy.ChaseProblem,
    "chase_constant": hierarchy.ConstantChaseProblem,
    "chase_texture": hierarchy.TextureChaseProblem,
    "stream": hierarchy.StreamProblem,
    "fma": hierarchy.FmaProblem,
    "roles": patterns.RolesProblem,
    "reduce": patterns.ReduceProblem,
    "load": patterns.LoadProblem,
    "stages": patterns.StagesProblem,
    "reads": patterns.ReadsProblem,
    "shapes": patterns.ShapesProblem,
}
