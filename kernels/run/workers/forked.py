"""What workers are forked with: imported once, by the process that forks them (process.py)."""

import gc

gc.disable()  # nothing that an import makes is garbage; looking for some takes a fifth of the time. See served.serve

import torch  # noqa: E402, F401

from kernels.run import execute  # noqa: E402, F401
from kernels.run.workers import served  # noqa: E402, F401
