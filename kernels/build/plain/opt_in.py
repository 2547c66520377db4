"""Dynamic shared memory above 48 KB, which a GPU gives only after cudaFuncSetAttribute."""

import re

from kernels.build.plain.tokens import bare
from kernels.core.launch import Plan
from kernels.core.spec import KernelSpec

WITHOUT = 48 * 1024  # dynamic shared bytes of a block
_CALLS = re.compile(r"MaxDynamicSharedMemorySize|MAX_DYNAMIC_SHARED_SIZE_BYTES")


def needs(spec: KernelSpec, plan: Plan) -> list[tuple[str, int, int]]:
    """(sentence, line, bytes) of each entry above WITHOUT whose launch in the text has no opt-in. Line 0 and "" as the
    sentence's place, if the text has no launch of this entry: then its host is elsewhere."""
    text = bare(spec.files[0][1])
    if not spec.plain or _CALLS.search(text):
        return []
    found = {}
    for step in plan.launches:
        if step.shared_bytes <= WITHOUT or step.entry in found:
            continue
        name = step.entry.partition("<")[0]
        launch = re.search(rf"\b{re.escape(name)}\s*(?:<[^<>;]{{0,200}}>)?\s*<<<", text)
        line = 1 + text.count("\n", 0, launch.start()) if launch else 0
        where = f"line {line} launches {name}" if launch else f"{name} runs"
        said = (
            f"{where} with {step.shared_bytes:,} bytes of dynamic shared memory. A GPU refuses more than {WITHOUT:,} "
            f"(invalid argument) without cudaFuncSetAttribute({name}, "
            "cudaFuncAttributeMaxDynamicSharedMemorySize, bytes)."
        )
        found[step.entry] = (said, line, step.shared_bytes)
    return list(found.values())
