"""nvJitLink: links relocatable code with CUDA's device runtime, which launches kernels from a kernel. Needs no GPU."""

import re
from functools import lru_cache
from pathlib import Path
from types import ModuleType

from kernels.build import packages
from kernels.errors import BackendUnavailable, BuildError

LIBRARY = "cudadevrt"  # the device runtime
RELOCATABLE = "--relocatable-device-code=true"
_TOOLKIT = ("lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib")


@lru_cache
def _nvjitlink() -> ModuleType:
    try:
        from cuda.bindings import nvjitlink

        nvjitlink.version()
    except (ImportError, RuntimeError, OSError, AttributeError) as error:
        raise BackendUnavailable(
            f"The kernel launches kernels, and nvJitLink, which links them, could not be loaded ({error}). "
            f"Choose the recorded backend, or run: {packages.command(packages.SETS[12])}"
        ) from None
    return nvjitlink


def version() -> str:
    return "nvJitLink {}.{}".format(*_nvjitlink().version())


@lru_cache
def runtime() -> str:
    """The path of libcudadevrt.a, from a wheel or a toolkit. Raises BackendUnavailable."""
    try:
        from cuda.pathfinder import find_static_lib

        return find_static_lib(LIBRARY)
    except (ImportError, RuntimeError, OSError):
        pass
    for folder in _TOOLKIT:
        found = packages.toolkit() / folder / f"lib{LIBRARY}.a"
        if found.is_file():
            return str(found)
    raise BackendUnavailable(
        f"The kernel launches kernels, and CUDA's device runtime (lib{LIBRARY}.a) was not found. "
        "PyPI's wheels for CUDA 12.8 lack it. Choose the recorded backend, set CUDA_HOME to a toolkit, or in a new "
        f"environment run: {packages.command(packages.SETS[13])}"
    )


def misfit(arch: str) -> str:
    """Why nvJitLink would crash with the device runtime, or "": nvJitLink 12 does with CUDA 13's, from sm_100 on."""
    library, major = Path(runtime()), _nvjitlink().version()[0]
    header = library.parents[1] / "include" / "cuda.h"
    found = re.search(r"#define CUDA_VERSION (\d+)\d{3}$", header.read_text(), re.M) if header.is_file() else None
    if not found or int(found[1]) <= major or int(re.sub(r"\D", "", arch)) < 100:
        return ""
    return (
        f"{version()} cannot link {library} of CUDA {found[1]} for {arch}. Set CUDA_HOME to a toolkit of CUDA {major}, "
        f"or in a new environment run: {packages.command(packages.SETS[13])}"
    )


def linked(name: str, arch: str, relocatable: bytes) -> bytes:
    """The cubin of a kernel's relocatable code and the device runtime. Raises BuildError."""
    if said := misfit(arch):
        raise BuildError(f"{name} does not link: {said}")
    library, link = runtime(), _nvjitlink()
    handle = link.create(2, [f"-arch={arch}", "-lineinfo"])
    try:
        link.add_data(handle, link.InputType.CUBIN, relocatable, len(relocatable), name)
        link.add_file(handle, link.InputType.LIBRARY, library)
        link.complete(handle)
        cubin = bytearray(link.get_linked_cubin_size(handle))
        link.get_linked_cubin(handle, cubin)
    except link.nvJitLinkError as error:
        log = bytearray(link.get_error_log_size(handle))
        link.get_error_log(handle, log)
        said = log.decode(errors="replace").strip("\0\n ") or str(error)
        raise BuildError(f"{name} does not link with {library}: {said.splitlines()[0]}") from None
    finally:
        link.destroy(handle)
    return bytes(cubin)
