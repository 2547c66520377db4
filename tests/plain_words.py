"""Counts habits of hard prose in the repository's texts, per 1,000 words of each kind of text.

Kinds: docstrings, comments, errors, strings of kernels/, front matter of .cu files, and each Markdown file. The texts
of pages are no kind here. Eight well-known libraries of this field stay below the limits.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

LEAST_WORDS = 150  # of a kind; a rate of fewer words means little
SHORT = 4  # words; a shorter string is a name
REPORTS = "told|said|kept|made|drawn|asked|held|shown|named|taken|given|brought|meant|known|left|set|counted|noted"
AFTER_CLAUSE = "is|are|has|have|it|they|a|the|one|this|of|can|cannot|was|no|its|each|nothing|another"
AIMS = {  # habit -> its pattern, and the most per 1,000 words
    "semicolons": (";", 4.0),
    "passive reports": (rf"\b(?:is|are|was|were|be|been)\s+(?:\w+ly\s+)?(?:{REPORTS})\b", 2.0),
    "relatives": (r"\b(?:that|which|what|who|whoever|whose|where)\b", 20.0),
    "clauses as nouns": (rf"\b(?:what|who|where|whoever)\s+(?:{AFTER_CLAUSE})\b", 1.0),
    "fronted Of, What, Where": (r"(?:^|[.!?:]\s+)(?:Of|What|Where|Whoever|Without|As)\s", 0.5),
    "alone for only": (r"\b\w+s?\s+alone\b", 0.3),
    "stands, lies, goes by": (r"\b(?:stands?|lies?|goes by|begins? at|is beside|are beside|stood|lay)\b", 0.3),
    "pronouns without a noun": (
        r"\b(?:those that|those of|such a one|of such|there are those|who does|of it\b|of them\b)",
        0.5,
    ),
}


class Text(NamedTuple):
    """A text of the repository: its kind, file, line and words."""

    kind: str
    path: Path
    line: int
    words: str


def texts(root: Path) -> Iterator[Text]:
    """All texts below the root."""
    for path in sorted(root.rglob("*.md")):
        if not {".venv", "node_modules"} & {*path.parts}:
            yield Text(str(path.relative_to(root)), path, 1, _prose(path.read_text()))
    for folder in ("kernels", "explainers", "app"):
        for path in sorted((root / folder).rglob("*.py")):
            for text in _python(path):
                if text.kind != "strings" or folder == "kernels":
                    yield text
    for path in sorted((root / "kernels").rglob("*.cu")):
        head = path.read_text().split("*/")[0].replace("\\\n", " ")
        yield Text("front matter", path, 1, "\n".join(re.findall(r'"([^"]{20,})"', head)))


def _prose(markdown: str) -> str:
    """Paragraphs and list items: no code, tables, pictures or headings."""
    text = re.sub(r"```.*?```", "", markdown, flags=re.S)
    lines = [line for line in text.splitlines() if not re.match(r"\s*(\||#|!\[)", line)]
    return re.sub(r"`[^`]*`", "x", "\n".join(lines))


def _python(path: Path) -> Iterator[Text]:
    """Docstrings, errors, other strings and comments of a module."""
    source = path.read_text()
    tree = ast.parse(source)
    docstrings = {id(node) for node in _docstrings(tree)}
    raised = {id(part) for node in ast.walk(tree) if isinstance(node, ast.Raise) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            words = "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            words = node.value
        else:
            continue
        if id(node) in docstrings:
            yield Text("docstrings", path, node.lineno, words)
        elif len(words.split()) >= SHORT and "\n\n" not in words and not words.endswith(";"):  # a statement of C++
            yield Text("errors" if id(node) in raised else "strings", path, node.lineno, words)
    for number, line in enumerate(source.splitlines(), 1):
        if comment := re.search(r"(?:^|\s{2,})#\s+(.{12,})$", line):
            yield Text("comments", path, number, comment[1])


def _docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                yield first.value


def rates(found: list[Text]) -> dict[tuple[str, str], float]:
    """(kind, habit) -> its count per 1,000 words, for kinds of at least LEAST_WORDS words."""
    words: Counter[str] = Counter()
    hits: Counter[tuple[str, str]] = Counter()
    for text in found:
        words[text.kind] += len(text.words.split())
        for habit, (pattern, _) in AIMS.items():
            hits[text.kind, habit] += len(re.findall(pattern, text.words))
    return {(kind, habit): 1000 * n / words[kind] for (kind, habit), n in hits.items() if words[kind] >= LEAST_WORDS}


def lines_with(habit: str, kind: str, found: list[Text], most: int = 20) -> list[str]:
    """File and line of the first texts of a kind with a habit."""
    pattern = AIMS[habit][0]
    places = [f"{text.path}:{text.line}" for text in found if text.kind == kind and re.search(pattern, text.words)]
    return places[:most]
