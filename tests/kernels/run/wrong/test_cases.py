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
from kernels.run import counting, facts
from kernels.run.check import check_case
from kernels.run.wrong.telling import evidence_of, once

CASES = Path(__file__).parent / "cases"
ROWS = DenseProblem(7, 32, 1, 2, True)
FULL = DenseProblem(40, 32, 1, 2)
RISING = SixteenBitProblem(200, 64, num_heads=1, dtype="float16", scores="rising", score_scale=2.0)
LOW = DenseProblem(LOW_LENGTH, 32, 1, 2, True, LOW_SCALE, LOW_SEEDS[32])


@pytest.fixture
def opened(tmp_path):
    """opened(name, *words) -> the kernel of a case, with its proposed front matter. words: of the command line."""

    def make(name, *words, edit=lambda text: text):
        for header in CASES.glob("*.h"):
            (tmp_path / header.name).write_text(header.read_text())
        path = tmp_path / f"{name}.cu"
        path.write_text(edit((CASES / f"{name}.cu").read_text()))
        assert command_line.main(["open", str(path), "--write", *words]) == 0
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
        ("03_header_beside", DenseProblem(17, 32, 1, 2)),
        ("04_host_include", DenseProblem(17, 32, 1, 2)),
        ("09_memset_output", DenseProblem(17, 32, 1, 2)),
        ("10_ptx_cp_async", DenseProblem(17, 32, 1, 2)),
        ("16_banks_f4_36", DenseProblem(17, 32, 1, 2)),
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


def test_a_program_without_attention_runs_as_its_main_did(opened, capsys):
    kernel = opened("01_saxpy_with_main")
    assert "1 launches, exit code 0" in capsys.readouterr().out
    problem = kernel.problem_type()
    assert [tensor.shape for tensor in problem.tensors()] == [(2000,), (1000,)]
    assert all(verdict.ok for verdict in check_case(kernel, Case(problem), "cpu"))


def test_a_missing_wait_for_inline_ptx_names_the_lines_of_the_copy_and_of_the_read(opened):
    unwaited = opened("10_ptx_cp_async", edit=lambda text: text.replace('asm volatile("cp.async.wait_group 0;");', ""))
    _, found = evidence(unwaited, DenseProblem(17, 32, 1, 2))
    lines = {line for one in found for line in one.lines}
    assert {line_of(unwaited, "cp.async.ca.shared"), line_of(unwaited, "qs[e] * k")} <= lines


def test_two_versions_are_a_question_and_their_block_is_a_row(opened, tmp_path, capsys):
    path = tmp_path / "two.cu"
    path.write_text((CASES / "12_two_versions.cu").read_text())
    assert command_line.main(["open", str(path), "--write"]) == 1
    assert "--entry NAME: version1, version2" in capsys.readouterr().out
    kernel = opened("12_two_versions", "--entry", "version2")
    (launch,) = kernel.plan(DenseProblem(17, 64, 1, 2)).launches
    assert launch.block == (64, 1, 1)
    assert all(verdict.ok for verdict in check_case(kernel, Case(DenseProblem(17, 64, 1, 2)), "cpu"))


@pytest.mark.parametrize(
    ("name", "requests", "wavefronts"),
    [
        ("16_banks_32", 64, 2048),
        ("16_banks_33", 64, 64),
        ("16_banks_f4_32", 16, 512),
        ("16_banks_f4_36", 16, 64),
    ],
)
def test_wavefronts_of_a_column_are_those_of_its_rows(opened, name, requests, wavefronts):
    """40 keys in two tiles of 32: one load of a word or of four for each dim of a tile. Four words take four turns."""
    kernel = opened(name)
    made = counting.counts(str(kernel.path), seq_len=40, batch=1, num_heads=1)
    read = made[(made.tensor == "kt") & (made.kind == "load")]
    assert (read.requests.sum(), read.wavefronts.sum()) == (requests, wavefronts)
