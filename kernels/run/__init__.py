"""Runs kernels: limits, launches, comparison with float64, worker processes, and the backends gpu, cpu and recorded."""
