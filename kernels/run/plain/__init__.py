"""Runs of plain kernels on the CPU with automatic probes, and the faults that the runs show."""
