"""A plain kernel for NVRTC: NVIDIA's headers, texts for headers that NVRTC lacks, and instances of templates."""

import re
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from kernels.build.plain import refusals
from kernels.build.plain.edits import device_text
from kernels.build.plain.standard import HOST_HEADERS, STANDARD_HEADERS
from kernels.core.signatures import is_plain_c
from kernels.core.spec import KernelSpec
from kernels.errors import BackendUnavailable

_LIMITS = """#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.192092896e-07f
#define DBL_MAX 1.7976931348623157e+308
#endif
"""
_WHOLE = """#ifndef INT_MAX
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define UINT_MAX 4294967295u
#endif
"""
_INTEGERS = """#ifndef PLAIN_INTEGERS
#define PLAIN_INTEGERS
typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long long int64_t;
typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned uint32_t;
typedef unsigned long long uint64_t; typedef unsigned long long uintptr_t; typedef long long intptr_t;
#endif
"""
_TEXTS = {
    **dict.fromkeys(("float.h", "math.h", "cfloat", "cmath"), _LIMITS),
    **dict.fromkeys(("limits.h", "climits"), _WHOLE),
    **dict.fromkeys(("stdint.h", "cstdint", "stddef.h", "cstddef"), _INTEGERS),
}
ALWAYS = "nvcc_always.h"
"""The header with the names that nvcc gives without an include."""


def files_of(spec: KernelSpec) -> list[tuple[str, str]]:
    """(name, text) of the kernel's files and of the texts in place of C's headers. Raises BuildError."""
    for name, text in spec.files:
        refusals.check(name, text)
    own = [(name, device_text(text)) for name, text in spec.files]
    # NVRTC itself has the names of nv/target, and the wheel of the headers lacks the file.
    own += [(ALWAYS, _LIMITS + _INTEGERS), ("nv/target", "#pragma once\n")]
    return [*own, *((name, _TEXTS.get(name, "#pragma once\n")) for name in (*STANDARD_HEADERS, *HOST_HEADERS))]


@lru_cache
def include_options() -> tuple[str, ...]:
    """The option for NVIDIA's headers, such as cuda_fp16.h. Raises BackendUnavailable without them."""
    found_package = find_spec("nvidia")
    for folder in (found_package.submodule_search_locations or ()) if found_package else ():
        for found in (Path(folder) / "cuda_runtime" / "include", Path(folder) / "cu13" / "include"):
            if (found / "cuda_fp16.h").is_file():
                traits = Path(folder) / "cuda_cccl" / "include"  # for cooperative_groups.h
                return (f"--include-path={found}", f"--include-path={traits}", f"--pre-include={ALWAYS}")
    raise BackendUnavailable("CUDA's headers were not found. Install the wheel nvidia-cuda-runtime-cu12.")


def instances(spec: KernelSpec, options: list[str]) -> dict[str, str]:
    """The expression of each entry without C's linkage, with the macros of `options` in it -> the entry."""
    macros = dict(option[2:].split("=", 1) for option in options if option.startswith("-D") and "=" in option)
    entries = dict.fromkeys(launch.entry for launch in spec.launch_texts)
    return {
        re.sub(r"\w+", lambda word: macros.get(word[0], word[0]), entry): entry
        for entry in entries
        if not is_plain_c(spec.source, entry)
    }
