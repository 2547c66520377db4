"""A plain kernel with accepted inline PTX on the CPU: its result is right, and its loads are in the trace."""

from pathlib import Path

from kernels.build import Mode, build
from kernels.catalog import load_kernel
from kernels.core.cases import sample
from kernels.core.problem import Case
from kernels.core.request import Request
from kernels.run.check import check_case

FIRST = Path(__file__).parent / "tutorials" / "t01_static_shared.cu"
EXP = """
__device__ float by_ptx(float x) {
  float y;
  asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.4426950408889634f));
  return y;
}
#define expf by_ptx
#define __expf by_ptx
"""


def test_the_first_tutorial_with_an_exponential_in_ptx_is_right(tmp_path):
    text = FIRST.read_text()
    assert "expf(" in text
    path = tmp_path / "mine.cu"
    path.write_text(text.replace("#define TILE 32", f"{EXP}#define TILE 32", 1))
    kernel = load_kernel(path)
    shown = sample(kernel)
    problem = shown.problem.with_fields(seq_len=40)
    verdicts = check_case(kernel, Case(problem, tuple(kernel.settings(shown.settings).items())), "cpu")
    assert len(verdicts) == 2 and all(verdict.ok and not verdict.faults for verdict in verdicts), verdicts
    request = Request(kernel, problem, tuple(kernel.settings(shown.settings).items()))
    assert "ex2.approx.ftz.f32" in build(kernel, request.defines, Mode.TIMED, "sm_90a").ptx_path.read_text()
