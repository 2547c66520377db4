"""The small kernels round attention, apart and fused: residual and norm, rotary embedding and cache write."""

from kernels.families.fusion.norm import AddLayerNormProblem, AddNormProblem
from kernels.families.fusion.rotary import Fp8RotaryProblem, NormRotaryProblem, RopeAttentionProblem, RotaryProblem

AFTER = "paged"
PROBLEMS = {
    "norm": AddNormProblem,
    "layer_norm": AddLayerNormProblem,
    "rotary": RotaryProblem,
    "norm_rotary": NormRotaryProblem,
    "rotary_fp8": Fp8RotaryProblem,
    "rope_attention": RopeAttentionProblem,
}
