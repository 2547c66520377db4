"""Choices as the toolbar draws them: plain data, one entry for each choice. Nothing here decides anything."""

from collections.abc import Mapping

from app.choices.choice import Choice
from app.choices.page import NONE, Description, Descriptions, Page, State, kernel_name
from kernels.core.fields import write_value
from kernels.core.launch import words_of_constant
from kernels.core.spec import KernelSpec
from kernels.run.backends import Survey

TITLES = {"gpu": "This GPU", "cpu": "The CPU", "recorded": "Recorded"}
GROUPS = ("kernel", "preset", "what_if", "own", "place", "problem", "build", "run")  # in the toolbar's order
CUSTOM = "custom"  # the preset without a name
PLAIN = {  # plain words for fields and constants. The identifier itself appears on hover
    "AHEAD": "copy ahead",
    "MULTIPROCESSORS": "most blocks",
    "QUERY_HEADS": "query heads per block",
    "Q_STAGES": "query tiles in flight",
    "RESCALE": "rescale",
    "STREAK": "tiles before a skip",
    "SUBTRACT_MAX": "subtract the max",
    "V_STRIDE": "stride of V",
    "WIDTH": "bytes per lane",
    "MATRICES": "matrices at once",
    "alibi": "ALiBi",
    "block_kv": "keys per block",
    "block_q": "queries per block",
    "block_size": "tokens per page",
    "block_tables": "block tables",
    "cache_dtype": "type of the cache",
    "context_lens": "tokens of each sequence",
    "dtype": "number type",
    "head_dim": "numbers per head",
    "mask_block": "block of the mask",
    "num_blocks": "pages in the pool",
    "num_heads": "heads",
    "num_kv_heads": "KV heads",
    "op": "access",
    "score_scale": "size of the scores",
    "seq_len": "tokens",
    "seq_len_kv": "keys",
    "soft_cap": "largest score",
    "width": "bytes per lane",
}


def plain(name: str) -> str:
    """The plain words for a choice, such as "key tile" for BLOCK_KV, and "A key tile" for a_BLOCK_KV."""
    side, _, rest = name.partition("_")
    if side in ("a", "b") and rest:
        return f"{side.upper()} {plain(rest)}"
    return PLAIN.get(name) or words_of_constant(name) or name.replace("_", " ").lower()


# ---- presets: problems worth a look. A click sets several fields at once ----


def presets(page: Page, state: State) -> dict[str, State]:
    """title -> the fields of a preset. The problem's class declares the presets. Other fields take their defaults."""
    fields = page.fields(state)
    defaults = {name: choice.default for name, choice in fields.items() if name != "seed"}
    return {
        title: defaults | {name: value for name, value in values.items() if name in fields}
        for title, values in page.kernel_of(state).problem_type.presets().items()
    }


def preset_of(page: Page, state: State) -> Description | None:
    """The description of the choice of a preset. None for a problem with fewer than two presets."""
    found = presets(page, state)
    if len(found) < 2:
        return None
    first = next(iter(found.values()))

    def differences(values: State) -> str:
        changed = [f"{name} {write_value(value)}" for name, value in values.items() if value != first[name]]
        return ", ".join(changed) or "as it begins"

    matching = [title for title, values in found.items() if all(state[name] == v for name, v in values.items())]
    now = next(iter(matching), CUSTOM)
    options = [{"value": title, "label": title, "help": differences(values)} for title, values in found.items()]
    if now == CUSTOM:
        options.append({"value": CUSTOM, "label": "Your own"})
    entry: Description = {"name": "preset", "label": "Problem", "kind": "select", "value": now, "options": options}
    return entry | {"group": "preset", "help": "a problem worth looking at. Its fields are under More"}


# ---- all choices ----


