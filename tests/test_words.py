"""The texts of the repository are plain: no habit of hard prose is more frequent than in well-known libraries."""

import re
import shlex
import subprocess
from pathlib import Path

import plain_words
import pytest
from plain_words import AIMS, Text, lines_with, rates, texts

from kernels import __main__ as command_line
from kernels import arguments

ROOT = Path(__file__).parents[1]
HARD = {
    "semicolons": "one; two",
    "passive reports": "it is told to them",
    "relatives": "a thing that runs, which ends, where it waits, who stops it, and what follows",
    "clauses as nouns": "what is recorded",
    "fronted Of, What, Where": "Of the keys two run",
    "alone for only": "a GPU alone",
    "stands, lies, goes by": "it stands in the file",
    "pronouns without a noun": "the first of them",
}


@pytest.fixture(scope="module")
def found():
    return list(texts(ROOT))


def test_each_kind_of_text_is_read_and_a_habit_is_rare_in_it(found):
    over = [(habit, kind, rate) for (kind, habit), rate in rates(found).items() if rate > AIMS[habit][1]]
    places = [
        f"{habit}: {rate:.2g} per 1,000 words of {kind}, at most {AIMS[habit][1]:g}. Rewrite some of "
        f"{lines_with(habit, kind, found)}"
        for habit, kind, rate in over
    ]
    assert not over, "\n".join(places)
    kinds = {text.kind for text in found}
    assert {"docstrings", "comments", "errors", "strings", "front matter", "README.md", "kernels/README.md"} <= kinds


@pytest.mark.parametrize("habit", AIMS)
def test_a_habit_is_found(habit):
    long = " word" * plain_words.LEAST_WORDS
    hard, plain = Text("kind", ROOT, 1, HARD[habit] + long), Text("kind", ROOT, 1, "a GPU" + long)
    assert rates([hard])["kind", habit] > AIMS[habit][1] and not rates([plain])["kind", habit]
    assert lines_with(habit, "kind", [hard, plain]) == [f"{ROOT}:1"]


# ---- the guides ----

tracked = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
TEXTS = ROOT / "kernels" / "exercises"  # shown by the Workbench
GUIDES = [ROOT / line for line in tracked.split() if TEXTS not in (ROOT / line).parents]
README = ROOT / "README.md"


def test_every_guide_is_short_its_links_lead_to_files_and_the_readme_leads_to_each():
    lines = {guide: len(guide.read_text().splitlines()) for guide in GUIDES}
    assert not {guide: n for guide, n in lines.items() if n > (130 if guide == README else 120)}
    found = [(guide, to) for guide in GUIDES for to in re.findall(r"\]\(([^)#]+)\)", guide.read_text())]
    assert found
    assert not [(guide, to) for guide, to in found if not (to.startswith("https://") or (guide.parent / to).exists())]
    reached, waiting = set(), [README]
    while waiting:
        guide = waiting.pop()
        if guide in reached or guide.suffix != ".md":
            continue
        reached.add(guide)
        links = re.findall(r"\]\(([^)#]+)\)", guide.read_text())
        waiting += [(guide.parent / link).resolve() for link in links if not link.startswith("https://")]
    assert set(GUIDES) - reached <= {ROOT / "CHANGELOG.md"}
    description = README.read_text().split("\n\n")[1]
    assert 10 <= len(description.split()) <= 25


def test_the_command_line_knows_every_command_of_the_guides_and_the_changelog_is_short():
    parser = arguments.parser(command_line._COMMANDS, command_line.TABLES)
    lines = [line for guide in GUIDES for line in re.findall(r"python -m kernels (\w[^`\n|]*)", guide.read_text())]
    lines += re.findall(r"^\| .* \| .* \| `(.*?)`(?: \(GPU\))? \|$", README.read_text(), re.M)  # the short commands
    commands = [shlex.split(line, comments=True) for line in lines]
    found = [words for words in commands if words[0].islower() and "NAMES" not in words]
    assert len(found) > 20
    for words in found:
        parser.parse_args(words)
    versions = (ROOT / "CHANGELOG.md").read_text().split("\n## ")[1:]
    assert versions and versions[0].startswith("0.1.0")
    for version in versions:
        bullets = re.findall(r"^- (.*(?:\n  .*)*)", version, re.M)
        assert 1 <= len(bullets) <= 10
        assert all(bullet.endswith(".") and not re.search(r"\. [A-Z]", bullet) for bullet in bullets)
