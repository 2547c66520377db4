"""The front matter of a proposal as TOML, in a comment above the untouched text."""

import json
from typing import TypeGuard


def written(table: dict[str, object]) -> str:
    """The comment of a table: texts first, then lists of tables and tables."""
    lines = ["/*"]
    simple = {key: value for key, value in table.items() if not isinstance(value, dict) and not _is_tables(value)}
    lines += [f"{key} = {_value(value)}" for key, value in simple.items()]
    for key, value in table.items():
        for entry in value if _is_tables(value) else ():
            lines += ["", f"[[{key}]]", *(f"{name} = {_value(held)}" for name, held in entry.items())]
        for name, entry in value.items() if isinstance(value, dict) else ():
            lines += ["", f"[{key}.{name}]", *(f"{word} = {_value(held)}" for word, held in entry.items())]
    return "\n".join([*lines, "*/", ""])


def _is_tables(value: object) -> TypeGuard[list[dict[str, object]]]:
    return isinstance(value, list) and bool(value) and all(isinstance(entry, dict) for entry in value)


def _value(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    text = json.dumps(value, ensure_ascii=False)  # a text of JSON is one of TOML
    return text.replace("*/", "* /")
