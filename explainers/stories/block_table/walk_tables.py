"""Tables next to the walk: layouts of K, shuffled pages, and the addresses of stored tokens."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from explainers.stories.block_table import paging
from explainers.stories.block_table.paging import WORDS, Paged
from explainers.story import axes, stage
from explainers.story.words import Names
from kernels.run.results import Run
from kernels.trace.memory import model


def layouts_blocks(frames: Sequence[Names], run: Run) -> list[stage.Block]:
    """The reason for the split of K by x: a table and its sentence."""
    table = layouts_table(frames, run)
    keys = {"lanes": "lanes", "lines": "128-byte lines", "bytes": "bytes per lane", "loads": "loads per 16 bytes"}
    here, by_token, whole = [{key: int(row[name]) for key, name in keys.items()} for _, row in table.iterrows()]
    text = WORDS.say("layouts", {"here": here, "by_token": by_token, "whole": whole})
    return [stage.text(text), stage.table(table, WORDS.say("layouts_rule", {}))]


def shuffle_blocks(plain: Run, shuffled: Run, names: Sequence[str], seed: int) -> list[stage.Block]:
    """The comparison of outputs, bit for bit, of the same tokens at other addresses."""
    table = shuffle_table(plain, shuffled, names)
    same = bool((table["equal bit for bit"] == "yes").all())
    return [
        stage.note(WORDS.say("shuffled", {"seed": seed, "same": same}), "good" if same else "bad"),
        stage.table(table),
    ]


def layouts_table(frames: Sequence[Names], run: Run) -> pd.DataFrame:
    """The cost of the walk's first K request, as logged and in other layouts of K.

    Columns: layout, loads per thread and 16 bytes, bytes per load, 128-byte lines, 32-byte sectors.
    Rule: a line is a byte offset / 128, a sector / 32. Each lane's token and piece give the offsets in other layouts.
    """
    frame = next(f for f in frames if f["phase"] == "walk_k")
    paged = Paged(run.request)
    size, x, item = paged.block_size, paged.x, paged.k[1].itemsize
    here = [offset - frame["base"] for offset in frame["request"] if offset is not None]
    pieces = [(offset // (x * item) // size, offset // (x * item) % size) for offset in here]  # (chunk, slot)
    as_rows = [(slot * paged.head_dim + chunk * x) * item for chunk, slot in pieces]
    as_columns = [((chunk * x) * size + slot) * item for chunk, slot in pieces]
    layouts = [
        ("[head_dim / x, block_size, x], as it is", 1, 16, here),
        ("[block_size, head_dim], token by token", 1, 16, as_rows),
        ("[head_dim, block_size], without the split by x", x, item, as_columns),
    ]
    return pd.DataFrame(
        [
            {
                "K page laid out as": name,
                "loads per 16 bytes": loads,
                "bytes per lane": width,
                "lanes": len(here),
                "128-byte lines": len({(frame["base"] + o) // model.LINE for o in offsets}),
                "32-byte sectors": len({(frame["base"] + o) // model.SECTOR for o in offsets}),
            }
            for name, loads, width, offsets in layouts
        ]
    )


def shuffle_table(plain: Run, shuffled: Run, names: Sequence[str]) -> pd.DataFrame:
    """For each sequence its pages in both runs, and whether the outputs are equal bit for bit."""
    output = Paged(plain.request).o[1].name
    rows: list[dict[str, object]] = []
    for n, name in enumerate(names):
        a, b = plain.arrays[output][n], shuffled.arrays[output][n]
        rows.append(
            {
                "sequence": name,
                "pages as allocated": " ".join(map(str, paging.pages_of(plain, n))),
                "pages shuffled": " ".join(map(str, paging.pages_of(shuffled, n))),
                "first numbers of O, head 0": ", ".join(f"{float(v):.5f}" for v in b[0, :3]),
                "largest difference of O": float(np.abs(a.astype(np.float64) - b.astype(np.float64)).max()),
                "equal bit for bit": "yes" if np.array_equal(a, b) else "no",
            }
        )
    return pd.DataFrame(rows)


def addresses_table(run: Run, limit: int = 64) -> pd.DataFrame:
    """The stored bytes of each token in the cache, from the logged stores.

    Columns: token, slot, page, first K byte, K pieces, first V byte, V numbers. The address of a token's first byte of
    V gives its slot.
    """
    k, v = (next(iter(axes.with_axes(run.request, *names).items())) for names in (paging.K_AXES, paging.V_AXES))
    frame = run.trace.frame("event", "tensor", "space", "token", "offset")
    rows: list[dict[str, int]] = []
    stores = frame[(frame.event == "store") & (frame.space == "global")]
    size = axes.length(v[1], "slot")
    for token, part in stores.groupby("token"):
        if len(rows) == limit:
            break
        k_offsets, v_offsets = (part[part.tensor == name].offset for name, _ in (k, v))
        page, *_, slot = (int(n) for n in axes.coordinates(v[1], np.array(v_offsets.min())))
        rows.append(
            {
                "token": int(token),
                "slot": page * size + slot,
                "page": page,
                "slot in page": slot,
                "first K byte": int(k_offsets.min()),
                "K stores of 16 bytes": len(k_offsets),
                "first V byte": int(v_offsets.min()),
                "V stores of one number": len(v_offsets),
            }
        )
    return pd.DataFrame(rows)
