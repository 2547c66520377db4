"""One Parquet file with several tables and a JSON object: the form of a recorded run or pipeline.

The file has one column for each column of each table, named `table/column`. The columns of a short table end in nulls.
The JSON is in the file's metadata, next to its SHA-256. Pages carry checksums. Integers are stored as differences,
floating-point numbers byte by byte, and zstd compresses everything.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kernels.errors import TraceError

FORMAT = 3
"""The version of recorded runs and pipelines. Formats 1 and 2 were folders of files, or pairs of files."""
LEVEL = 19
_JSON, _HASH = b"warpglass", b"sha256"
_ONE_GROUP = 2**31 - 1

Tables = Mapping[str, Mapping[str, pa.Array]]


def write(path: Path, tables: Tables, header: Mapping[str, object]) -> None:
    """Writes the tables and the header. A reader never meets half a file. Equal input gives equal bytes.

    tables: name -> columns. The columns of a table have one length.
    header: a JSON object without the keys format and lengths."""
    columns = {f"{name}/{column}": values for name, table in tables.items() for column, values in table.items()}
    longest = max(map(len, columns.values()), default=0)
    padded = {name: pa.concat_arrays([values, pa.nulls(longest - len(values), values.type)])
              for name, values in columns.items()}  # fmt: skip
    lengths = {name: len(next(iter(table.values()), ())) for name, table in tables.items()}
    text = json.dumps({"format": FORMAT, "lengths": lengths, **header}).encode()
    schema = pa.schema({name: values.type for name, values in padded.items()})
    encodings = {name: code for name, values in padded.items() if (code := _encoding(values.type))}
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    with pq.ParquetWriter(
        part,
        schema,
        compression="zstd",
        compression_level=LEVEL,
        use_dictionary=[name for name in padded if name not in encodings],
        column_encoding=encodings or None,
        store_schema=False,
        write_statistics=False,
        write_page_checksum=True,
    ) as file:
        file.write_table(pa.table(padded, schema=schema), row_group_size=_ONE_GROUP)
        file.add_key_value_metadata({_JSON: text, _HASH: hashlib.sha256(text).hexdigest().encode()})
    part.replace(path)


def _encoding(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind):
        return "DELTA_BINARY_PACKED"
    return "BYTE_STREAM_SPLIT" if pa.types.is_floating(kind) else ""


def read_header(path: Path) -> dict[str, Any]:
    """The header of a file from `write`. TraceError for another format, ValueError for anything else."""
    try:
        metadata = pq.read_schema(path).metadata or {}
        text = metadata[_JSON]
    except (pa.ArrowException, KeyError) as error:
        raise ValueError(f"it is no recording of Warpglass ({error})") from None
    if metadata.get(_HASH) != hashlib.sha256(text).hexdigest().encode():
        found = json.loads(text).get("format", 1)
        if found != FORMAT:
            raise TraceError(f"it has format {found}, and this version of Warpglass reads format {FORMAT}")
        raise ValueError("its header is not as it was written")
    header = json.loads(text)
    if header.pop("format") != FORMAT:
        raise TraceError(f"it has format {json.loads(text)['format']}, and this version of Warpglass reads {FORMAT}")
    return header


def read(path: Path, lengths: Mapping[str, int], names: Iterable[str]) -> dict[str, pa.Table]:
    """The tables of these names. lengths: the header's. ValueError for a missing table, or for changed bytes."""
    try:
        file = pq.ParquetFile(path, page_checksum_verification=True)
        columns = {name: [c for c in file.schema_arrow.names if c.rpartition("/")[0] == name] for name in names}
        whole = file.read([column for wanted in columns.values() for column in wanted])
    except (pa.ArrowException, OSError) as error:
        raise ValueError(str(error)) from None
    found = {}
    for name, wanted in columns.items():
        if not wanted:
            raise ValueError(f"it has no table {name}")
        part = whole.select(wanted).slice(0, lengths[name])
        found[name] = part.rename_columns([column.rpartition("/")[2] for column in wanted])
    return found
