"""Accepted inline PTX on the CPU: each instruction gives its value, and a load is in the trace with its line."""

import math
from pathlib import Path

import numpy as np
import pytest
from front import of_roles

from kernels.build import Mode, build
from kernels.build.plain.ptx import MEANINGS
from kernels.catalog import load_kernel
from kernels.core.cases import sample
from kernels.core.problem import Case
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import BuildError
from kernels.run import execute
from kernels.run.backends import cpu
from kernels.run.check import check_case

FIRST = Path(__file__).parent / "tutorials" / "t01_static_shared.cu"
PTX = """
__device__ float by_ptx(float x) {
  float y;
  asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.4426950408889634f));
  return y;
}
__device__ float loaded(const float* at) {
  float y;
  asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(y) : "l"(at));
  return y;
}
#define expf by_ptx
#define __expf by_ptx
"""
ALL = of_roles("""
[[launches]]
entry = "all"
grid = [1]
block = [1]
args = ["x", "o", "int32 tiles"]
*/
__global__ void all(const float* x, float* o, int tiles) {
  const float a = 0.75f, b = 2.5f, c = -1.5f;
  BODY
}
""")
FLOATS = {  # of a, and of b and c
    **{"rcp": (lambda a: 1 / a), "rsqrt": (lambda a: a**-0.5), "sqrt": math.sqrt, "ex2": (lambda a: 2**a)},
    **{"lg2": math.log2, "sin": math.sin, "cos": math.cos, "tanh": math.tanh, "neg": (lambda a: -a)},
    **{"add": (lambda a, b: a + b), "mul": (lambda a, b: a * b), "max": max},
    **{"min": min, "fma": (lambda a, b, c: a * b + c)},
}
COUNTS = {"add": 2, "mul": 2, "max": 2, "min": 2, "fma": 3}
MOVED = {  # a value's type, letter and text, and those of its copy
    "f32": ("float", "f", "1.5f") * 2,
    "u32": ("unsigned", "r", "4000000000u") * 2,
    "s32": ("int", "r", "-7") * 2,
    "u64": ("unsigned long long", "l", "1099511627781ull") * 2,
    "b32": ("float", "f", "1.5f", "unsigned", "r", "0x3fc00000u"),
}
MACROS = """
#define EX2(y, x) \\
  asm volatile("ex2.approx.ftz.f32 %0, %1;" \\
               : "=f"(y) : "f"(x))
#define UNUSED() asm volatile("trap;")
"""
ORDERS = [
    ("float z; EX2(z, a);", 2**0.75),
    ('float z = a; asm("add.f32 %0, %1, %2; mul.f32 %0, %0, %1;" : "=f"(z) : "f"(z), "f"(b));', (0.75 + 2.5) * 0.75),
    ('float z = a; asm("add.f32 %0, %0, %1; mul.f32 %0, %0, %1;" : "+f"(z) : "f"(z));', (0.75 + 0.75) * 0.75),
]


def _tried(name):
    """The C++ that sets z by an instruction, and the value of z."""
    operation, kind = name.split(".")[0], name.rpartition(".")[2]
    if operation in FLOATS:
        values = {"a": 0.75, "b": 2.5, "c": -1.5}
        names = list(values)[: COUNTS.get(operation, 1)]
        places = ", ".join(f"%{n}" for n in range(len(names) + 1))
        given = ", ".join(f'"f"({one})' for one in names)
        return f'float z; asm("{name} {places};" : "=f"(z) : {given});', FLOATS[operation](*map(values.get, names))
    if operation in ("bar", "membar"):
        return f'asm volatile("{name}{" 0" * (operation == "bar")};" ::: "memory"); float z = 1.f;', 1.0
    if operation == "red":
        return f'float z = 1.f; asm volatile("{name} [%0], %1;" :: "l"(&z), "f"(a));', 1.75
    of, letter, text, to, its_letter, expected = MOVED[kind]
    start = f"{of} from = {text}; {to} y{{}};"
    if operation == "st":
        code = f'asm volatile("{name} [%0], %1;" :: "l"(&y), "{letter}"(from) : "memory");'
    else:
        place, by, what = ("[%1]", "l", "&from") if operation == "ld" else ("%1", letter, "from")
        code = f'asm volatile("{name} %0, {place};" : "={its_letter}"(y) : "{by}"({what}));'
    return f"{start} {code} float z = y == {expected};", 1.0


