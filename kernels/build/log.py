"""The first error of a compiler's log, with our file and line."""

import re
from pathlib import Path

from kernels.core.spec import KernelSpec

_EXPANDED = re.compile(r"(?<![^\s:])([^\s:]++):(\d++):\d++: note: in expansion of macro")
_UNDEFINED = re.compile(r"undefined (?:reference to|symbol:?) [`'\"]?(?:\w+::)*(\w+)")
_MISSING = {  # a variable of the probes -> the remedy
    "probe_writer": "a probe comes before PROBE_BEGIN(). Write PROBE_BEGIN(); first. A device function's parameters "
    "end with PROBE_REF, and its arguments with PROBE_PASS",
    "probe_records": "PROBE_BEGIN() needs PROBE_PARAM. End the kernel's parameters with it",
}


def first_error(spec: KernelSpec, log: str, pattern: re.Pattern[str]) -> str:
    """The first error of a log. pattern: with the groups file, line and error."""
    found = pattern.search(log)
    refused = re.search(r"^ptxas .*error\s*: (.*)$", log, re.M)
    if refused and not found:
        later = re.search(r"Feature '\.?(.*?)' requires \.target (\w+) or higher", refused[1])
        said = f"It needs {later[2]} or later for {later[1]}." if later else refused[1]
        return f"{spec.path.name} does not compile for this architecture: {said}"
    undefined = _UNDEFINED.search(log)
    if undefined and not found:
        used = re.compile(rf"\b{re.escape(undefined[1])}\b")
        lines = ((file, line) for file, text in spec.files for line in enumerate(text.splitlines(), 1))
        first = (f"{file} line {n}" for file, (n, line) in lines if used.search(line.partition("//")[0]))
        return (
            f"{next(first, spec.path.name)}: {undefined[1]} has no definition on the CPU. Use a function of the C "
            "library, such as expf, or of kernels/device/ptx.cuh."
        )
    if not found:
        return f"{spec.path.name} does not compile: {log.strip()[:2000]}"
    own, file, line = spec.files[0][0], Path(found[1]).name, found[2]
    if file != own:  # an error in a macro of a header has the line of the macro's use in the .cu
        end = log.find(" error: ", found.end())
        uses = _EXPANDED.findall(log, found.end(), end if end > 0 else len(log))
        file, line = next(((own, at) for use, at in uses if Path(use).name == own), (file, line))
    unknown = re.search(r"not declared|undeclared|undefined", found[3])
    remedies = [remedy for name, remedy in _MISSING.items() if unknown and name in found[3]]
    return f"{file} line {line}: {remedies[0] if remedies else found[3].strip()}"
