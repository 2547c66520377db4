"""The memory model: wavefronts and sectors from addresses."""
