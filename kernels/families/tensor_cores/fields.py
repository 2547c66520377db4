"""The values of the fields of attention in 16 bits."""

DTYPES = ("float16", "bfloat16")
ORDERS = {"bhsd": (0, 1, 2, 3), "bshd": (0, 2, 1, 3)}  # layout -> the axes batch, head, row, dim, outermost first
CLIMBS = {"climb_5": 5.0, "climb_9.5": 9.5}  # the growth of the scores from one tile of CLIMB_KEYS keys to the next
SCORES = ("random", "rising", "sink", "low_rank", *CLIMBS)
LOW_RANK = 4  # directions of Q and K with scores of low_rank
CLIMB_KEYS = 128
