"""Real CUDA attention kernels, and the Python that builds, runs and reads them. Imports nothing from above."""
