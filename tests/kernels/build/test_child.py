"""A compiler has limits, no secret, and ends with the process that started it."""

import ast
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from waiting import command_of, until

from app.web import making
from kernels.build import CPU, Mode, build, child, cpp, cpp_compiler
from kernels.catalog import KERNELS
from kernels.errors import BackendUnavailable, BuildError
from kernels.run import backends

ROOT = Path(__file__).parents[3]
LEVELS = [f"#define A{n} {','.join([f'A{n - 1}'] * 10)}" for n in range(1, 12)]
MACROS = "\n".join(["#define A0 1", *LEVELS, "int bomb[] = {A11};"])
TEMPLATES = """
template <int N, int M> struct F { static constexpr int v = F<N - 1, M>::v ^ F<N - 1, M + 1>::v; };
template <int M> struct F<0, M> { static constexpr int v = M; };
int bomb = F<850, 0>::v;
"""


def compiled(text, tmp_path):
    source = tmp_path / "it.cpp"
    source.write_text(text)
    return child.compile_with([*cpp_compiler(), "-std=c++17", "-c", str(source), "-o", os.devnull], {"LC_ALL": "C"})


def test_a_compiler_takes_no_more_memory_than_its_limit(monkeypatch, tmp_path):
    monkeypatch.setattr(child, "COMPILER_BYTES", 2**29)
    done = compiled('#include "/dev/zero"\n', tmp_path)
    assert done.returncode and child.exceeded(done.stderr)


def test_a_compiler_takes_no_more_time_than_its_limit(monkeypatch, tmp_path):
    monkeypatch.setattr(child, "COMPILER_SECONDS", 1)
    began = time.monotonic()
    done = compiled(TEMPLATES, tmp_path)
    assert done.returncode and child.exceeded(done.stderr) and time.monotonic() - began < 10


HANGING = """#!/bin/sh
for word in "$@"; do case "$word" in %s) sleep 1000 & wait;; esac; done
exec g++ "$@"
"""


@pytest.fixture
def hanging(monkeypatch, tmp_path):
    """hanging(words) -> a compiler in CXX that hangs at one of these words, a pattern of the shell."""
    kept = (cpp.cpp_compiler, cpp.version, cpp._takes, cpp._links_with)

    def make(words):
        script = tmp_path / "compiler"
        script.write_text(HANGING % words)
        script.chmod(0o700)
        monkeypatch.setenv("CXX", str(script))
        for one in kept:
            one.cache_clear()
        return script

    yield make
    for one in kept:
        one.cache_clear()


@pytest.mark.parametrize("word", ["--version", "-fsyntax-only", "-fuse-ld=gold"])
def test_a_compiler_that_does_not_answer_is_told_by_its_name(monkeypatch, hanging, word):
    monkeypatch.setattr(cpp, "PROBE_SECONDS", 0.3 if word == "--version" else 1.0)
    script = hanging(word)
    with pytest.raises(BackendUnavailable, match=rf"compiler {script} did not answer within .* s\. .* set CXX"):
        cpp.Toolchain()


def test_a_compiler_that_hangs_with_a_kernel_ends_with_its_task(hanging, variant):
    script = hanging("*.cpp")
    spec = variant("01_naive", "// S = ", "// no other build has this line. S = ")
    began = time.monotonic()
    with child.until(began + 2), pytest.raises(BackendUnavailable, match=rf"{script} did not answer .* set CXX"):
        build(spec, {"HEAD_DIM": 32}, Mode.TIMED, CPU)
    assert time.monotonic() - began < 10
    until(lambda: not [p for p in Path("/proc").glob("[0-9]*/cmdline") if str(script) in command_of(p.parent.name)])


def test_no_page_waits_for_an_answer_of_the_compiler(monkeypatch, hanging):
    """The key of a bundle, and the survey of the machine, take no process."""
    before = making._code.__wrapped__()
    hanging("*")
    monkeypatch.setattr(subprocess, "Popen", None)
    assert making._code.__wrapped__() != before  # the compiler is a part of the key
    assert backends.survey(["cpu"]).devices


def test_each_process_has_a_limit_of_time():
    """A call of subprocess.run has a timeout. These modules limit their own processes, or wait for our end."""
    limited = {"build/child.py", "build/folders.py", "jail/talk.py", "run/backends/alone/parent.py"}
    limited |= {"measure/ring_peers.py", "run/backends/jailed.py"}
    started = set()
    for path in [path for part in ("app", "explainers", "kernels") for path in (ROOT / part).rglob("*.py")]:
        for call in [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]:
            name = ast.unparse(call.func)
            if name in ("subprocess.run", "subprocess.check_output", "subprocess.call", "subprocess.check_call"):
                assert any(word.arg == "timeout" for word in call.keywords), f"{path} line {call.lineno}"
            if name == "subprocess.Popen":
                started.add(path.relative_to(ROOT / "kernels").as_posix())
    assert started == limited