def test_each_accepted_instruction_gives_its_value_on_the_cpu(tmp_path):
    tried = [*map(_tried, MEANINGS), *ORDERS]
    path = tmp_path / "mine.cu"
    text = ALL.replace("__global__", f"{MACROS}__global__")
    path.write_text(text.replace("BODY", "\n  ".join(f"{{ {code} o[{n}] = z; }}" for n, (code, _) in enumerate(tried))))
    kernel = load_kernel(path)
    problem = sample(kernel).problem
    request = Request(kernel, problem.with_fields(consumers=len(tried) // 32 + 1), (), Scope(), "cpu")
    built, plan = execute.prepare(request, Mode.TIMED)[:2]
    arrays = execute.start_arrays(request)
    cpu.launch(built, plan, arrays, Scope(), reversed_order=True)
    values = arrays["o"].ravel()[: len(tried)]
    wrong = [(code, v, e) for (code, e), v in zip(tried, values) if not np.isclose(v, e, rtol=1e-6)]
    assert not wrong


def test_the_first_tutorial_with_an_exponential_and_a_load_in_ptx_is_right(tmp_path):
    text, load = FIRST.read_text(), "K[head + (start + r) * head_dim + d]"
    assert "expf(" in text and load in text
    path = tmp_path / "mine.cu"
    text = text.replace(load, f"loaded(&{load})").replace("#define TILE 32", f"{PTX}#define TILE 32", 1)
    path.write_text(text)
    kernel = load_kernel(path)
    shown = sample(kernel)
    problem = shown.problem.with_fields(seq_len=40)
    settings = tuple(kernel.settings(shown.settings).items())
    verdicts = check_case(kernel, Case(problem, settings), "cpu")
    assert len(verdicts) == 2 and all(verdict.ok and not verdict.faults for verdict in verdicts), verdicts
    request = Request(kernel, problem, settings, Scope(), "cpu")
    assert "ex2.approx.ftz.f32" in build(kernel, request.defines, Mode.TIMED, "sm_90a").ptx_path.read_text()
    frame = execute.run(request).trace.frame("line", "event", "tensor")
    loads = frame[(frame.event == "load") & (frame.tensor == "K")]
    line = next(n for n, each in enumerate(text.splitlines(), 1) if "ld.global" in each)
    assert set(loads.line) == {line}


@pytest.mark.parametrize(
    ("macro", "use", "said"),
    [
        ('#define STOP() asm volatile("trap;")', "STOP();", "its inline PTX (trap)"),
        ("#define PTX(text) asm volatile(text)", 'PTX("trap;");', "its inline PTX (a macro in asm)"),
        ("#define OTHER asm", 'OTHER("trap;");', "its inline PTX (asm)"),
    ],
)
def test_other_ptx_in_a_macro_is_refused_at_its_line(tmp_path, macro, use, said):
    path = tmp_path / "mine.cu"
    path.write_text(ALL.replace("__global__", f"{macro}\n__global__").replace("BODY", use))
    kernel = load_kernel(path)
    line = 1 + path.read_text().partition(macro)[0].count("\n")
    for mode in (Mode.TIMED, Mode.PROBED):
        with pytest.raises(BuildError) as refused:
            build(kernel, {}, mode, "sm_90a" if mode is Mode.TIMED else "cpu")
        assert f"mine.cu line {line}: {said}" in str(refused.value)
