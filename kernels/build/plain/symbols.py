"""The functions that a plain kernel's object file calls, and the names that it gives to the linker.

Device code calls its own functions, CUDA's and C's mathematics. A call of any other function would act behind the
probes. The names of a kernel stay inside its object file, so that none takes the place of a name of the runtime.
"""

import re
from pathlib import Path

from kernels.build import confined
from kernels.build.plain.standard import CUDA
from kernels.core.spec import KernelSpec
from kernels.errors import BuildError

_MATH = (
    r"a?(?:sin|cos|tan)h?|atan2|(?:exp|log)(?:2|10|1p|m1|b)?|expm1|pow|sqrt|cbrt|hypot|erfc?|[lt]gamma"
    r"|fabs|fma|fmod|fmax|fmin|fdim|ceil|floor|trunc|round|roundeven|rint|nearbyint|ll?rint|ll?round|ilogb|copysign"
    r"|ldexp|scalbl?n|next(?:after|toward)|remainder|[jy][01n]"
)
CALLS = {*re.findall(r"\b(simt_\w+)\(", (CUDA / "calls.h").read_text())}
"""The runtime's functions that CUDA's names call."""
OF_MARKS = {"simt_quiet", "simt_log_value"}
"""Those of a kernel with [watch] only."""
_RUNTIME = (
    r"__tsan_(?:(?:unaligned_|volatile_)?(?:read|write)(?:\d+|_range)|init|func_\w+|atomic8_load)"
    r"|__ubsan_handle_out_of_bounds"
)
_COMPILER = (
    r"_GLOBAL_OFFSET_TABLE_|__dso_handle|__cxa_(?:atexit|pure_virtual|guard_\w+)|__stack_chk_fail|__gxx_personality_v0"
    r"|_Unwind_Resume|_ZNSt8ios_base4Init[CD]1Ev|_ZSt\d+__throw_\w+|_ZSt9terminatev|__(?:mul|div|mod|udiv|umod|float|fix)\w*[tsdh]i\w*|__\w+[hs]f2?|abort|_ZTV\w+"
)
ALLOWED = re.compile(rf"(?:(?:{_MATH})[fl]?|__(?:{_MATH})[fl]?_finite|{_RUNTIME}|{_COMPILER})$")
SECONDS = 60.0  # for a tool of binutils
LOGGED = (
    *("memcpy", "memmove", "memset"),
    *(f"{name}{end}" for name in ("frexp", "modf", "remquo", "sincos") for end in ("", "f")),
)
"""C's functions that the runtime replaces by its own, which log their accesses (runtime.cpp)."""


def close(spec: KernelSpec, unit: Path) -> None:
    """Keeps the names of an object file inside it, except its launches. Raises BuildError for another call."""
    calls = CALLS - (set() if spec.watch else OF_MARKS) | {f"simt_{name}" for name in LOGGED}
    renamed = [f"--redefine-sym={name}=simt_{name}" for name in LOGGED]
    kept = ["--keep-global-symbol=launch_*", "--keep-global-symbol=DW.ref.*"]
    for command in (["objcopy", "-w", *kept, *renamed], ["readelf", "-sW"]):
        said = confined.tool(command, unit, SECONDS, f"{spec.path.name}'s code", writes=command[0] == "objcopy")
    for row in said.splitlines():
        words = row.split()
        if len(words) == 8 and words[6] == "UND" and words[7] not in calls and not ALLOWED.match(words[7]):
            raise BuildError(
                f"{spec.path.name} calls {words[7][:80]}, which is no function of device code. Use CUDA's own "
                "functions and C's mathematics."
            )
