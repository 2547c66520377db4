"""The reason of a wrong result, from its signature: one factor, the last tile, every 32nd column, a neighbour's row.

explain.py   explain(): the Reason of a failed check. It asks the others in this order, and then finds the first wrong
             S, m, l, P or O of the probes, with row, tile, lane and line
answers.py   computes attention again with one typical mistake, and compares
patterns.py  the places of the wrong values: tiles, lanes, heads
"""
