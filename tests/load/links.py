"""Links that nobody should send, made from a seed: every page, tab and choice; what is allowed at its extremes, and
what is not allowed at all."""

import math
import random
import string
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from app.choices.choice import Choice
from app.choices.page import Page, kernel_name
from app.stories import STORIES
from kernels.catalog import current
from kernels.core.fields import write_value

NUMBERS = ("0", "-0", "-1", "1", "1e3", "1E300", "-1e300", "nan", "NaN", "inf", "-Infinity", "1_000", "0x10", "1.5",
           " 7 ", "+7", "1" + "0" * 300, "9" * 5000, "-" + "9" * 400, "1e-400", "0.1e1000000", "\u0663", "\u00b2",
           "1,5", "\u00bd", "\uff17", "2147483647", "2147483648", "4294967296", "9223372036854775808", "1e",
           "e1", "--1")  # fmt: skip
TEXTS = ("", " ", "\t\n", "\x00", "a\x00b", "\x7f\x1b[31m", "true", "True", "None", "null", "undefined", "[]", "{}",
         "{0}", "%s%n", "%00", "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "'; drop table runs; --",
         "../../../../etc/passwd", "/etc/passwd", "..%2f..%2f", "\\\\host\\share", "\u202egnp.exe", "\U0001f4a3" * 50,
         "e\u0301" * 100, "\ufeffx", "\ufffd", "A" * 20_000, ";" * 3000, "|" * 3000, "1," * 4000, "1;" * 3000,
         "1,2;3,;,", "((((", "__import__('os')", "a.b.c", ":", "x.cu:1", ":99999", "auto", "none",
         "custom")  # fmt: skip
EVENTS = ("add A 20", "add A 0", "add A 99999", "add A 100000", "append A 5", "append Z 5", "fork B A", "fork A A",
          "free A", "free A, free A", "add A", "add A 1 1", ",,,", "add A \u0663", "add A \u00b2",
          ", ".join(f"add S{n} 3" for n in range(400)))  # fmt: skip
NAMES = ("", "__class__", "kernel", "a", "b", "seed", "seq_len", "backend", "preset", "what_if", "line",
         "at_item", "recorded_problem", "recorded_build", "step", "tab", "picture", "_set", "_to", "\u202e",
         "x" * 3000)  # fmt: skip
STOPS = tuple(STORIES)
Query = list[tuple[str, str]]


@dataclass(frozen=True)
class Link:
    """A question of /wg/ask. query: names may come twice."""

    story: str
    query: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        said = "&".join(f"{name[:40]}={text[:40]}" for name, text in self.query)
        return f"{self.story}?{said}"


def hostile(seed: int, count: int) -> Iterator[Link]:
    """Links of all pages in turn, the same for the same seed."""
    chance = random.Random(seed)
    for number in range(count):
        yield _link(chance, STOPS[number % len(STOPS)])


def allowed(seed: int, count: int) -> Iterator[Link]:
    """The same of choices that are each allowed, however large, alone."""
    chance = random.Random(seed)
    for number in range(count):
        path = STOPS[number % len(STOPS)]
        query, _ = _chosen(chance, STORIES[path].page(current()), wild=0.0)
        yield Link(path, tuple(query + _tab(chance, path, 0.0)))


def _link(chance: random.Random, path: str) -> Link:
    page, wild = STORIES[path].page(current()), chance.choice((0.0, 0.1, 0.5, 1.0))
    query, names = _chosen(chance, page, wild)
    if chance.random() < 0.3:
        name = chance.choice(names) if names and chance.random() < 0.8 else _odd(chance, NAMES)
        query += [("_set", name), ("_to", _value(chance, page.choices(_begun(chance, page)).get(name), wild))]
        if chance.random() < 0.1:
            query.pop()
    if chance.random() < 0.2:
        query.append(("_carried", "1"))
        other = STORIES[chance.choice(STOPS)].page(current())
        query += _chosen(chance, other, wild)[0]
    query += _tab(chance, path, wild)
    if chance.random() < 0.1 and query:
        query.append((chance.choice(query)[0], _odd(chance, TEXTS)))
    if chance.random() < 0.05:
        query += [(chance.choice(("_who", "_key", "_again")), _odd(chance, TEXTS))]
    return Link(path, tuple(query))


