"""The constructs that a plain kernel may not use, each refused with its line and a remedy."""

from pathlib import Path

from kernels.build.plain.tokens import functions, line_of, tokens
from kernels.errors import BuildError

CUDA = Path(__file__).parents[2] / "device" / "simt" / "cuda"
"""The folder of CUDA's names on the CPU."""
CUDA_HEADERS = (
    *("cuda.h", "cuda_runtime.h", "cuda_runtime_api.h", "device_launch_parameters.h", "device_functions.h"),
    *("vector_types.h", "math_constants.h", "cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h", "mma.h", "cuda_pipeline.h"),
    *("cooperative_groups.h", "cooperative_groups/reduce.h", "cooperative_groups/memcpy_async.h"),
    *("cuda/pipeline", "cuda/barrier", "cub/cub.cuh", "cub/block/block_reduce.cuh", "cub/block/block_scan.cuh"),
    *("cub/block/block_load.cuh", "cub/block/block_store.cuh", "cub/warp/warp_reduce.cuh", "cub/warp/warp_scan.cuh"),
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
    *("any", "atomic", "bitset", "complex", "condition_variable", "deque", "filesystem", "future", "ios", "iosfwd"),
    *(
        "istream",
        "iterator",
        "list",
        "locale",
        "mutex",
        "new",
        "optional",
        "ostream",
        "queue",
        "ratio",
        "regex",
        "stack",
    ),
    *("string_view", "typeindex", "typeinfo", "unordered_map", "unordered_set", "variant", "cctype", "cerrno"),
    *("cinttypes", "csignal", "cstdarg", "ctype.h", "errno.h", "fcntl.h", "getopt.h", "inttypes.h", "malloc.h"),
    *("memory.h", "signal.h", "stdarg.h", "stdbool.h", "sys/resource.h", "sys/stat.h", "sys/types.h"),
)
"""For functions of the host, which no build compiles."""

_LAUNCH = (
    "it launches a kernel in device code. Write probes and children by hand (kernels/launches.md), or launch from the "
    "host"
)
_WORDS = {
    "coalesced_threads": "coalesced groups are not known here. Use tiled_partition, or a mask",
    "cudaGridDependencySynchronize": "programmatic launches are not known here. Use two launches",
    "tex1Dfetch": "textures are not known here. Read the array itself",
    "tex2D": "textures are not known here. Read the array itself",
    "surf2Dwrite": "surfaces are not known here. Write the array itself",
    "block_tile_memory": "tiles of several warps are not known here. Use tiles of at most 32 threads",
    "cluster_group": "clusters are not known here. Use one block",
    "this_cluster": "clusters are not known here. Use one block",
}


def check(name: str, text: str) -> None:
    """Raises BuildError for the first construct of a file's device code that no build accepts. name: of the file."""
    for at, reason in sorted(_found(text)):
        raise BuildError(f"{name} line {line_of(text, at)}: {reason}.")


def _found(text: str) -> list[tuple[int, str]]:
    found = tokens(text)
    reasons = [(token.start, _WORDS[token.text]) for token in found if token.text in _WORDS]
    for function in functions(text, found):
        inside = found[function.body : function.last] if function.on_device else []
        launches = [token for token in inside if token.text == "<<<"]
        reasons += [(t.start, _LAUNCH) for t in launches]
    return reasons
