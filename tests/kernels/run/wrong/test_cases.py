"""Small kernels after public bug reports (cases/): opened as they are, then checked on a few of their problems."""

from pathlib import Path

import pytest

from kernels import __main__ as command_line
from kernels.build import inspection
from kernels.catalog import load_kernel
from kernels.core.problem import Case
from kernels.families.dense import DenseProblem
from kernels.families.dense.problem import LOW_LENGTH, LOW_SCALE, LOW_SEEDS
from kernels.families.tensor_cores.problem import SixteenBitProblem
from kernels.run import facts
from kernels.run.check import check_case
from kernels.run.wrong.telling import evidence_of, once

CASES = Path(__file__).parent / "cases"
ROWS = DenseProblem(7, 32, 1, 2, True)
FULL = DenseProblem(40, 32, 1, 2)
RISING = SixteenBitProblem(200, 64, num_heads=1, dtype="float16", scores="rising", score_scale=2.0)
LOW = DenseProblem(LOW_LENGTH, 32, 1, 2, True, LOW_SCALE, LOW_SEEDS[32])


@pytest.fixture
def opened(tmp_path):
    """opened(name) -> the kernel of a case, with its proposed front matter."""

    def make(name):
        path = tmp_path / f"{name}.cu"
        path.write_text((CASES / f"{name}.cu").read_text())
        assert command_line.main(["open", str(path), "--write"]) == 0
        return load_kernel(path)

    return make


def evidence(kernel, problem):
    verdicts = check_case(kernel, Case(problem), "cpu")
    return verdicts, once(one for v in verdicts for one in evidence_of(v.faults, v.reason))


def line_of(kernel, part):
    """The number of the first line of code with this part."""
    return next(n for n, line in enumerate(kernel.source.splitlines(), 1) if part in line and "RIGHT" not in line)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("01_empty_slice_ok", ROWS),
        ("05_reuse_red_ok", FULL),
        ("05_fixed_width_define", DenseProblem(40, 64, 1, 2)),
        ("06_volatile_tail_ok", FULL),
        ("06_constant_named_T", FULL),
        ("08_float4_ok", DenseProblem(33, 32, 1, 2)),
    ],
)
def test_a_right_kernel_has_no_evidence(opened, name, problem):
    verdicts, found = evidence(opened(name), problem)
    assert all(verdict.ok for verdict in verdicts) and not found, (verdicts, found)


@pytest.mark.parametrize(
    ("name", "problem", "part", "said"),
    [
        ("01_empty_slice_nan", ROWS, "float alpha = expf(m - m_new)", "(-inf) - (-inf)"),
        ("13_nan_hint", ROWS, "float alpha = expf(m - m_new)", "(-inf) - (-inf)"),
        ("05_reuse_red_race", FULL, "red[t] = sum;", "No barrier is between them"),
        ("06_volatile_tail_race", FULL, "", "No __syncwarp is between them"),
        ("08_float4_row", DenseProblem(33, 32, 1, 2), "reinterpret_cast<const float4*>", "not aligned to its width"),
        ("18_lse_hint", RISING, "", "Scores are summed in float16"),
        ("21_mask_minus_1e4", LOW, "o[base + row * HEAD_DIM + d] =", ""),
    ],
)
def test_a_fault_is_named_with_its_line_and_its_cause(opened, name, problem, part, said):
    kernel = opened(name)
    verdicts, found = evidence(kernel, problem)
    assert not all(verdict.ok for verdict in verdicts)
    text = " ".join([*(one.text for one in found), *(verdict.message for verdict in verdicts)])
    assert said in text and "never written" not in text and "map from threads" not in text, text
    lines = {line for one in found for line in one.lines}
    assert not part or line_of(kernel, part) in lines, (lines, text)


def test_shared_memory_above_48_kb_without_an_opt_in_is_an_error_of_main_check_and_inspect(tmp_path, capsys):
    text = (CASES / "16_smem_over_48k.cu").read_text()
    call = "cudaFuncSetAttribute(attn_all, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)smem);"
    for name, own in (("over", text), ("opted_in", text.replace("/*ATTR*/", call))):
        path = tmp_path / f"{name}.cu"
        path.write_text(own)
        assert command_line.main(["open", str(path), "--write"]) == 0
        printed = capsys.readouterr().out
        kernel = load_kernel(path)
        _, found = evidence(kernel, FULL)
        said = facts.inspect_lines(inspection.inspect(kernel, FULL, ()))
        if name == "opted_in":
            assert "no error" in printed and "invalid argument" not in printed
            assert not found and "invalid argument" not in " ".join(said)
        else:
            assert "no error" not in printed and "invalid argument" in printed
            assert "needs an opt-in for 65536 shared bytes" in printed
            assert [one.kind for one in found] == ["refused launch"]
            assert found[0].lines == (line_of(kernel, "<<<batch * num_heads"),)
            assert any("Line" in line and "65,536 bytes of dynamic shared memory" in line for line in said)
