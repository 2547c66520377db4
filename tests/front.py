"""The first lines of a kernel that a test writes: texts that say nothing, and the family and its problem."""

TEXTS = "".join(f'{key} = "a test."\n' for key in ("title", "idea", "changed", "costs", "limits", "source"))


def of_dense(text):
    """text: the rest of the opening comment, and the code."""
    return f'/*\n{TEXTS}family = "dense"\n{text}'


def of_roles(text):
    """As of_dense, of lab's problem `roles`: x [256] and o [64]."""
    return f'/*\n{TEXTS}family = "lab"\nproblem = "roles"\n{text}'
