"""The masks in plain words."""

from kernels.core.problem import Problem

# mask -> its rule, with the fields of the problem. The names of the other masks say it.
RULES = {
    "all": "A query sees every key.",
    "window": "A query sees a window: the last {window} keys, up to its own.",
    "sinks": "A query sees a window, the last {window} keys. It also sees the first {sinks} keys, the sinks.",
    "documents": "A query sees only the keys of its own document.",
    "drawn": "A query sees the drawn blocks of keys in its row.",
}
CAUSAL = "A query sees every key up to its own."


def rule(problem: Problem) -> str:
    """Returns the keys of a query by the mask of a problem in a sentence, or ""."""
    values = problem.values()
    mask = str(values["mask"])
    if mask == "all" and problem.causal:
        return CAUSAL
    return RULES.get(mask, "").format(**values)
