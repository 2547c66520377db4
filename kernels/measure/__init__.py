"""Times: the protocol, sweeps, peers, duels, the memory hierarchy, timelines and pipelines, and how each is recorded."""
