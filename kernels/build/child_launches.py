"""The launches in the device code of a kernel with written probes, name<<<...>>>(...): their check, and their C++."""

from collections.abc import Iterator

from kernels.build.plain.tokens import Token, line_of, tokens
from kernels.core.spec import KernelSpec
from kernels.errors import BuildError


def check(spec: KernelSpec) -> None:
    """Raises BuildError for a launch of a kernel that the opening comment does not list as a child."""
    listed = {name for text in spec.launch_texts for name in text.children}
    for file, text in spec.files:
        for called, _, _ in _launches(file, text):
            if called.text not in listed:
                raise BuildError(
                    f"{file} line {line_of(text, called.start)}: it launches {called.text}, and no launch of the "
                    f'opening comment has this child. Write children = ["{called.text}"] (kernels/launches.md).'
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
    found = tokens(text) if "<<<" in text else []
    for at, token in enumerate(found):
        if token.text == "<<<":
            last = next((other for other in found[at:] if other.text == ">>>"), None)
            if last is None or not at:
                raise BuildError(f"{file} line {line_of(text, token.start)}: <<< has no >>>. Close the launch.")
            yield found[at - 1], token, last
