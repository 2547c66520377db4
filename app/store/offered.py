"""Files that a bundle offers for download: kept while a worker makes the bundle, and named with it."""

from app.store import disk

_names: list[str] = []  # of the files of the bundle that this process makes


def begin() -> None:
    """Forgets the files of the bundle before."""
    _names.clear()


def names() -> list[str]:
    """Names of the files that were kept since `begin`."""
    return list(_names)


def keep_file(data: bytes, file: str) -> str:
    """Keeps a file for download. Returns its address below the app's own address."""
    _names.append(disk.keep(data))
    return f"/wg/file/{_names[-1]}/{file}"