def describe(page: Page, state: State, survey: Survey, own: Descriptions) -> list[Description]:
    """The description of every choice of a page, in the toolbar's order.

    own: the page's own parts of the descriptions."""
    fields = page.fields(state) if page.kernels else {}
    found: list[Description] = []
    for name, choice in page.choices(state).items():
        if name in map(kernel_name, page.sides):
            group = "kernel"
        elif name.startswith("at_") or name == "row":
            group = "place"
        else:
            members = {"what_if": ["what_if"], "run": ["backend"], "own": page.own, "problem": fields}
            group = next((group for group, names in members.items() if name in names), "build")
        entry = _entry(name, choice, state[name], group)
        entry |= _special(page, state, survey, name)
        for key, value in own.get(name, {}).items():  # a mapping holds options with their labels
            options = isinstance(value, Mapping)
            entry[key] = [option(text, label) for text, label in value.items()] if options else value
        if entry["label"] == name:
            entry["plain"] = plain(name)
        if not entry.pop("hidden", choice.late):
            found.append(entry)
    of_preset = own.get("preset", {})
    if page.kernels and not of_preset.get("hidden") and (preset := preset_of(page, state)):
        found.append({**preset, **of_preset})
    return sorted(found, key=lambda entry: GROUPS.index(entry["group"]))


def select(name: str, label: str, value: str, options: Mapping[str, str], group: str = "own") -> Description:
    """A choice without a Choice: its options come from recordings or from a run. options: value -> label."""
    entry: Description = {"name": name, "label": label, "kind": "select", "value": value}
    entry["options"] = [{"value": text, "label": said} for text, said in options.items()]
    return entry | {"group": group, "help": ""}


def _entry(name: str, choice: Choice, value: object, group: str) -> Description:
    entry: Description = {"name": name, "label": name, "value": write_value(value), "group": group}
    entry["help"] = choice.meaning
    if isinstance(choice.default, bool):
        return entry | {"kind": "toggle"}
    if isinstance(choice.default, tuple) or isinstance(choice.default, str) and choice.allowed is None:
        return entry | {"kind": "text"}
    if choice.allowed is not None:
        values = choice.allowed if value in choice.allowed else (*choice.allowed, value)  # by a link (Choice.also)
        alone = bool(choice.also) and len(values) == 1  # only a link gives another value
        return entry | {"kind": "select", "options": [option(allowed) for allowed in values], "hidden": alone}
    return entry | {"kind": "number", "low": choice.low, "high": choice.high, "whole": isinstance(choice.default, int)}


def _special(page: Page, state: State, survey: Survey, name: str) -> Description:
    if name == "backend":
        titles = {name: f"{TITLES[name]}: {device.name}" for name, device in survey.devices.items()}
        first = survey.pick("auto", bool(page.kernels) and page.kernel_of(state).plain).backend
        automatic = {"value": "auto", "label": f"Automatic: {titles[first]}"}
        usable = [{"value": name, "label": title} for name, title in titles.items()]
        missing = [{"value": name, "label": TITLES[name], "why": why} for name, why in survey.reasons.items()]
        return {"label": "Run on", "options": [automatic, *usable, *missing]}
    if name == "what_if":
        options = [{"value": NONE, "label": "As written"}]
        for constant in page.kernel_of(state).what_ifs:
            scale = constant.shows_at
            shows = f" It shows from score_scale {scale:g} on." if scale > 1 else ""
            effect = f"Broken on purpose: {constant.effect}{shows}"
            options.append({"value": constant.name, "label": constant.what_if, "help": effect})
        return {"label": "What if", "options": options}
    for side in page.sides if page.kernels else ():
        if name == kernel_name(side):
            kernels = page.kernels_of(side, state)
            return {"label": f"Kernel {side.upper()}".strip(), "options": kernel_options(kernels)}
    return {}


def option(value: object, label: str = "", why: str = "", help: str = "") -> Description:
    """An option of a list. why: the reason why it cannot be chosen."""
    entry: Description = {"value": write_value(value), "label": label or write_value(value)}
    return entry | {name: text for name, text in (("why", why), ("help", help)) if text}


def kernel_options(kernels: Mapping[str, KernelSpec]) -> list[Description]:
    return [option(name, f"{name} {kernel.title}", help=kernel.idea) for name, kernel in kernels.items()]
