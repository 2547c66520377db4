"""Times: the protocol, sweeps, peers, duels, the memory hierarchy, timelines and pipelines, and their recording."""
