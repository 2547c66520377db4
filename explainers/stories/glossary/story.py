"""The glossary: every term with its meaning, its source and a link to its place in the app."""

from typing import TypedDict

from explainers.story.base import Runner, Story
from explainers.story.stage import Stage, View
from explainers.story.terms import TERMS


class Entry(TypedDict):
    """A term as the view shows it.

    term, said: the term and its meaning.
    source, link: the label and the address of its source. The address of a word of our own is "".
    story, query: the page that shows it, and its choices.
    """

    term: str
    said: str
    source: str
    link: str
    story: str
    query: str


def entries() -> list[Entry]:
    """All terms, by the alphabet."""
    found: list[Entry] = []
    for name in sorted(TERMS, key=str.lower):
        term = TERMS[name]
        story, _, query = term.place.partition("?")
        found.append(
            {
                "term": name,
                "said": term.said,
                "source": term.source.label,
                "link": term.source.link,
                "story": story,
                "query": query,
            }
        )
    return found


class Glossary(Story[str]):
    """The terms in a list. It runs no kernel."""

    def stage(self, subject: str, runner: Runner) -> Stage:
        words = entries()
        said = f"{len(words)} terms, each with its meaning, its source and its place in the app."
        return Stage("", [], [View("glossary", "terms", "Terms", {"entries": words})], summary=said)


STORY = Glossary()
