"""What a step can be marked with (Frame.marks), which is where play can be made to pause; nothing else is a mark.

A rise of m: the step raises a row's running max above a finite max that it had before. A bank conflict: the first of
the wavefronts that an access takes because its lanes want different words of one bank. An uncoalesced request: fewer
sectors would hold the bytes that it touches. A wrong step: it is off from float64 by more than rounding. A step alone:
one of two kernels makes it, and the other has no such step.
"""

RISE, CONFLICT, UNCOALESCED = "rise of m", "bank conflict", "uncoalesced request"
WRONG, ALONE = "wrong step", "step alone"
MARKS = {  # the name of one, and of several
    RISE: "rises of m",
    CONFLICT: "bank conflicts",
    UNCOALESCED: "uncoalesced requests",
    WRONG: "wrong steps",
    ALONE: "steps alone",
}
