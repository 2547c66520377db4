"""The build cache: private, verified, made again where it is harmed, and elsewhere where it cannot be written."""

import errno
import json
import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernels.build import cache, cpp, folders
from kernels.catalog import KERNELS
from kernels.errors import BackendUnavailable, BuildError, CacheError

ROOT = Path(__file__).parents[3]
PRODUCT, FACTS = "k.so", {"log": "fine", "facts": [{"registers": 7}]}
CODES = ["ENOSPC", "EDQUOT", "EROFS", "EACCES", "EIO"]


@pytest.fixture
def made():
    """How often something was made, and what is done at each: a list of folders."""
    return []


@pytest.fixture(autouse=True)
def place(monkeypatch, tmp_path):
    """A cache folder that is not there yet, and a spare beside it."""
    monkeypatch.setenv("WARPGLASS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(folders.SPARE, str(tmp_path / "spare"))
    return tmp_path / "cache"


@pytest.fixture
def spare(tmp_path):
    return tmp_path / "spare"


def get(made, key="key", harm=lambda folder: None):
    def make(folder):
        made.append(folder)
        harm(folder)
        (folder / PRODUCT).write_bytes(b"machine code")
        return FACTS

    return cache.get(key, PRODUCT, make)


def refuse(monkeypatch, number, *under):
    """No folder can be made below these: as the operating system says it with that number."""
    mkdir = os.mkdir

    def refused(path, *args, **more):
        if any(Path(path).is_relative_to(folder) for folder in under):
            raise OSError(number, os.strerror(number), str(path))
        return mkdir(path, *args, **more)

    monkeypatch.setattr(os, "mkdir", refused)


def test_an_entry_is_made_once_for_this_user_alone_and_not_read_where_others_may_write(made, place, spare):
    assert get(made) == get(made) == (place / "key", FACTS) and len(made) == 1
    assert stat.S_IMODE(place.stat().st_mode) == 0o700 and not folders.notice()
    get(made)
    place.chmod(0o777)
    assert get(made) == (spare / "key", FACTS) and len(made) == 2  # what lies there may have been planted
    assert f"{place} can be written by others (mode 777): remove it, or set WARPGLASS_CACHE" in folders.notice()
    assert get(made) == (spare / "key", FACTS) and len(made) == 2
    place.chmod(0o700)
    assert get(made)[0] == place / "key" and len(made) == 2


def test_a_folder_in_a_folder_that_is_open_to_others_is_not_read(made, place, spare):
    get(made)
    place.parent.chmod(0o777)
    assert get(made)[0] == spare / "key" and f"is in {place.parent}, and others can write there" in folders.notice()
    place.parent.chmod(0o1777)  # as /tmp is
    assert get(made)[0] == place / "key"


def test_the_entries_of_strangers_have_a_limit_and_the_least_recently_used_goes(made, place, monkeypatch):
    entry = get(made, "ours")[0]
    size = sum(path.stat().st_size for path in entry.iterdir())
    monkeypatch.setattr(cache, "STRANGERS_BYTES", 2 * size)
    first, second, third = (f"{cache.STRANGERS}{n}" for n in range(3))
    for age, key in ((2000, first), (1000, second)):
        when = time.time() - age
        os.utime(get(made, key)[0], (when, when))
    get(made, first)  # a use
    get(made, third)
    assert {path.name for path in place.iterdir()} == {"ours", first, third} and len(made) == 4


def manifest(change):
    def harm(entry):
        held = json.loads((entry / cache.MANIFEST).read_text())
        (entry / cache.MANIFEST).write_text(json.dumps(change(held)))

    return harm


def replaced_by_a_link(entry):
    elsewhere = entry.parent.parent / "elsewhere"
    entry.rename(elsewhere)
    entry.symlink_to(elsewhere)


HARMS = {
    "emptied": lambda entry: (entry / PRODUCT).write_bytes(b""),
    "truncated": lambda entry: (entry / PRODUCT).write_bytes(b"machine"),
    "missing": lambda entry: (entry / PRODUCT).unlink(),
    "a folder": lambda entry: ((entry / PRODUCT).unlink(), (entry / PRODUCT).mkdir()),
    "one file too many": lambda entry: (entry / "other").write_bytes(b""),
    "manifest emptied": lambda entry: (entry / cache.MANIFEST).write_bytes(b""),
    "manifest missing": lambda entry: (entry / cache.MANIFEST).unlink(),
    "manifest cut": lambda entry: (entry / cache.MANIFEST).write_bytes((entry / cache.MANIFEST).read_bytes()[:40]),
    "manifest not text": lambda entry: (entry / cache.MANIFEST).write_bytes(b"\xff\xfe"),
    "manifest too deep": lambda entry: (entry / cache.MANIFEST).write_text("[" * 100_000),
    "manifest of a list": manifest(lambda held: [held]),
    "manifest of null": manifest(lambda held: None),
    "facts of a number": manifest(lambda held: {**held, "entry": {**held["entry"], "facts": 5}}),
    "facts changed": manifest(lambda held: json.loads(json.dumps(held).replace("7", "8"))),
    "no digests": manifest(lambda held: {**held, "entry": {**held["entry"], "sha256": None}}),
    "a link": replaced_by_a_link,
    "a file in its place": lambda entry: (shutil.rmtree(entry), entry.write_bytes(b"")),
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_harmed_entry_is_made_again(made, place, harm):
    folder, _ = get(made)
    HARMS[harm](folder)
    assert get(made) == (place / "key", FACTS) and len(made) == 2
    assert (folder / PRODUCT).read_bytes() == b"machine code" and not folder.is_symlink()
    assert get(made) == (place / "key", FACTS) and len(made) == 2


def test_a_folder_of_another_user_is_not_read(made, place, spare, monkeypatch):
    get(made)
    if os.geteuid() == 0:
        os.chown(place, 12345, -1)
    else:
        monkeypatch.setenv("WARPGLASS_CACHE", "/usr")
    assert get(made)[0] == spare / "key" and len(made) == 2
    assert " belongs to " in folders.notice() and ": remove it, or set WARPGLASS_CACHE" in folders.notice()


def test_a_link_to_a_folder_of_another_user_is_not_followed(made, place, spare, monkeypatch):
    elsewhere = place.parent / "elsewhere"
    elsewhere.mkdir()
    elsewhere.chmod(0o777)
    place.symlink_to(elsewhere)
    assert get(made)[0] == spare / "key" and f"{elsewhere} can be written" in folders.notice()
    elsewhere.chmod(0o700)  # a link to a folder of one's own is no fault
    assert get(made, "other")[0] == elsewhere / "other"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_library_that_another_user_left_is_not_loaded(made, place):
    folder, _ = get(made)
    os.chown(folder / PRODUCT, 12345, -1)
    assert get(made)[0] == folder and len(made) == 2 and (folder / PRODUCT).stat().st_uid == 0


@pytest.mark.parametrize("code", CODES)
def test_where_the_cache_cannot_be_written_the_spare_is_used_and_a_sentence_says_so(
    made, place, spare, code, monkeypatch
):
    with monkeypatch.context() as patched:
        refuse(patched, getattr(errno, code), place)
        assert get(made) == (spare / "key", FACTS)
    assert folders.notice().startswith(f"{place} ") and "or set WARPGLASS_CACHE to another folder" in folders.notice()
    assert get(made) == (spare / "key", FACTS) and len(made) == 1  # it is found there
    assert get(made, "other")[0] == place / "other" and folders.notice()
    os.utime(spare / "notice", (0, 0))  # some time later
    assert get(made, "third")[0] == place / "third" and not folders.notice()


def test_a_disk_that_is_full_while_an_entry_is_made_is_left_for_the_spare(made, place, spare):
    def harm(folder):
        if folder.is_relative_to(place):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    assert get(made, harm=harm) == (spare / "key", FACTS)
    assert f"{place} has no space left: free some" in folders.notice() and list(place.iterdir()) == []


def test_a_file_where_the_folder_should_be_is_told(made, place, spare):
    place.write_text("")
    assert get(made)[0] == spare / "key" and f"{place} cannot exist, as a file is in its place" in folders.notice()


def test_where_nothing_can_be_written_a_sentence_says_what_to_do(made, place, spare, monkeypatch):
    refuse(monkeypatch, errno.ENOSPC, place, spare)
    with pytest.raises(CacheError, match=f"{place} has no space left: free some, or .* {spare} has no space left"):
        get(made)


def test_a_folder_that_goes_harms_nobody_and_only_what_a_killed_process_was_making_goes(made, place):
    def harm(_):
        shutil.rmtree(place, ignore_errors=True)

    folder, facts = get(made, harm=harm)
    assert facts == FACTS and (folder / PRODUCT).exists()
    shutil.rmtree(folder.parent)
    assert get(made)[0] == place / "key"
    get(made)
    old, new = place / "making-old", place / "making-new"
    for folder in (old, new):
        folder.mkdir()
    os.utime(old, (0, 0))
    get(made, "another")
    assert new.is_dir() and not old.exists()


@pytest.mark.parametrize(
    ("said", "error"),
    [("No space left on device", OSError), ("Read-only file system", OSError), ("x.cu:3:1: error: no", BuildError)],
)
def test_a_compiler_that_cannot_write_is_not_taken_for_one_that_refuses(tmp_path, said, error):
    compiler = tmp_path / "c++"
    compiler.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
    compiler.chmod(0o700)
    toolchain = cpp.Toolchain()
    toolchain.command = (str(compiler),)
    with pytest.raises(error):
        toolchain.compile(KERNELS["01_naive"], [], tmp_path)
    compiler.unlink()
    shutil.rmtree(tmp_path / "sources")
    with pytest.raises(BackendUnavailable, match="could not be started: No such file"):
        toolchain.compile(KERNELS["01_naive"], [], tmp_path)


@pytest.mark.parametrize("end", ["pass", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_a_spare_goes_with_its_process_however_that_ends(tmp_path, end):
    env = {k: v for k, v in os.environ.items() if k not in (folders.SPARE, "WARPGLASS_CACHE")}
    env |= {"TMPDIR": str(tmp_path), "WARPGLASS_CACHE": "/proc/none"}
    code = f"""
import os, signal
from kernels.build import folders
kept = folders.write(lambda folder: folder)
print(kept, oct(kept.stat().st_mode)[-3:], flush=True)
{end}
"""
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True)
    said, _ = process.communicate()  # until the one that removes it has ended, too: it has the same output
    name, mode = said.split()
    assert Path(name).parent == tmp_path and mode == "700" and not Path(name).exists()
