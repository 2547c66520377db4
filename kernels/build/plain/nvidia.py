"""A plain kernel for NVRTC: NVIDIA's headers, texts for headers that NVRTC lacks, and instances of templates."""

import re
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from kernels.build import packages
from kernels.build.plain import refusals
from kernels.build.plain.edits import device_text
from kernels.build.plain.standard import HOST_HEADERS, STANDARD_HEADERS
from kernels.core.signatures import is_plain_c
from kernels.core.spec import KernelSpec
from kernels.errors import BackendUnavailable

TEXTS = Path(__file__).parents[2] / "device" / "nvrtc"
"""The folder of the texts for headers that NVRTC lacks."""
ALWAYS = "nvcc_always.h"
"""The header with the names that nvcc gives without an include."""


def files_of(spec: KernelSpec) -> list[tuple[str, str]]:
    """(name, text) of the kernel's files and of the texts in place of C's headers. Raises BuildError."""
    for name, text in spec.files:
        refusals.check(name, text)
    own = [(name, device_text(text)) for name, text in spec.files]
    # NVRTC itself has the names of nv/target, and the wheel of the headers lacks the file.
    texts = dict(headers())
    whole = texts["whole.h"]
    own += [(ALWAYS, texts["always.h"]), ("nv/target", "#pragma once\n")]
    return [
        *own,
        *(
            (name, whole if name in ("limits.h", "climits") else "#pragma once\n")
            for name in (*STANDARD_HEADERS, *HOST_HEADERS)
        ),
    ]


def headers() -> tuple[tuple[str, str], ...]:
    """(name, text) of our texts in place of headers that NVRTC lacks."""
    return tuple((path.name, path.read_text()) for path in sorted(TEXTS.glob("*.h")))


@lru_cache
def include_options() -> tuple[str, ...]:
    """The options for NVIDIA's headers, such as cuda_fp16.h: of the wheels, then the others of a toolkit.

    Raises BackendUnavailable without the wheels.
    """
    found_package = find_spec("nvidia")
    folders = [Path(folder) for folder in (found_package.submodule_search_locations or ())] if found_package else []
    for folder in folders:
        for found in (folder / "cuda_runtime" / "include", folder / "cu13" / "include"):
            if (found / "cuda_fp16.h").is_file():
                more = [folder / "cuda_cccl" / "include", *(other / "cu13" / "include" for other in folders)]
                toolkit = packages.toolkit() / "include"
                # cuda_cccl and cccl have type traits, cu13 and the toolkit the folder crt of mma.h.
                paths = [path for path in dict.fromkeys([found, *more, toolkit / "cccl", toolkit]) if path.is_dir()]
                return (*(f"--include-path={path}" for path in paths), f"--pre-include={ALWAYS}")
    raise BackendUnavailable(f"CUDA's headers were not found. Run: {packages.command()}")


def instances(spec: KernelSpec, options: list[str]) -> dict[str, str]:
    """The expression of each entry without C's linkage, with the macros of `options` in it -> the entry."""
    macros = dict(option[2:].split("=", 1) for option in options if option.startswith("-D") and "=" in option)
    entries = dict.fromkeys(launch.entry for launch in spec.launch_texts)
    return {
        re.sub(r"\w+", lambda word: macros.get(word[0], word[0]), entry): entry
        for entry in entries
        if not is_plain_c(spec.source, entry)
    }
