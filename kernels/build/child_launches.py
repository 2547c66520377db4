"""The launches in the device code of a kernel with written probes, name<<<...>>>(...): their check, and their C++."""

from collections.abc import Iterator

from kernels.build.plain.tokens import Token, functions, line_of, macros, tokens
from kernels.core.sources import function_of
from kernels.core.spec import KernelSpec
from kernels.errors import BuildError


def check(spec: KernelSpec) -> None:
    """Raises BuildError for a launch of a kernel that the opening comment does not list as a child, and for a launch
    outside of the parent's body."""
    parents = {name: function_of(text.entry) for text in spec.launch_texts for name in text.children}
    for file, text in spec.files:
        for called, _, _ in _launches(file, text):
            name, place = called.text, f"{file} line {line_of(text, called.start)}"
            if name not in parents:
                raise BuildError(
                    f"{place}: it launches {name}, and no launch of the opening comment has this child. "
                    f'Write children = ["{name}"] (kernels/launches.md).'
                )
            found = tokens(text)
            bodies = [one for one in functions(text, found) if one.is_kernel and one.name == parents[name]]
            if not any(found[one.body].start < called.start < found[one.last].start for one in bodies):
                raise BuildError(
                    f"{place}: it launches {name} outside of the body of {parents[name]}, its parent. Move the launch "
                    "there."
                )


def cpu_text(file: str, text: str) -> str:
    """The text with calls of simt/children.h in place of the launches. No line moves."""
    for called, first, last in reversed([*_launches(file, text)]):
        name = called.text
        config = text[first.end : last.start]
        text = f'{text[: called.start]}simt::child("{name}", {name}, {config}){text[last.end :]}'
    return text


def _launches(file: str, text: str) -> Iterator[tuple[Token, Token, Token]]:
    """The name, <<< and >>> of each launch."""
    if "<<<" not in text:
        return
    for macro in macros(text):
        for token in macro:
            if token.text == "<<<":
                line = line_of(text, token.start)
                raise BuildError(f"{file} line {line}: a macro launches a kernel. Write the launch without a macro.")
    found = tokens(text)
    for at, token in enumerate(found):
        if token.text == "<<<":
            last = next((other for other in found[at:] if other.text == ">>>"), None)
            if last is None or not at:
                raise BuildError(f"{file} line {line_of(text, token.start)}: <<< has no >>>. Close the launch.")
            yield found[at - 1], token, last
