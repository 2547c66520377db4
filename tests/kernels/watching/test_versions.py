"""Two versions of a kernel side by side: `report`'s table, its first differences, and its verdicts."""

import re
from argparse import Namespace
from dataclasses import replace

import pyarrow as pa
import pytest

from kernels import catalog
from kernels.run import workers
from kernels.watching import command, values, version
from kernels.watching.comparison import Comparison, Row, compare, compare_whole, markdown
from tests.front import TEXTS

TOP = f"""/*
{TEXTS}family = "free"
TRUTH
[sizes]
n = 64

[tensors.x]
shape = ["n", "n"]

[tensors.y]
shape = ["n", "n"]
role = "output"

[[launches]]
entry = "transpose"
grid = ["n // 32", "n // 32"]
block = [32, 32]
args = ["x", "y", "int32 n"]
*/
"""
BODY = """
__global__ void transpose(const float* x, float* y, int n) {
  __shared__ float tile[32][32];
  const int col = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
  tile[threadIdx.y][threadIdx.x] = x[row * n + col];
  __syncthreads();
  const float value = tile[threadIdx.x][threadIdx.y];
  y[(blockIdx.x * 32 + threadIdx.y) * n + blockIdx.y * 32 + threadIdx.x] = value;
}
"""
FREE, JUDGED = TOP.replace("TRUTH", ""), TOP.replace("TRUTH", 'truth = "x.T"')
EDITS = {
    "padded": ("tile[32][32]", "tile[32][33]"),
    "race": ("  __syncthreads();\n", ""),
    "broken": ("= x[row", "= x_[row"),
    "outside": ("* n + blockIdx", "* n * n + blockIdx"),
    "off": ("= value;", "= threadIdx.x == 5 ? 1.5f * value : value;"),
    "rounded": ("= value;", "= value * 1.0000001f;"),
    "larger": ("n = 64", "n = 96"),
    "unread": ('family = "free"', 'family = "fre"'),
}


def text(edit="", top=FREE):
    old, new = EDITS.get(edit, ("", ""))
    whole = top + BODY
    assert old in whole
    return whole.replace(old, new, 1) if edit else whole


def made(folder, *edits, top=FREE):
    """The versions of these edits, by this process as a worker."""
    paths = [folder / f"{number}_{edit or 'base'}.cu" for number, edit in enumerate(edits)]
    for path, edit in zip(paths, edits):
        path.write_text(text(edit, top))
    kernels = [catalog.load_kernel(path) for path in paths]
    return [
        version.here(path.name, version.request_of(kernel, [], kernels[0]), 60.0)
        for path, kernel in zip(paths, kernels)
    ]


def compared(folder, *edits, top=FREE):
    return compare_whole(*made(folder, *edits, top=top), version.traced)


def row(found: Comparison, what: str) -> Row:
    (one,) = [row for row in found.rows if row.what == what]
    return one


WAVEFRONTS, SECTORS = "wavefronts of shared memory", "sectors of global memory"


def test_padding_against_bank_conflicts_is_better_and_the_first_other_address_has_its_line(tmp_path):
    found = compared(tmp_path, "", "padded")
    assert row(found, "verdict") == Row("verdict", "no fault found", "no fault found")
    assert row(found, WAVEFRONTS) == Row(WAVEFRONTS, "4,224", "256", judged="better")
    assert row(found, SECTORS) == Row(SECTORS, "1,024", "1,024")
    assert not row(found, "first different value").differs
    access, line = (
        row(found, "first different access"),
        1 + FREE.count("\n") + BODY[: BODY.index("tile[thr")].count("\n"),
    )
    assert access.where == "access 2 of block 0, thread 32"
    assert access.before == f"store tile at byte 128, shared (line {line})" and "byte 132" in access.after
    assert found.notes == ("Problem: n 64. Counts cover all blocks, run on the CPU.",)
    assert "+  __shared__ float tile[32][33];" in found.difference
    back = compared(tmp_path, "padded", "")
    assert row(back, WAVEFRONTS).judged == "worse"


def test_a_wrong_version_is_worse_and_its_counts_have_no_verdict(tmp_path):
    found = compared(tmp_path, "padded", "race")
    assert row(found, "verdict").judged == "worse" and "race" in row(found, "verdict").after
    assert row(found, WAVEFRONTS).after == "4,224" and not row(found, WAVEFRONTS).judged
    assert "A version is wrong, so no number has a verdict." in found.notes
    assert not found.reasons[0] and any("No barrier is between them" in reason for reason in found.reasons[1])
    assert sum("No barrier is between them" in reason for reason in found.reasons[1]) == 1


@pytest.mark.parametrize(("top", "verdict"), [(FREE, "no fault found"), (JUDGED, "wrong: y off by ")])
def test_another_value_has_both_values_with_their_lines_and_no_truth_gives_no_verdict(tmp_path, top, verdict):
    found = compared(tmp_path, "", "off", top=top)
    first, line = row(found, "first different value"), 1 + top.count("\n") + BODY[: BODY.index("  y[")].count("\n")
    assert first.where == "y[0, 5]"
    one, other = (float(said.removesuffix(f" (line {line})")) for said in (first.before, first.after))
    assert other == pytest.approx(1.5 * one, rel=1e-4)
    assert row(found, "verdict").after.startswith(verdict)
    assert row(found, "verdict").judged == ("worse" if top is JUDGED else "")
    assert any("has a verdict" in note for note in found.notes)


