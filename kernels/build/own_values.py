"""Files with the values of a call. A watched model writes them, and a problem with equal shapes reads them.

A file is an .npz without pickle in the private cache folder. Its name is the hash of its content, so equal names have
equal values, and a link with a name can open only these files.
"""

import hashlib
import io
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from kernels.build import folders
from kernels.errors import ProblemError

PATTERN = "values_[0-9a-f]{16}"
MOST_BYTES = 2**24  # of the arrays of a file
MOST_FILES = 64  # kept ones, the newest
_FOLDER = "values"


def is_name(text: str) -> bool:
    return re.fullmatch(PATTERN, text) is not None


def save(arrays: Mapping[str, np.ndarray]) -> str:
    """Writes arrays of float16 or float32. Returns their name. ProblemError if they have more than MOST_BYTES."""
    total = sum(array.nbytes for array in arrays.values())
    if total > MOST_BYTES:
        raise ProblemError(f"The values have {total / 2**20:,.1f} MiB. A file takes {MOST_BYTES / 2**20:,.0f} MiB.")
    held = io.BytesIO()
    np.savez(held, allow_pickle=False, **arrays)
    text = held.getvalue()
    hashed = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        hashed.update(f"{name}{array.shape}{array.dtype}".encode() + np.ascontiguousarray(array).tobytes())
    name = f"values_{hashed.hexdigest()[:16]}"

    def put(folder: Path) -> None:
        place = folder / _FOLDER
        place.mkdir(0o700, exist_ok=True)
        part = place / f"{name}.part"
        part.write_bytes(text)
        part.replace(place / f"{name}.npz")
        for old in sorted(place.glob("*.npz"), key=lambda path: path.stat().st_mtime)[:-MOST_FILES]:
            old.unlink(missing_ok=True)

    folders.write(put)
    return name


def load(name: str, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """The arrays with these names and shapes, in float32. ProblemError for another name, file or shape."""
    paths = [folder / _FOLDER / f"{name}.npz" for folder in folders.readable()] if is_name(name) else []
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        raise ProblemError(f"The values {name!r:.40} are not on this machine. Watch the model here again.")
    try:
        with zipfile.ZipFile(path) as archive:  # np.load would unpack any size
            size = sum(member.file_size for member in archive.infolist())
        if size > 2 * MOST_BYTES:
            raise ValueError(f"it holds {size:,} bytes")
        with np.load(path, allow_pickle=False) as file:
            made = {key: file[key].astype(np.float32) for key in shapes}
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise ProblemError(f"The values {name} cannot be read: {error}. Watch the model again.") from None
    for key, shape in shapes.items():
        if made[key].shape != shape:
            has = f"{key} is {list(made[key].shape)} in the values {name}, and these fields ask for {list(shape)}."
            raise ProblemError(f"{has} Choose the sizes of the values, or other scores.")
    return made
