"""Reads the present kernels once. Workers are forked from a process with this import, so each worker has them."""

from app.stories import rail
from kernels.catalog import current

rail(current())
