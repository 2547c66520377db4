"""The headers in angle brackets that a plain kernel may include."""

from pathlib import Path

CUDA = Path(__file__).parents[2] / "device" / "simt" / "cuda"
"""The folder of CUDA's names on the CPU."""
CUDA_HEADERS = (
    *("cuda.h", "cuda_runtime.h", "cuda_runtime_api.h", "device_launch_parameters.h", "device_functions.h"),
    *("vector_types.h", "math_constants.h", "cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h", "mma.h", "cuda_pipeline.h"),
    *("cooperative_groups.h", "cooperative_groups/reduce.h", "cooperative_groups/memcpy_async.h"),
    "cuda/pipeline",
)
STANDARD_HEADERS = (
    *("assert.h", "float.h", "limits.h", "math.h", "stddef.h", "stdint.h", "stdio.h", "stdlib.h", "string.h"),
    *("cassert", "cfloat", "climits", "cmath", "cstddef", "cstdint", "cstdio", "cstdlib", "cstring"),
    *("array", "initializer_list", "limits", "numeric", "tuple", "type_traits", "utility", "algorithm"),
)
"""Of C and C++. NVRTC gets the few that it has, and an empty text for the others."""
HOST_HEADERS = (
    *("chrono", "exception", "fstream", "functional", "iomanip", "iostream", "memory", "random", "sstream"),
    *("stdexcept", "string", "time.h", "ctime", "unistd.h", "vector", "map", "set", "thread", "sys/time.h"),
)
"""For functions of the host, which no build compiles."""
