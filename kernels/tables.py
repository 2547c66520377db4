"""Measured tables with their provenance: CSV files in kernels/recordings/, whose first line is a # and JSON: device, driver, date, ..."""

import datetime
import json
from pathlib import Path

import pandas as pd

from kernels.errors import TraceError

FOLDER = Path(__file__).parent / "recordings"


def save(table, path, provenance):
    """Writes the table and its provenance (a dict of texts and numbers); returns the path."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        file.write("# " + json.dumps(provenance) + "\n")
        table.to_csv(file, index=False, lineterminator="\n")
    return path


def load(path):
    """(table, provenance) of a file that `save` wrote; TraceError if it is anything else."""
    path = Path(path)
    try:
        with path.open() as file:
            first = file.readline()
            return pd.read_csv(file), json.loads(first.removeprefix("# "))
    except (OSError, ValueError) as error:
        raise TraceError(f"{path.name} is not a table of measurements: {error}") from None


def provenance(device, **more):
    """Where and when a table is measured; `device` is a backends.Device."""
    return {"device": device.name, "driver": device.driver, "date": datetime.date.today().isoformat(), **more}
