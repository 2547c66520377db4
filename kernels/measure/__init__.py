"""Times: the protocol, sweeps and their table, torch's peers, the memory hierarchy, timelines; and tables of
measurements, which need no GPU to read."""
