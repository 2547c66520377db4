"""The terms of the pages, from terms.toml: spelling, meaning, source and place in the app. The glossary page lists
them, and the pages explain them on hover (app/stage/shell/glossary.js)."""

import tomllib
from dataclasses import asdict, dataclass
from importlib.resources import files


@dataclass(frozen=True)
class Source:
    """A paper, a manual, or Warpglass."""

    label: str  # with authors and year of a paper
    link: str = ""  # empty for a word of our own


@dataclass(frozen=True)
class Term:
    """A term of the pages."""

    said: str  # its meaning, in one or two sentences
    place: str  # a link to a page that shows it
    source: Source


_TOML = tomllib.loads(files(str(__package__)).joinpath("terms.toml").read_text())
_SOURCES = {name: Source(**fields) for name, fields in _TOML["sources"].items()}
OURS = _SOURCES["ours"]
TERMS = {name: Term(**fields | {"source": _SOURCES[fields["source"]]}) for name, fields in _TOML["terms"].items()}


def for_browser() -> dict[str, dict[str, object]]:
    """term -> its fields, for core/data.js."""
    return {name: asdict(term) for name, term in TERMS.items()}
