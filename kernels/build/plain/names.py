"""The macros for a plain kernel: only those whose names the text uses and does not declare itself."""

import re
from collections.abc import Mapping

from kernels.core.spec import KernelSpec

_KINDS = r"int|unsigned|size_t|auto|bool|float|double|long|short|uint32_t|int32_t|typename|class|enum|const"


def own_defines(spec: KernelSpec, defines: Mapping[str, int]) -> dict[str, int]:
    """The macros that the kernel's text leaves open. defines: of the problem, and the kernel's constants."""
    text = "\n".join(text for _, text in spec.files)
    entries = " ".join(launch.entry for launch in spec.launch_texts)
    return {
        name: value
        for name, value in defines.items()
        if re.search(rf"\b{name}\b", f"{text} {entries}")
        and not re.search(rf"(?:\b(?:{_KINDS})\s+|#[ \t]*define[ \t]+){re.escape(name)}\b", text)
    }
