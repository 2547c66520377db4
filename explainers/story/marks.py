"""The marks of a step (Frame.marks). Play can pause at each mark.

Rise of m: the step raises a row's finite running max.
Bank conflict: the first wavefront of an access with several words in one bank.
Uncoalesced request: fewer sectors could hold its bytes.
Wrong step: its error against float64 is larger than rounding.
Step alone: only one of two kernels has the step.
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
