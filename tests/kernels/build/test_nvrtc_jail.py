"""NVRTC compiles a stranger's text only in the jail: no line of a file, no answer about a file, and an end."""

from dataclasses import replace
from pathlib import Path

import pytest

from kernels.build import Mode, build, nvrtc
from kernels.build.nvrtc import Program
from kernels.catalog import DEVICE, load_kernel
from kernels.core.cases import sample
from kernels.core.request import Request
from kernels.errors import BuildError
from kernels.jail import Limits, in_place, setting

pytestmark = pytest.mark.skipif(bool(in_place.why_none()), reason=in_place.why_none())
HERE = Path(__file__).parents[1]
FORMS = [
    '#include "{secret}"',
    "#include <{secret}>",
    '%:include "{secret}"',
    '#inc\\\nlude "{secret}"',
    '#define NAME "{secret}"\n#include NAME',
    '#include "../../../../../../../../..{secret}"',
    'asm(".incbin \\"{secret}\\"");',
    '__global__ void f() { asm volatile(".incbin \\"{secret}\\";"); }',
    '#embed "{secret}"',
    '#if __has_include("{secret}")\n#error found\n#endif',
]


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret"
    path.write_text("a-secret-word is not C\n")
    return path


def asked(text):
    options = tuple(nvrtc.Toolchain("sm_90a").options)
    return Program("mine.cu", text + "\n__global__ void kernel(float* o) { o[0] = 1; }\n", (), options, ())


def test_outside_the_jail_nvrtc_shows_a_line_of_a_file_and_answers_about_it(secret):
    module = nvrtc.Toolchain("sm_90a").nvrtc
    read, found = (nvrtc.compiled(module, asked(FORMS[n].replace("{secret}", str(secret)))) for n in (0, -1))
    assert "a-secret-word" in read.log and "#error" in found.log


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("path", ["/etc/passwd", ""])
def test_in_the_jail_nvrtc_reads_no_file(secret, form, path):
    module = nvrtc.Toolchain("sm_90a").nvrtc
    made = nvrtc.compiled_in_jail(module, asked(form.replace("{secret}", path or str(secret))))
    assert "root:" not in made.log and "a-secret-word" not in made.log and "#error" not in made.log
    assert b"a-secret-word" not in made.cubin + made.ptx and b"root:" not in made.cubin + made.ptx


@pytest.mark.parametrize(
    ("name", "bomb"),
    [
        ("macro", "#define A0 1\n" + "".join(f"#define A{n} A{n - 1}+A{n - 1}+A{n - 1}\n" for n in range(1, 16))),
        (
            "template",
            "template <int D, int P> struct T { T<D - 1, 2 * P> a; T<D - 1, 2 * P + 1> b; };\n"
            "template <int P> struct T<0, P> {};",
        ),
    ],
    ids=["macro", "template"],
)
def test_a_bomb_for_nvrtc_ends_at_a_limit(monkeypatch, name, bomb):
    end = {"macro": "\nint x[] = {A15};", "template": "\nT<28, 0> t;"}[name]
    module = nvrtc.Toolchain("sm_90a").nvrtc
    with monkeypatch.context() as limited, pytest.raises(BuildError, match="its limit of 1 s in the jail"):
        limited.setattr(nvrtc, "LIMITS", Limits(seconds=1, memory_bytes=2**32))
        nvrtc.compiled_in_jail(module, asked(bomb + end))
    assert nvrtc.compiled_in_jail(module, asked("")).cubin


@pytest.fixture
def spec(tmp_path, monkeypatch):
    monkeypatch.setenv(setting.VARIABLE, "jail")
    monkeypatch.setenv("WARPGLASS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "mine.cu").write_text((DEVICE.parent / "skeleton.cu").read_text())
    return load_kernel(tmp_path / "mine.cu")


def defines(spec):
    shown = sample(spec)
    return Request(spec, shown.problem, tuple(spec.settings(shown.settings).items())).defines


def test_a_strangers_kernel_is_compiled_for_a_gpu_in_the_jail(spec, secret, monkeypatch):
    made = build(spec, defines(spec), Mode.TIMED, "sm_90a")
    assert made.jailed and made.facts[0].registers > 0 and b"ELF" in made.path.read_bytes()[:4]
    (name, text), *rest = spec.files
    reading = replace(spec, files=((name, f'#include "{secret}"\n{text}'), *rest))
    with pytest.raises(BuildError) as refused:
        build(reading, defines(spec), Mode.TIMED, "sm_90a")
    assert "a-secret-word" not in str(refused.value)
    monkeypatch.setenv(setting.VARIABLE, "local")
    monkeypatch.setenv("WARPGLASS_CACHE", str(spec.path.parent / "own"))
    own = build(spec, defines(spec), Mode.TIMED, "sm_90a")
    texts = [one.ptx_path.read_text().replace(f"{Path.cwd()}/", "") for one in (own, made)]
    assert not own.jailed and texts[0] == texts[1] and own.facts == made.facts  # in the jail NVRTC sees no folder


def test_a_strangers_plain_kernel_reads_cudas_headers_in_the_jail(tmp_path, monkeypatch):
    monkeypatch.setenv(setting.VARIABLE, "jail")
    monkeypatch.setenv("WARPGLASS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "mine.cu").write_text((HERE / "plain" / "tutorials" / "t06_half2.cu").read_text())
    spec = load_kernel(tmp_path / "mine.cu")
    assert build(spec, defines(spec), Mode.TIMED, "sm_90a").jailed


def test_an_answer_that_is_no_answer_is_refused(monkeypatch):
    heads = [b"[]", b'["a",["b"],0]', b'["a",[],-1]', b'["a",[],9]', b'["a",{},0]', b'["a","",0]', b"[1,[],0]"]
    heads += [b'["\\ud800",[],0]', b"[" * 10**5]
    whole = [len(head).to_bytes(4, "little") + head for head in heads]
    for answer in (b"", b"\xff\xff\xff\xffx", *whole):
        monkeypatch.setattr(in_place, "call", lambda *of, answer=answer: answer)
        with pytest.raises(BuildError, match="cannot be read"):
            nvrtc.compiled_in_jail(nvrtc.Toolchain("sm_90a").nvrtc, asked(""))
