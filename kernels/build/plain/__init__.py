"""Builds of plain kernels for the CPU: a .cu in CUDA's own names, without common.cuh, over device/simt/cuda."""
