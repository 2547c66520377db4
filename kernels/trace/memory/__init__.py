"""Addresses -> wavefronts and sectors (model.py), and how that is held against Nsight Compute (calibration,
counters)."""
