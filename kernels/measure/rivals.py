"""The peer of a name on any problem: of a forward, or of gradients."""

import numpy as np

from kernels.core.problem import Problem
from kernels.measure import peers
from kernels.measure.gradient_peers import GradientPeer


def rival(name: str, problem: Problem, inputs: dict[str, np.ndarray]) -> peers.Peer:
    """One of peers.NAMES on a problem, ready to run. PeerUnavailable if it is not installed or does not support the
    problem."""
    return GradientPeer(name, problem, inputs) if problem.gradients else peers.peer(name, problem, inputs)