def test_a_compiler_below_its_limit_has_its_own_words_and_gets_no_secret(tmp_path):
    assert compiled("int it;", tmp_path).returncode == 0
    done = compiled("int it = other;", tmp_path)
    assert done.returncode == 1 and "other" in done.stderr and not child.exceeded(done.stderr)
    given = {"PATH": "/bin", "LC_ALL": "C", "CUDA_HOME": "/cuda", "WARPGLASS_CACHE": "/c", "WARPGLASS_PASSWORD": "x"}
    given |= {"WARPGLASS_ROOM_SECRET": "x", "GITHUB_TOKEN": "x", "STREAMLIT_AUTH": "x"}
    given |= {"NVIDIA_API_KEY": "x", "TORCH_HUB_TOKEN": "x", "PYTHON_KEYRING_PASSWORD": "x", "CUDA_SECRET": "x"}
    given |= {"NVCC_APPEND_FLAGS": "-O3", "CUBLAS_WORKSPACE_CONFIG": ":8", "CUDNN_LOGLEVEL_DBG": "0", "MAX_JOBS": "2"}
    given |= {"CUTE_DSL_ARCH": "sm_90a", "FLASH_ATTENTION_FORCE_BUILD": "1", "CONDA_PREFIX": "/conda"}
    kept = {name: text for name, text in given.items() if text != "x"}
    assert child.environment(given) == {"OMP_WAIT_POLICY": "passive", **kept}
    given["OMP_WAIT_POLICY"] = "active"
    assert child.environment(given) == {"OMP_WAIT_POLICY": "active", **kept}


def test_a_kernel_that_grows_without_end_is_told_with_the_limit(monkeypatch, variant):
    monkeypatch.setattr(child, "COMPILER_BYTES", 2**30)
    spec = variant("01_naive", "// S = ", f"{MACROS}\n// S = ")
    with pytest.raises(BuildError, match=r"the compiler reached its limit \(1 GiB, 120 s\). Look for a macro"):
        build(spec, {"HEAD_DIM": 32}, Mode.TIMED, CPU)


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
def test_no_process_of_the_user_reads_the_server_whose_workers_and_figures_work(tmp_path):
    (tmp_path / "server.py").write_text(
        "import ctypes\nfrom app import main\nfrom app.classroom import routes\nfrom kernels.run import workers\n"
        "if __name__ == '__main__':\n    workers.ready()\n    found = routes.now([], 0)\n"
        "    print(ctypes.CDLL(None).prctl(3), found['web_bytes'] > 2**20, found['worker_bytes'] > 2**20)\n"
    )
    given = {**os.environ, "PYTHONPATH": str(ROOT), "WARPGLASS_CACHE": str(tmp_path)}
    command = [sys.executable, str(tmp_path / "server.py")]
    done = subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["0", "True", "True"], done.stderr


def test_a_compiler_ends_with_the_process_that_started_it(tmp_path):
    """As the server does that compiles the first kernel itself."""
    script = tmp_path / "compiler"
    script.write_text(
        f"#!/bin/sh\nsleep 1000 &\necho $$ $! > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pids\nwait\n"
    )
    script.chmod(0o700)
    code = f"from kernels.build import child; child.compile_with(['{script}'], {{}})"
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT) as process:
        until((tmp_path / "pids").exists)
        pids = (tmp_path / "pids").read_text().split()
        process.send_signal(signal.SIGKILL)
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


@pytest.mark.parametrize(("jailed", "limit"), [(False, "4 GiB, 120 s"), (True, "2 GiB, 30 s")])
def test_a_message_names_the_limit_of_its_compiler(monkeypatch, tmp_path, jailed, limit):
    late = subprocess.CompletedProcess([], 1, "", child.EXCEEDED[0])
    monkeypatch.setattr(cpp, "run", lambda *_: late)
    with child.compiling(jailed), pytest.raises(BuildError, match=limit):
        cpp.compiled(KERNELS["lab_roles"], ["g++"], tmp_path)


def test_a_compiler_that_says_nothing_is_named_with_the_remedy(monkeypatch, tmp_path):
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\nexit 1\n")
    silent.chmod(0o755)
    monkeypatch.setenv("CXX", str(silent))
    cpp.cpp_compiler.cache_clear()
    try:
        with pytest.raises(BackendUnavailable, match=r"silent ended with the code 1 and no message.* set CXX"):
            cpp.compiled(KERNELS["lab_roles"], [*cpp.cpp_compiler(), "-c"], tmp_path)
        assert cpp.Toolchain().version == f"{silent} without a version"
    finally:
        cpp.cpp_compiler.cache_clear()
