"""Measurements on named GPUs (data/), and the code of their files: tables, packed files, the index of runs."""

from pathlib import Path

DATA = Path(__file__).parent / "data"