def _tab(chance: random.Random, path: str, wild: float) -> Query:
    if chance.random() < 0.5:
        return []
    parts = tuple(STORIES[path].parts)
    return [("_part", _odd(chance, TEXTS) if not parts or chance.random() < wild / 4 else chance.choice(parts))]


def _begun(chance: random.Random, page: Page) -> dict[str, Any]:
    """The choices of a page, with kernels drawn at random."""
    state: dict[str, Any] = {}
    for side in page.sides if page.kernels else ():
        state[kernel_name(side)] = chance.choice(list(page.kernels_of(side, state)))
    return state


def _chosen(chance: random.Random, page: Page, wild: float) -> tuple[Query, list[str]]:
    state = _begun(chance, page)
    known = page.choices(state)
    names = [name for name in known if name not in state]
    taken = chance.sample(names, chance.randint(0, len(names))) if names else []
    query = [(name, str(value)) for name, value in state.items() if chance.random() < 0.9]
    query += [(name, _value(chance, known[name], wild)) for name in taken]
    while chance.random() < wild / 2:
        query.append((_odd(chance, NAMES), _odd(chance, TEXTS + NUMBERS)))
    return query, list(known)


def _value(chance: random.Random, choice: Choice | None, wild: float) -> str:
    """A value of a choice: allowed, and as likely at its ends as between them; or one that is not."""
    if choice is None or chance.random() < wild:
        return _odd(chance, NUMBERS + TEXTS)
    if choice.check:
        return ", ".join(chance.choices(EVENTS, k=chance.choice((1, 2, 3, 12))))
    if choice.allowed:
        return write_value(chance.choice(choice.allowed))
    if choice.low is None or choice.high is None:
        return _odd(chance, TEXTS) if wild else ""
    if isinstance(choice.default, tuple):
        row = [_number(chance, choice) for _ in range(chance.choice((0, 1, 3, 32, 32, 300, 2000)))]
        return ";".join([",".join(row)] * chance.randint(1, 3)) if choice.nested else ",".join(row)
    return _number(chance, choice)


def _number(chance: random.Random, choice: Choice) -> str:
    """From low to high, evenly by its magnitude."""
    low, high = float(choice.low or 0), float(choice.high or 0)
    if chance.random() < 0.2:
        found = chance.choice((low, high))
    else:
        found = low + math.expm1(chance.random() * math.log1p(high - low))
    return f"{found:g}" if isinstance(choice.default, float) else str(round(found))


def _odd(chance: random.Random, listed: tuple[str, ...]) -> str:
    if chance.random() < 0.1:
        return "".join(chance.choices(string.printable + "\u00e9\u4e2d\U0001f600", k=chance.choice((1, 8, 200))))
    return chance.choice(listed)


ROUTES = (
    "/wg/ask/", "/wg/ask/..", "/wg/ask/nothing", "/wg/ask/tiling/../start", "/wg/ask/%2e%2e%2fstart", "/wg/ask/\u00e9",
    "/wg/ask/tiling%00", "/wg/ask/" + "x" * 8000, "/wg/bundle/", "/wg/bundle/..", "/wg/bundle/%2e%2e",
    "/wg/bundle/..%2f..%2f..%2fetc%2fpasswd", "/wg/bundle/../../../../etc/passwd", "/wg/bundle/of", "/wg/bundle/%00",
    "/wg/bundle/" + "0" * 32, "/wg/bundle/" + "a" * 5000, "/wg/bundle/%ff%fe", "/wg/file/../../x", "/wg/file/x/..",
    "/wg/file/%2e%2e/%2e%2e", "/wg/file/" + "0" * 32 + "/..%2f..%2fa", "/wg/file/" + "0" * 32 + "/a%0d%0aX:y",
    "/wg/0/../../main.py", "/wg/0/shell/app.js", "/wg/VERSION/../server.py", "/wg/VERSION/..%2fserver.py",
    "/wg/VERSION/%2e%2e/%2e%2e/main.py", "/wg/VERSION//etc/passwd", "/wg/VERSION/views/../../page.py",
    "/wg/VERSION/nothing.js", "/wg/VERSION/%00", "/wg/VERSION/" + "v/" * 1000, "/wg", "/wg/", "//wg//ask//tiling",
    "/wg/measure/forget", "/wg/stop", "/app/main.py", "/.env", "/../app/main.py", "/component/x/../../app/main.py",
)  # fmt: skip
"""Addresses beside the pages'; VERSION stands for that of the modules. Each is answered with less than 500."""
