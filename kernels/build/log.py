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
        return (
            f"{_line_with(spec, undefined[1])}: {undefined[1]} has no definition on the CPU. Use a function of the C "
            "library, such as expf, or of kernels/device/ptx.cuh."
        )
    if not found:
        return f"{spec.path.name} does not compile: {log.strip()[:2000]}"
    file, line = _place(spec, log, found)
    unknown = re.search(r"not declared|undeclared|undefined", found[3])
    remedies = [remedy for name, remedy in _MISSING.items() if unknown and name in found[3]]
    return f"{file} line {line}: {remedies[0] if remedies else found[3].strip()}"


def _place(spec: KernelSpec, log: str, found: re.Match[str]) -> tuple[str, str]:
    """File and line of an error. An error in a macro of a header has the line of the macro's use in the .cu."""
    own, reported = spec.files[0][0], (Path(found[1]).name, found[2])
    if reported[0] == own:
        return reported
    end = log.find(" error: ", found.end())
    uses = _EXPANDED.findall(log, found.end(), end if end > 0 else len(log))
    return next(((own, line) for file, line in uses if Path(file).name == own), reported)


def _line_with(spec: KernelSpec, name: str) -> str:
    """File and line of a name's first use in the kernel's files, or the .cu's name."""
    for file, text in spec.files:
        for number, line in enumerate(text.splitlines(), 1):
            if re.search(rf"\b{re.escape(name)}\b", line.partition("//")[0]):
                return f"{file} line {number}"
    return spec.path.name