def test_a_difference_by_rounding_is_no_first_value(tmp_path):
    found = row(compared(tmp_path, "", "rounded"), "first different value")
    assert (found.before, found.after) == ("none", "none") and "roundings of at most" in found.where


def test_versions_with_other_sizes_keep_their_figures_without_a_verdict(tmp_path):
    found = compared(tmp_path, "", "larger")
    assert (row(found, WAVEFRONTS).before, row(found, WAVEFRONTS).after) == ("4,224", "9,504")
    assert not any(one.judged for one in found.rows) and "first different value" not in {r.what for r in found.rows}
    assert any("different inputs or outputs" in note for note in found.notes)
    assert row(found, "launches").after == "transpose: 3 x 3 blocks of 32 x 32 threads"


@pytest.mark.parametrize(
    ("edit", "verdict", "said"),
    [
        ("broken", "does not compile", r"broken\.cu line \d+: 'x_' was not declared"),
        ("outside", "wrong: out of bounds", r"y has 4096 elements; at 1_outside\.cu:\d+"),
    ],
)
def test_a_version_without_a_run_shows_its_error_next_to_the_figures_of_the_other(tmp_path, edit, verdict, said):
    found = compared(tmp_path, "", edit)
    assert row(found, "verdict") == Row("verdict", "no fault found", verdict, judged="worse")
    assert re.search(said, found.reasons[1][0])
    assert row(found, WAVEFRONTS).before == "1,056" and row(found, WAVEFRONTS).after == "unknown"
    assert row(found, "registers of a thread").before.isdecimal()
    assert markdown(found).count("**") == 2  # only the verdict differs


def test_fewer_registers_have_no_verdict_and_local_memory_has_one_unless_it_costs_registers(tmp_path):
    (base,) = made(tmp_path, "")
    (facts,) = base.entries

    def judged(**other):
        found = compare(base, replace(base, entries=(replace(facts, **other),)))
        return {one.what.partition(" ")[0]: one.judged for one in found.rows if one.differs}

    assert judged(registers=facts.registers - 2) == {"registers": ""}
    assert judged(stack_bytes=64) == {"local": "worse"}
    assert judged(stack_bytes=64, registers=facts.registers - 2) == {"registers": "", "local": ""}
    worse = replace(base, entries=(replace(facts, stack_bytes=64),))
    assert row(compare(worse, base), "local memory of a thread, bytes").judged == "better"
    times = [replace(base, time_us=time) for time in (10.0, 9.0, 9.9)]
    assert [row(compare(times[0], one), "time on the GPU").judged for one in times[1:]] == ["better", ""]


def test_logged_values_meet_by_event_and_keys_and_not_by_their_number_in_the_thread(tmp_path):
    run, arrays = version.traced(version.request_of(catalog.find("03_flash"), ["seq_len=32"]))
    table = run.trace.table
    logged = table["value"].to_pylist()
    place = table["event"].to_pylist().index("l", len(logged) // 2)
    logged[place] *= 2
    column = table.column_names.index("value")
    changed = table.set_column(column, "value", pa.chunked_array([pa.array(logged, pa.float32())]))
    other = replace(run, trace=replace(run.trace, table=changed.slice(1)))  # and the first thread has a record less
    found = values.first_value(run, other, arrays, arrays)
    assert found.place.startswith("l of ") and f"thread {table['thread'][place].as_py()}" in found.place
    one, two = (float(said.partition(" ")[0]) for said in (found.before, found.after))
    assert two == pytest.approx(2 * one, rel=1e-4)


def test_report_prints_writes_and_fails_with_a_version_that_the_reader_cannot_take(tmp_path, capsys):
    workers.survey()
    for name, edit in (("a.cu", ""), ("b.cu", "padded"), ("c.cu", "unread")):
        (tmp_path / name).write_text(text(edit))

    def report(one, other, **more):
        given = {"set": [], "out": "", **more}
        code = command.report(Namespace(before=tmp_path / one, after=tmp_path / other, **given))
        return code, capsys.readouterr().out

    code, said = report("a.cu", "b.cu")
    assert code == 0 and said.startswith("# a.cu and b.cu\n") and "| | a.cu | b.cu | |" in said
    assert "| **wavefronts of shared memory** | 4,224 | 256 | better |" in said
    assert "\n+  __shared__ float tile[32][33];" in said
    out = tmp_path / "r.md"
    assert report("a.cu", "b.cu", out=str(out)) == (0, f"{out}\n") and out.read_text() == said
    code, said = report("a.cu", "c.cu")
    assert code == 1 and "| **verdict** | no fault found | refused | worse |" in said
    assert "Faults of c.cu:\n- c.cu: family is 'fre'" in said
