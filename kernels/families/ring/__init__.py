"""Attention over several GPUs: a ring of keys (context parallel), or heads split over the GPUs. On the CPU and on one
GPU the devices are virtual, and their launches run in order."""

from kernels.families.ring.problem import RingProblem

PROBLEMS = {"ring": RingProblem}
