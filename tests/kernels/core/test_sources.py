"""The files of a kernel: every include is hashed and compiled as text, or refused with its line. Only small regular
files are read."""

import os
from dataclasses import replace

import pytest
from dropped import ONE_KERNEL

from kernels import build
from kernels.build import CPU, Mode
from kernels.catalog import KERNELS, load_kernel
from kernels.core import sources
from kernels.core.request import Request
from kernels.errors import BuildError, ProblemError

COMMON = '#include "common.cuh"'


def dropped(folder, include):
    """The path of one_kernel.cu with that line in front of its only include, in a folder of its own."""
    own = folder / "own"
    own.mkdir(exist_ok=True)
    path = own / "mine.cu"
    path.write_text(ONE_KERNEL.read_text().replace(COMMON, f"{include}\n{COMMON}", 1))
    return path


def line_of(path):
    return path.read_text().splitlines().index(COMMON)  # the line before it, counted from 1


@pytest.mark.parametrize(
    "include",
    [
        '#include "{outside}"',
        "#include <{outside}>",
        '#import "{outside}"',
        '%:include "{outside}"',
        '??=include "{outside}"',
        '#/* a comment */include/**/"{outside}"',
        '/* it ends */ #include "{outside}"',
        '#inc\\\nlude "{outside}"',
        '#include \\\n  "{outside}"',
        '#define OTHER "{outside}"\n#include OTHER',
        '#include_next "{outside}"',
        '#embed "{outside}"',
        "const int a = 1'0 + sizeof('/*');\n#include \"{outside}\"\n//*/",
        'const char* text = R"(/*)";\n#include "{outside}"\n/* */',
        '#include "../outside.cuh"',
        "#include <../outside.cuh>",
        '#include "sub/../../outside.cuh"',
        '#include "sub\\outside.cuh"',
        '#include "linked.cuh"',
        '#include ".."',
        '#include "."',
        '#include ""',
        '#if __has_include("{outside}")\n#endif',
    ],
)
def test_an_include_from_outside_is_refused_with_its_line(tmp_path, include):
    outside = tmp_path / "outside.cuh"
    outside.write_text("#define SECRET 1\n")
    path = dropped(tmp_path, include.replace("{outside}", str(outside)))
    (path.parent / "linked.cuh").symlink_to(outside)
    with pytest.raises(ProblemError, match=r"^mine\.cu: line \d+: .*") as refused:
        load_kernel(path)
    said = int(str(refused.value).split("line ")[1].split(":")[0])
    assert line_of(path) - 2 <= said <= line_of(path), refused.value
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('\0#include "/etc/hostname"', r"control character U\+0000"),
        ('#\0import "/etc/hostname"', r"control character U\+0000"),
        ('#inc\\\f\nlude "/etc/hostname"', r"control character U\+000C"),
        ("#em\\\f\nbed </etc/hostname>", r"control character U\+000C"),
        ('\ufeff#include "/etc/hostname"', r"control character U\+FEFF"),
        ('const char* a = R"(\u2028# 1 "a.h" 1\u2028)";', r"control character U\+2028"),
        ("// \x85 ends a line for Python", r"control character U\+0085"),
        ('const char* a = $R"(";\n#include "/etc/hostname"\nconst char* b = ")";', r"\$ outside of a literal"),
        ('const char* a = "a"R"(";\n#include "/etc/hostname"\nconst char* b = ")";', 'directly before R"'),
        ('#define A 1e+\'a\'R"(\'\n#include "/etc/hostname"\n#define B )"', "plain file name"),
        ("#if 0", "includes common.cuh in an #if"),
        ("#ifndef A\n#define A", "includes common.cuh in an #if"),
    ],
)
def test_a_text_that_compilers_read_in_another_way_is_refused_with_its_line(tmp_path, line, said):
    with pytest.raises(ProblemError, match=rf"^mine\.cu: line \d+: .*{said}"):
        load_kernel(dropped(tmp_path, line))


def test_what_is_no_include_of_a_strangers_file_is_accepted(tmp_path):
    load_kernel(dropped(tmp_path, "// $O = PV$\nconst char* price = \"$1\"; const char sign = '$';"))
    spec = load_kernel(dropped(tmp_path, "#include <cmath>\n#include <sys/types.h>"))
    assert [name for name, _ in spec.files] == ["mine.cu", *(n for n, _ in load_kernel(ONE_KERNEL).files[1:])]
    path = dropped(
        tmp_path, '// #include "/etc/passwd"\n/* \n#include "/etc/passwd"\n*/\nconst char* s = R"(\n#include "/x")";'
    )
    assert "mine.cu" in dict(load_kernel(path).files)


@pytest.mark.parametrize(
    "include",
    [
        '#include "own.cuh"',
        '#import "own.cuh"',
        '%: include "own.cuh"',
        '#inc\\\nlude "own.cuh"',
        '/* */#include "own.cuh"',
    ],
)
def test_a_header_next_to_the_kernel_is_part_of_its_code_in_every_form(tmp_path, include):
    path = dropped(tmp_path, include)
    header = path.parent / "own.cuh"
    header.write_text("#define NUMBER 1\n")
    before = load_kernel(path)
    header.write_text("#define NUMBER 2\n")
    after = load_kernel(path)
    assert dict(before.files)["own.cuh"] != dict(after.files)["own.cuh"] and before.code_hash != after.code_hash


def test_a_build_writes_no_file_outside_its_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPGLASS_CACHE", str(tmp_path / "cache"))
    spec = KERNELS["03_flash"]
    files = (*spec.files, ("../../../escaped.cuh", "// written outside\n"))
    escaping = replace(spec, files=files)
    with pytest.raises(BuildError, match="escaped.cuh"):
        build.build(escaping, Request(escaping, spec.problem_type()).defines, Mode.TIMED, CPU)
    assert not list(tmp_path.rglob("escaped.cuh"))


# ---- files that are not read ----


@pytest.mark.parametrize("kind", ["fifo", "device", "folder", "large"])
@pytest.mark.parametrize("name", ["mine.cu", "own.cuh"])
def test_only_a_small_regular_file_is_read(tmp_path, kind, name):
    path = tmp_path / "mine.cu"
    if name != "mine.cu":
        path = dropped(tmp_path, '#include "own.cuh"')
    bad = path.with_name(name)
    if kind == "fifo":
        os.mkfifo(bad)
    elif kind == "device":
        bad.symlink_to("/dev/zero")
    elif kind == "folder":
        bad.mkdir()
    else:
        bad.write_text(" " * (sources.MOST_BYTES + 1))
    with pytest.raises(ProblemError, match=f"{name}|/dev/zero"):
        load_kernel(path)


def test_headers_that_include_each_other_are_refused_and_shipped_files_keep_their_order(tmp_path):
    path = dropped(tmp_path, '#include "h0.cuh"')
    for number in range(sources.MOST_FILES + 5):
        (path.parent / f"h{number}.cuh").write_text(f'#include "h{number + 1}.cuh"\n')
    with pytest.raises(ProblemError, match="more than"):
        load_kernel(path)
    names = [name for name, _ in KERNELS["paged_v1"].files]
    assert names == ["paged_v1.cu", "walk.cuh", "paged.cuh", "common.cuh", "numbers.cuh", "ptx.cuh", "probe.cuh"]
