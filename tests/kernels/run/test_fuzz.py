"""Fuzzed sources of strangers: each ends in a result or an error of ours, in time, and leaves no file."""

import random
import time
from pathlib import Path

import pytest

from kernels import jail
from kernels.catalog import DEVICE, load_kernel
from kernels.core.cases import sample
from kernels.core.request import Request
from kernels.errors import WarpglassError
from kernels.jail import in_place, setting
from kernels.run import execute
from kernels.run.backends import cpu

REASON = jail.why_none() or in_place.why_none()
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)
SKELETON = (DEVICE.parent / "skeleton.cu").read_text()
WORDS = ["for(;;);", "#include", "asm(", "*/", '"', "{", "}", "((((", "\\\n", "\0", "é", "int", "0x", "= [", "exit(1);"]
WORDS += ['fopen("mine", "w");', 'system("touch mine");', "#define int", "template<", "while(1)", "1/0", "[[launches]]"]
LIMIT = 40.0  # seconds for a source: a compile of 30 s, and its run


def mutated(chance):
    text = SKELETON
    for _ in range(chance.choice([1, 1, 2, 4, 16])):
        at = chance.randrange(len(text))
        kind = chance.randrange(4)
        if kind == 0:
            text = text[:at] + chance.choice(WORDS) + text[at:]
        elif kind == 1:
            text = text[:at] + text[at + chance.randrange(1, 40) :]
        elif kind == 2:
            text = text[:at] + chr(chance.randrange(1, 0x250)) + text[at + 1 :]
        else:
            other = chance.randrange(len(text))
            text = text[:at] + text[other : other + 60] + text[at:]
    return text


def tried(path, text):
    """Whether the source ran. Any error but ours fails the test."""
    path.write_text(text)
    start = time.monotonic()
    try:
        spec = load_kernel(path)
        shown = sample(spec)
        request = Request(spec, shown.problem, tuple(spec.settings(shown.settings).items()), backend="cpu")
        cpu.limited(2, execute.run, request)
        return True
    except WarpglassError:
        return False
    finally:
        assert time.monotonic() - start < LIMIT


def fuzz(folder, sources, seconds, monkeypatch):
    """Tries so many sources, at most for so long. Returns the numbers of those tried and of those that ran."""
    monkeypatch.setenv(setting.VARIABLE, "jail")
    monkeypatch.chdir(folder)
    chance, end, ran, count = random.Random(34), time.monotonic() + seconds, 0, 0
    while count < sources and time.monotonic() < end:
        ran, count = ran + tried(folder / "mine.cu", mutated(chance)), count + 1
        assert [path.name for path in folder.iterdir()] == ["mine.cu"]
    assert not Path("/tmp/mine").exists()
    return count, ran


def test_a_hundred_fuzzed_sources_at_most_ten_seconds(tmp_path, monkeypatch):
    count, _ = fuzz(tmp_path, 100, 10, monkeypatch)
    assert count > 20


@pytest.mark.slow
def test_two_thousand_fuzzed_sources(tmp_path, monkeypatch):
    count, ran = fuzz(tmp_path, 2000, 3600, monkeypatch)
    assert count == 2000 and 0 < ran < count
