"""Kinds of kernels, a folder each: its .cu files, its problems, its cases. Folders that WARPGLASS_KERNELS names are
searched too."""

import os
from pathlib import Path

__path__.extend(
    str(Path(folder).resolve()) for folder in os.environ.get("WARPGLASS_KERNELS", "").split(os.pathsep) if folder
)
