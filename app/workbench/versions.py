"""Compares two drafts in a worker: the table of `python -m kernels report` (kernels/watching)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from app.workbench import drafts
from app.workbench.examine import OUR_FOLDERS
from kernels.watching import version
from kernels.watching.comparison import Comparison, compare_whole

SECONDS = 20.0  # of the run of each version


def compared(texts: Sequence[str], names: Sequence[str], titles: Sequence[str]) -> dict[str, object]:
    """The answer for the page, the keys of a Comparison and `markdown`.

    names: of both drafts.
    titles: of both texts, for the reader."""
    files = [drafts.keep(text, name) for text, name in zip(texts, names)]  # the worker may be on another host
    sources = [
        version.Source(title, text, partial(drafts.read, file)) for title, text, file in zip(titles, texts, files)
    ]
    before, after = version.versions(sources, partial(version.here, time_limit=SECONDS))
    return _for_readers(compare_whole(before, after, version.traced), dict(zip(names, titles))).as_json()


def _for_readers(found: Comparison, titles: Mapping[str, str]) -> Comparison:
    """The titles in place of the drafts' names, and no folder of ours."""
    named = re.compile("|".join(rf"{name}(?:\.cu)?" for name in titles))

    def said(text: str) -> str:
        return OUR_FOLDERS.sub("", named.sub(lambda match: titles[match[0].removesuffix(".cu")], text))

    rows = [replace(row, before=said(row.before), after=said(row.after), where=said(row.where)) for row in found.rows]
    before, after = (tuple(map(said, reasons)) for reasons in found.reasons)
    return replace(found, rows=tuple(rows), reasons=(before, after), notes=tuple(map(said, found.notes)))
