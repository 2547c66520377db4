"""A kernel of ours for a browser: WebAssembly of its probed build over kernels/device/simt, made by Emscripten.

kernels/device/wasm has the shim's fibers and stacks for WebAssembly, and no signals. The module needs no JavaScript of
Emscripten. It exports its memory, malloc, free and launch_<entry>, as simt.h describes it with pointers of 4 bytes.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernels.build import cache, cpp
from kernels.core.spec import KernelSpec
from kernels.errors import BackendUnavailable

HEADERS = cpp.SHIM.parent / "wasm"
OPTIONS = (
    *("-DPROBED", "-std=c++17", "-O2", "-ffp-contract=off", "-fno-exceptions", "-fno-rtti"),
    *("-sASYNCIFY", "-sSTANDALONE_WASM", "--no-entry", "-sALLOW_MEMORY_GROWTH", "-sMALLOC=emmalloc"),
    *("-sERROR_ON_UNDEFINED_SYMBOLS=0", "-sWARN_ON_UNDEFINED_SYMBOLS=0"),  # Asyncify adds its own functions last
)
SECONDS = 60.0  # that Emscripten may take to say its version: at its first start it looks at its tools


def has_compiler() -> bool:
    return shutil.which("emcc") is not None


def build(spec: KernelSpec, defines: Mapping[str, int]) -> bytes:
    """The module of a kernel with written probes, from the cache or new. defines: of the problem, and the constants.

    Raises BackendUnavailable without Emscripten, BuildError with file and line."""
    if not has_compiler():
        raise BackendUnavailable("Emscripten was not found. Install it (Debian: apt install emscripten).")
    headers = {path.name: path.read_text() for shim in (cpp.SHIM, HEADERS) for path in sorted(shim.glob("*.h"))}
    entries = dict.fromkeys(launch.entry for launch in spec.launch_texts)
    options = [*OPTIONS, *(f"-D{name}={value}" for name, value in sorted(defines.items()))]
    options.append(f"-sEXPORTED_FUNCTIONS=_malloc,_free,{','.join(f'_launch_{entry}' for entry in entries)}")
    product = f"{spec.name}.wasm"

    def make(folder: Path) -> dict[str, Any]:
        sources = cpp.written(spec, headers.items(), folder)
        cpp.compiled(spec, ["emcc", *options, str(sources / "unit.cpp"), "-o", str(folder / product)], sources)
        shutil.rmtree(sources)
        return {}

    key = cache.key_of(
        cpp.version(("emcc",), SECONDS), *options, *(part for text in (*spec.files, *headers.items()) for part in text)
    )
    return (cache.get(key, product, make)[0] / product).read_bytes()
