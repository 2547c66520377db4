"""What a kernel's probes said: the probe lines of a source, the records that they left, and the steps of a trace."""
