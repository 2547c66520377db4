"""Files of other profilers: bars of time (IKET, FlashInfer's profiler, nanotrace) and stall reasons (Nsight Compute).

    opened(data, file) -> Trace | Stalls    opening.py, by the content of the file
    iket.py, perfetto.py, nanotrace.py, events.py, ncu.py: a reader for each format, with its public definition
    record.py: the results of all readers. cursor.py: bounded reading of bytes

Each reader returns its record, or raises TraceError with a sentence. No reader runs anything of a file."""
