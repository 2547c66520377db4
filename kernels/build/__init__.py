"""Compiles a kernel to a cubin or a shared library, with a cache by content, and inspects the result."""

from kernels.build.builds import build
from kernels.build.cpp import cpp_compiler
from kernels.build.folders import cache_folder
from kernels.build.nvrtc import architectures
from kernels.build.product import CPU, DEFAULT_ARCH, Build, EntryFacts, Mode
from kernels.build.sass import sass

__all__ = [
    "CPU",
    "DEFAULT_ARCH",
    "Build",
    "EntryFacts",
    "Mode",
    "architectures",
    "build",
    "cache_folder",
    "cpp_compiler",
    "sass",
]
