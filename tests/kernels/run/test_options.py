"""What a command line asks for is refused before anything runs: outputs that cannot be written, and names that are
unknown, with the nearest known one."""

import os

import pytest

from kernels import __main__ as command_line
from kernels.catalog import KERNELS, find, load_kernel
from kernels.core.fields import nearest
from kernels.errors import ProblemError
from kernels.measure import sweeps
from kernels.run import options, workers

OUTPUTS = [
    (("run", "03_flash", "--backend", "cpu"), "--trace", ".parquet"),
    (("run", "03_flash", "--backend", "cpu"), "--arrays", ".npz"),
    (("bench", "03_flash"), "--out", ".csv"),
    (("bench", "03_flash"), "--out", ".json"),
    (("timeline", "03_flash"), "--perfetto", ".pftrace"),
]


@pytest.fixture(autouse=True)
def nothing_runs(monkeypatch):
    def run(*of, **more):
        raise AssertionError("something was run, or a device was looked for")

    monkeypatch.setattr(workers, "submit", run)
    monkeypatch.setattr(workers, "survey", run)


@pytest.mark.parametrize(("argv", "option", "end"), OUTPUTS, ids=[f"{o[1]}{o[2]}" for o in OUTPUTS])
def test_an_output_that_cannot_be_written_is_refused_before_the_run(argv, option, end, tmp_path, capsys, monkeypatch):
    (tmp_path / f"folder{end}").mkdir()
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: "locked" not in str(path) and allowed(path, mode))
    (tmp_path / "locked").mkdir()
    (tmp_path / f"locked{end}").write_text("")
    for name, said in (
        (f"nowhere/x{end}", "does not exist"),
        (f"folder{end}", "it is a folder"),
        (f"locked/x{end}", "this user may not"),
        (f"locked{end}", "this user may not"),
        (f"{'x' * 300}{end}", "too long"),
        ("x.txt", f"must end in {'.csv or .json' if option == '--out' else end}"),
        ("x", "must end in"),
    ):
        assert command_line.main([*argv, option, str(tmp_path / name)]) == command_line.USAGE, name
        complaint = capsys.readouterr().err
        assert option in complaint and said in complaint and len(complaint.splitlines()) == 1, complaint


def test_a_trace_is_written_only_under_the_name_of_its_format(tmp_path, capsys):
    argv = ["run", "03_flash", "--backend", "cpu", "--trace", str(tmp_path / "x.csv")]
    assert command_line.main(argv) == command_line.USAGE and not list(tmp_path.iterdir())
    assert "x.csv'. It must end in .parquet." in capsys.readouterr().err
    options.check_output("--trace", str(tmp_path / "x.parquet"), ".parquet")
    options.check_output("--trace", None, ".parquet")
    assert not list(tmp_path.iterdir())


# ---- names ----


@pytest.mark.parametrize(
    ("name", "known", "said"),
    [
        ("flash", ("01_naive", "03_flash"), " Did you mean 03_flash?"),
        ("block_q", ("BLOCK_Q", "seq_len"), " Did you mean BLOCK_Q?"),
        ("zzz", ("BLOCK_Q", "seq_len"), ""),
        ("x" * 10**6, ("BLOCK_Q",), ""),
        ("", ("BLOCK_Q",), ""),
    ],
    ids=["part", "case", "none", "long", "empty"],
)
def test_the_nearest_name_is_proposed(name, known, said):
    assert nearest(name, known) == said


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: find("03_flesh"), "03_flash"),
        (lambda: options.chosen(KERNELS["03_flash"], ["seqlen=3"]), "seq_len"),
        (lambda: options.chosen(KERNELS["03_flash"], ["BLOCK_K=3"]), "BLOCK_KV"),
        (lambda: KERNELS["03_flash"].settings({"BLOK_Q": 16}), "BLOCK_Q"),
        (lambda: sweeps.points(["03_flash"], [("seq_lenn", ["3"])], [], False, True), "seq_len"),
    ],
    ids=["kernel", "field", "constant", "setting", "sweep"],
)
def test_an_unknown_name_gets_the_nearest_one(ask, said):
    with pytest.raises(ProblemError, match=rf"Did you mean {said}\?$"):
        ask()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("idea =", "ideas =", r"Did you mean idea\?"),
        (
            'family = "dense"',
            'family = "dens"',
            r"Did you mean dense\? Put a family of your own into .* WARPGLASS_KERNELS",
        ),
    ],
)
def test_an_unknown_key_or_family_gets_the_nearest_one(tmp_path, old, new, said):
    path = tmp_path / "mine.cu"
    path.write_text(KERNELS["03_flash"].source.replace(old, new, 1).replace('"softmax.cuh"', '"common.cuh"'))
    with pytest.raises(ProblemError, match=said):
        load_kernel(path)
