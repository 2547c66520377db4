"""Stall reasons of a report on the lines of a kernel: by the text of the lines, or by the opcodes of a build."""

import profiler_files as files
import pytest

from explainers.stories.source.stalls import matched
from kernels.build.disassembly import Line, Listing
from kernels.catalog import KERNELS
from kernels.measure.elsewhere import packed

KERNEL = KERNELS["03_flash"]
NAME, TEXT = KERNEL.files[0]
LINES = TEXT.split("\n")
AT = [n for n, line in enumerate(LINES, 1) if line.strip().endswith(";")][:20]  # lines with code
SASS = ["LDC R1, c[0x0][0x28]", "@P0 LDS.128 R4, [R2]", "FFMA R0, R4, R5, R0", "EXIT"]
LISTING = Listing(
    ptx=(),
    sass=tuple(Line(f"{text} ;", (NAME, AT[n // 2]), "flash") for n, text in enumerate(SASS)),
    mix={},
    registers={"flash": 40},
    compiler="",
    local_bytes={},
)


def report(data, name="report.csv"):
    return packed.report(packed.unpack(packed.opened("stalls", data, name)))


def row(n, counts, text=None):
    return n, LINES[n - 1] if text is None else text, [(0x100 + 16 * n, "LDS R4, [R2]", counts)]


def test_the_lines_of_a_file_of_any_name_have_their_share_and_their_three_most_frequent_reasons():
    hot = {"long_sb": 60, "wait": 20, "short_sb": 10, "math": 5, "selected": 5}
    found = matched(report(files.ncu("/tmp/x7.cu", [row(AT[0], hot), row(AT[1], {"wait": 100})])), KERNEL, LISTING)
    assert set(found.lines) == {f"{NAME}:{AT[0]}", f"{NAME}:{AT[1]}"}
    first = found.lines[f"{NAME}:{AT[0]}"]
    assert first["share"] == 0.5 and first["reasons"] == "long sb 60%, wait 20%, short sb 10%"
    assert first["tip"].startswith("measured elsewhere: report.csv\n100 of 200 samples\nlong_sb: 60 samples")
    assert found.said == (
        f"Measured elsewhere, by Nsight Compute: report.csv has 200 samples of warps. 100% are on lines of {NAME}."
    )


def test_lines_with_another_text_are_left_out_and_a_report_of_another_file_says_its_name():
    rows = [row(n, {"wait": 1}) for n in AT] + [row(AT[-1] + 1, {"wait": 1}, "int changed_since = 0;")]
    found = matched(report(files.ncu(f"/tmp/{NAME}", rows)), KERNEL, LISTING)
    assert len(found.lines) == len(AT) and found.said.endswith("Left out, with another text here: 1 line.")
    other = [row(n, {"wait": 1}, f"int other{n} = 0;") for n in AT]
    found = matched(report(files.ncu(f"/home/me/{NAME}", other)), KERNEL, LISTING)
    assert not found.lines
    assert found.said == (
        f"report.csv names /home/me/{NAME} (20 lines). 03_flash has no such lines. Choose its kernel."
    )


@pytest.mark.parametrize(("path", "met"), [(f"C:\\src\\{NAME}", True), ("/tmp/other.cu", False)])
def test_a_report_without_texts_matches_by_the_name_of_the_file(path, met):
    rows = [row(n, {"wait": 1}, "") for n in AT]
    assert bool(matched(report(files.ncu(path, rows)), KERNEL, LISTING).lines) is met


def test_instructions_count_for_their_lines_if_all_opcodes_agree():
    counts = [{"wait": 2}, {"long_sb": 6, "wait": 1}, {"math": 3}, {}]
    found = matched(report(files.ncu_sass(list(zip(SASS, counts)))), KERNEL, LISTING)
    assert {place: line["share"] for place, line in found.lines.items()} == {
        f"{NAME}:{AT[0]}": 9 / 12,
        f"{NAME}:{AT[1]}": 3 / 12,
    }
    assert found.lines[f"{NAME}:{AT[0]}"]["reasons"] == "long sb 67%, wait 33%"
    other = matched(report(files.ncu_sass([("EXIT", {"wait": 1})])), KERNEL, LISTING)
    assert (
        not other.lines and "instructions of attention(float *) (1 instruction). This build of 03_flash" in other.said
    )
