"""What bundles are kept in: shared, bounded, verified; and elsewhere where the cache cannot be used."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.store import disk
from kernels.build import folders
from kernels.errors import CacheError

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def place(cache, monkeypatch):
    """The folder in which bytes are kept."""
    monkeypatch.setattr(disk, "_damaged", set())
    return cache


@pytest.fixture
def spare(tmp_path):
    return tmp_path / "spare" / disk.FOLDER


def full(monkeypatch, number=errno.ENOSPC, *under):
    """No byte can be written to a file below these."""
    fdopen = os.fdopen

    def refused(handle, *args):
        at = Path(os.readlink(f"/proc/self/fd/{handle}"))
        file = fdopen(handle, *args)
        if not any(at.is_relative_to(folder) for folder in under):
            return file
        file.close()
        raise OSError(number, os.strerror(number), str(at))

    monkeypatch.setattr(os, "fdopen", refused)


def test_bytes_are_kept_under_their_contents_name_for_every_process(place):
    name = disk.keep(b"bytes")
    disk.note("key", [name])
    code = (
        "import sys; from app.store import disk; (name,) = disk.noted('key'); sys.stdout.buffer.write(disk.read(name))"
    )
    other = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True)
    assert other.stdout == b"bytes" and place.stat().st_mode & 0o777 == 0o700 and not folders.notice()


@pytest.mark.parametrize("data", [b"", b"byte", b"other"], ids=["emptied", "truncated", "changed"])
def test_harmed_bytes_are_not_given_and_can_be_kept_again(place, data):
    name = disk.keep(b"bytes")
    disk.note("key", [name])
    (place / name).write_bytes(data)
    assert disk.read(name) is None and disk.noted("key") is None
    assert disk.keep(b"bytes") == name and disk.read(name) == b"bytes" and disk.noted("key") == [name]


@pytest.mark.parametrize("harm", ["a folder", "a full folder", "a pipe"])
def test_what_is_no_file_is_not_a_bundle_and_gives_its_place_to_one(place, harm):
    name = disk.keep(b"bytes")
    disk.note("key", [name])
    (place / name).unlink()
    os.mkfifo(place / name) if harm == "a pipe" else (place / name).mkdir()
    if harm == "a full folder":
        (place / name / "file").write_text("x")
    assert disk.read(name) is None and disk.noted("key") is None and not disk.use("key", [name])
    assert disk.keep(b"bytes") == name and disk.read(name) == b"bytes" and disk.noted("key") == [name]
    assert (place / name).is_file() and not folders.notice()


@pytest.mark.parametrize("harm", ["emptied", "cut", "of another", "of another key", "not text", "a folder"])
def test_a_harmed_note_says_nothing(place, harm):
    one, two = disk.keep(b"one"), disk.keep(b"two")
    disk.note("key", [one])
    disk.note("other", [two])
    path = place / disk.NOTES / "key"
    if harm == "a folder":
        path.unlink()
        path.mkdir()
    else:
        held = path.read_bytes()
        path.write_bytes(
            {
                "emptied": b"",
                "cut": held[:40],
                "of another": held.replace(one.encode(), two.encode()),
                "of another key": (path.parent / "other").read_bytes(),
                "not text": b"\xff\xfe",
            }[harm]
        )
    assert disk.noted("key") is None and disk.noted("other") == [two]


def test_no_name_leads_out_of_the_folder(place):
    disk.keep(b"bytes")
    secret = place.parent / "secret"
    secret.write_text("x")
    assert [disk.read(name) for name in ("../secret", "of", "", ".", "/etc/hostname", "a/b")] == [None] * 6
    assert secret.exists()


@pytest.mark.parametrize("code", ["ENOSPC", "EDQUOT", "EROFS", "EACCES"])
def test_where_the_cache_cannot_be_written_bundles_are_kept_in_the_spare(place, spare, code, monkeypatch):
    old = disk.keep(b"old")
    with monkeypatch.context() as patched:
        full(patched, getattr(errno, code), place)
        name = disk.keep(b"bytes")
        disk.note("key", [name])
    assert (spare / name).exists() and list(place.glob("tmp*")) == []
    assert disk.read(name) == b"bytes" and disk.noted("key") == [name] and disk.read(old) == b"old"
    assert str(place.parent) in folders.notice() and "or set WARPGLASS_CACHE to another folder" in folders.notice()


def test_where_nothing_can_be_written_a_sentence_says_what_to_do(place, spare, monkeypatch):
    full(monkeypatch, errno.ENOSPC, place, spare)
    with pytest.raises(CacheError, match=f"{place.parent} has no space left: free some, or .* has no space left"):
        disk.keep(b"bytes")
    assert list(place.iterdir()) == []


def test_damaged_bytes_on_a_read_only_disk_are_made_again_in_the_spare(place, spare, monkeypatch):
    name = disk.keep(b"bytes")
    disk.note("key", [name])
    (place / name).write_bytes(b"byt")
    full(monkeypatch, errno.EROFS, place)

    def refused(path, *args, **more):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(os, "utime", refused)
    unlink = os.unlink
    monkeypatch.setattr(os, "unlink", lambda p, **m: (refused if Path(p).parent == place else unlink)(p, **m))
    assert disk.read(name) is None and disk.noted("key") is None
    assert disk.keep(b"bytes") == name and (spare / name).exists()
    assert disk.read(name) == b"bytes" and disk.noted("key") == [name]
    disk.prune()


def test_a_folder_that_others_can_write_is_not_read(place, spare):
    name = disk.keep(b"bytes")
    disk.note("key", [name])
    place.parent.chmod(0o777)
    assert disk.read(name) is None and disk.noted("key") is None  # a planted note would name planted bytes
    assert disk.keep(b"bytes") == name and (spare / name).exists()


def test_a_folder_that_is_removed_is_made_again(place):
    name = disk.keep(b"bytes")
    place.rename(place.with_name("gone"))
    assert disk.read(name) is None
    disk.prune()
    assert disk.keep(b"bytes") == name and disk.read(name) == b"bytes"


def test_the_spare_is_bounded_too(place, spare, monkeypatch):
    full(monkeypatch, errno.ENOSPC, place)
    monkeypatch.setattr(disk, "SPARE_BYTES", 3 * disk.BLOCK)
    names = [disk.keep(bytes([n])) for n in range(6)]
    for age, name in enumerate(names):
        os.utime(spare / name, (age, age))
    disk.prune()
    assert [disk.read(name) is not None for name in names] == [False] * 3 + [True] * 3
