"""The README and the guides: their length, their links, and their commands."""

import re
import shlex
import subprocess
from pathlib import Path

from kernels import __main__ as command_line
from kernels import arguments

ROOT = Path(__file__).parents[1]
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


def commands():
    """Each `python -m kernels ...` of the guides and each short command of the README's table, as words."""
    for guide in GUIDES:
        for line in re.findall(r"python -m kernels (\w[^`\n|]*)", guide.read_text()):
            yield shlex.split(line, comments=True)
    for row in re.findall(r"^\| .* \| .* \| `(.*?)`(?: \(GPU\))? \|$", README.read_text(), re.M):
        yield shlex.split(row)


def test_the_command_line_knows_every_command_of_the_guides_and_the_changelog_is_short():
    parser = arguments.parser(command_line._COMMANDS, command_line.TABLES)
    found = [words for words in commands() if words[0].islower() and "NAMES" not in words]
    assert len(found) > 20
    for words in found:
        parser.parse_args(words)
    versions = (ROOT / "CHANGELOG.md").read_text().split("\n## ")[1:]
    assert versions and versions[0].startswith("0.1.0")
    for version in versions:
        bullets = re.findall(r"^- (.*(?:\n  .*)*)", version, re.M)
        assert 1 <= len(bullets) <= 10
        assert all(bullet.endswith(".") and not re.search(r"\. [A-Z]", bullet) for bullet in bullets)
