"""A stranger's kernel on the CPU: compiled and run in the jail, with the results of our own, and without harm."""

import os
import resource
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from faulty import pages

from kernels import build, jail
from kernels.build import Mode, child, cpp
from kernels.catalog import current, load_kernel
from kernels.core.cases import sample
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import BuildError, RunError, RunTimeout
from kernels.jail import in_place, setting
from kernels.run import execute
from kernels.run.backends import calls, cpu, jailed
from kernels.run.workers import forks

pytestmark = pytest.mark.skipif(
    bool(jail.why_none() or in_place.why_none()), reason=jail.why_none() or in_place.why_none()
)


@pytest.fixture(autouse=True)
def strangers(monkeypatch):
    monkeypatch.setenv(setting.VARIABLE, setting.Setting.JAIL.value)


def request_of(spec):
    shown = sample(spec)
    plan = spec.plan(shown.problem, shown.settings)
    return Request(spec, shown.problem, shown.settings, Scope.everything(plan), "cpu")


@pytest.mark.parametrize("name", ["03_flash", "paged_v2"])
def test_a_strangers_copy_of_our_kernel_gives_our_results(name, tmp_path):
    ours = current().kernels[name]
    for file, text in ours.files:
        (tmp_path / file).write_text(text)
    theirs = load_kernel(tmp_path / f"{name}.cu")
    expected, found = execute.run(request_of(ours)), execute.run(request_of(theirs))
    assert found.max_abs_errors == expected.max_abs_errors
    assert found.trace.table.equals(expected.trace.table)
    for tensor, array in expected.arrays.items():
        assert array.tobytes() == found.arrays[tensor].tobytes(), tensor


def test_a_strangers_plain_kernel_runs_in_the_jail_too(monkeypatch):
    theirs = load_kernel(Path(__file__).parents[1] / "plain" / "tutorials" / "t01_static_shared.cu")
    found = execute.run(request_of(theirs))
    monkeypatch.setenv(setting.VARIABLE, "local")
    expected = execute.run(request_of(theirs))
    assert found.trace.table.equals(expected.trace.table) and found.faults == expected.faults == ()
    assert found.max_abs_errors == expected.max_abs_errors


ZEROS = """/*
title = "Zeros"
idea = "writes zeros"
changed = "nothing"
costs = "nothing"
limits = "wrong"
source = "the tests"
family = "paged"
problem = "ranges"
[[launches]]
entry = "zeros"
block = ["32"]
shared_bytes = "0"
item = "sequence"
grid = ["num_seqs * num_heads"]
args = ["k_scale", "v_scale", "o", "int32 num_kv_heads", "int32 head_dim"]
*/
#include "common.cuh"
extern "C" __global__ void zeros(float* k_scale_gmem, float* v_scale_gmem, unsigned short* O_gmem,
                                 int num_kv_heads, int head_dim PROBE_PARAM) {
  PROBE_BEGIN();
  if (threadIdx.x) return;
  for (int i = 0; i < num_kv_heads; ++i) k_scale_gmem[i] = v_scale_gmem[i] = 0.f;
  for (int i = 0; i < head_dim; ++i) O_gmem[blockIdx.x * head_dim + i] = 0;
}
"""


def test_a_kernel_cannot_write_the_inputs_of_its_own_truth_and_hears_their_name(tmp_path):
    (tmp_path / "zeros.cu").write_text(ZEROS)
    kernel = load_kernel(tmp_path / "zeros.cu")
    problem = sample(kernel).problem
    before = problem.truth()
    with pytest.raises(RunError, match="changed its input k_scale"):
        execute.run(Request(kernel, problem, {}, backend="cpu"))
    assert all(np.array_equal(true, before[name]) for name, true in problem.truth().items())
    text = (Path(__file__).parents[1] / "plain" / "tutorials" / "t01_static_shared.cu").read_text()
    (tmp_path / "changing.cu").write_text(
        text.replace("  if (row < seq_len)\n", "  ((float*)K)[0] = 7;\n  if (row < seq_len)\n")
    )
    with pytest.raises(RunError, match="changed its input k"):
        execute.run(request_of(load_kernel(tmp_path / "changing.cu")))


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("what", 9, "kind"),
        ("what", 6, "mark"),
        ("region", 200, "region"),
        ("offset", 2**40, "region"),
        ("offset", -4, "region"),
        ("place", 2**31, "line"),
        ("block", 2**20, "block"),
        ("thread", 2**15, "thread"),
    ],
)
def test_a_false_row_of_a_log_is_an_error_of_the_kernel(field, value, said):
    request = request_of(load_kernel(Path(__file__).parents[1] / "plain" / "tutorials" / "t01_static_shared.cu"))
    built, plan, probed, arrays = execute.probe_plain(request)
    assert built.jailed
    probed.logs[0].rows[field][np.flatnonzero(probed.logs[0].rows["what"] & 15 == 0)[0]] = value
    with pytest.raises(RunError, match=f"no row with that {said}"):
        execute.run_of_probe(request, built, plan, probed, arrays)


@pytest.fixture
def wrote(small_kernel):
    """wrote(condition, ..., above) -> 1 or 0 for each condition, as a stranger's kernel found it.

    Each run ends before the limit of its task, `seconds`.
    """

    def run(*conditions, above="", seconds=10):
        body = "".join(f"  O_gmem[{n}] = ({text}) ? 1.f : 0.f;\n" for n, text in enumerate(conditions))
        spec = small_kernel(body, above=above)
        request = request_of(spec)
        build.build(spec, request.defines, Mode.PROBED, "cpu")
        start = time.monotonic()
        try:
            found = cpu.limited(seconds, execute.run, request).arrays["o"].reshape(-1)
        finally:
            assert time.monotonic() - start < seconds
        return [int(number) for number in found[: len(conditions)]]

    return run


SYSTEM = "#include <cstdio>\n#include <cstdlib>\n#include <fstream>\n#include <signal.h>\n#include <sys/mman.h>\n"
SYSTEM += "#include <sys/socket.h>\n#include <sys/stat.h>\n#include <unistd.h>\n"


THREATS = [
    'fopen("/etc/passwd", "r") != nullptr',
    'fopen("/proc/self/environ", "r") != nullptr',
    'fopen("/proc/self/mem", "r+") != nullptr',
    'fopen("{mine}", "w") != nullptr',
    'fopen("/tmp/warpglass-mine", "w") != nullptr',
    'chmod("{other}", 0777) == 0',
    'unlink("{other}") == 0',
    'symlink("/etc/passwd", "{mine}") == 0',
    'system("id") == 0',
    'execl("/bin/true", "true", nullptr) != -1',
    'getenv("WARPGLASS_ROOM_SECRET") != nullptr',
    "fork() >= 0",
    "kill({pid}, SIGTERM) == 0",
    "setsid() != -1",
    "getpid() != -1",
    "raise(SIGSTOP) == 0",
    "socket(AF_INET, SOCK_STREAM, 0) >= 0",
    "socket(AF_UNIX, SOCK_STREAM, 0) >= 0",
    "malloc(1ull << 40) != nullptr",
    "mmap(nullptr, 3ull << 30, PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED",
]


def test_a_kernel_reaches_nothing_outside_the_jail(wrote, tmp_path, monkeypatch):
    monkeypatch.setenv("WARPGLASS_PASSWORD", "a-secret-word")
    other = tmp_path / "other"
    other.write_text("whole")
    other.chmod(0o600)
    words = {"{mine}": str(tmp_path / "mine"), "{other}": str(other), "{pid}": str(os.getpid())}
    threats = THREATS
    for word, text in words.items():
        threats = [threat.replace(word, text) for threat in threats]
    found = wrote(*threats, above=SYSTEM)
    assert not [threat for threat, succeeded in zip(threats, found) if succeeded]
    assert other.read_text() == "whole" and other.stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "mine").exists() and not Path("/tmp/warpglass-mine").exists()


PATHS = "open openat openat2 stat lstat newfstatat statx access faccessat faccessat2 readlink readlinkat statfs chdir"
PATHS += (
    " chroot truncate mkdir rmdir unlink getxattr lgetxattr listxattr execve name_to_handle_at open_tree swapon uselib"
)
ANSWERS = r"""
#include <cerrno>
#include <sys/syscall.h>
static long answer(long call, const char* path) {
  static char room[4096];
  const long first = syscall(call, path, room, 1, 0), one = first < 0 ? errno : 0;
  const long second = syscall(call, -100, path, room, 0), two = second < 0 ? errno : 0;
  const long third = syscall(call, -100, path, 0, 1, room), three = third < 0 ? errno : 0;  // statx
  return one << 20 | two << 10 | three;
}
static bool tells(long call) {
  const long nothing = answer(call, "/nonexistent");
  for (const char* path : {"/etc/passwd", "/etc/shadow", "/root", "/proc/self/exe", "/"})
    if (answer(call, path) != nothing) return true;
  return false;
}
"""


def test_the_memory_shared_with_the_jail_counts_in_its_workers_limit():
    before = resource.getrlimit(resource.RLIMIT_DATA)
    most = calls.data_bytes() + 2**28
    resource.setrlimit(resource.RLIMIT_DATA, (most, before[1]))
    try:
        held = jailed.Shared()
        held.zeros(2**27, np.uint8)
        assert resource.getrlimit(resource.RLIMIT_DATA)[0] == most - 2**27
        with pytest.raises(MemoryError, match="its jail needs 0.3 GiB for the arrays"):
            held.zeros(2**28 - 2**26, np.uint8)
        held.file.close()
        del held
        assert resource.getrlimit(resource.RLIMIT_DATA)[0] == most
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def test_no_call_tells_a_kernel_whether_a_file_exists(wrote):
    defined = [f"#ifdef SYS_{name}\n#define CALL_{name} SYS_{name}\n#else\n#define CALL_{name} -1\n#endif\n"
               for name in PATHS.split()]  # fmt: skip
    asked = [f"tells(CALL_{name})" for name in PATHS.split()]
    found = wrote(*asked, "syscall(SYS_getcwd, answer, 1) > 0", above=SYSTEM + ANSWERS + "".join(defined))
    assert not [name for name, told in zip([*PATHS.split(), "getcwd"], found) if told]


def test_no_page_of_a_kernels_process_holds_what_its_worker_holds(wrote, monkeypatch):
    """The texts and answers of an earlier stranger, and the words of the server, are in the worker only."""
    theirs, secret, own = (f"-{kind}-word" for kind in ("an-earlier-strangers", "a-secret", "its-own"))
    monkeypatch.setenv("WARPGLASS_PASSWORD", secret[1:])
    assert wrote("true", above=f'static const char* volatile theirs = "{theirs[1:]}";\n') == [1]
    found = []

    def looked(pipe, end, is_open):
        assert os.read(pipe, 1) == b"+" and os.read(pipe, 1) == b"w"  # it runs
        (pid,) = [n for n in forks.children(os.getpid()) if Path(f"/proc/{n}/cmdline").read_bytes() == b"kernel\0"]
        os.kill(pid, signal.SIGSTOP)
        found.extend(pages.holds(pid, word[1:].encode()) for word in (theirs, secret, own))
        os.kill(pid, signal.SIGKILL)
        return b"", False

    monkeypatch.setattr(jailed.in_place, "answer_of", looked)
    endless = '[] { for (int fd = 3; fd < 64; ++fd) write(fd, "w", 1); for (;;) sleep(1); return true; }()'
    with pytest.raises(RunError, match="ended its process"):
        wrote(endless, above=f'{SYSTEM}static const char* volatile own = "{own[1:]}";\n', seconds=100)
    assert found == [False, False, True]


@pytest.mark.parametrize(
    ("body", "error", "said"),
    [
        ("exit(0), true", RunError, r"it calls exit\(0\)"),
        ("abort(), true", RunError, r"it calls abort\(\)"),
        ("write(1, nullptr, 0), (_exit)(9), true", RunError, "ended its process in the jail"),
        ("[] { for (volatile int i = 0;; i = i + 1) {} return true; }()", RunTimeout, "stopped"),
        ("[] { for (;;) sleep(1); return true; }()", RunTimeout, "stopped"),
        ("[] { signal(SIGALRM, SIG_IGN); for (;;) sleep(1); return true; }()", RunTimeout, "past its limit"),
    ],
)
def test_a_kernel_that_ends_or_hangs_is_told_and_harms_nobody(wrote, body, error, said):
    with pytest.raises(error, match=said):
        wrote(body, above=SYSTEM, seconds=2)
    assert wrote("true") == [1]


def test_a_kernel_finds_no_python_and_no_descriptor_and_its_flood_of_lines_goes_nowhere(wrote, capfd):
    """Nor does code that runs while its library is loaded. What needs nothing succeeds."""
    above = f"""{SYSTEM}#include <dlfcn.h>
static bool got;
__attribute__((constructor)) void early() {{ got = fopen("/etc/passwd", "r"); }}
static int open_ones() {{ int n = 0; for (int fd = 3; fd < 1024; ++fd) n += write(fd, 0, 0) == 0; return n; }}
static bool flood() {{ for (int i = 0; i < 200000; ++i) puts("a line of a flood"); return true; }}
"""
    refused = ('dlsym(nullptr, "PyRun_SimpleString") != nullptr', "got", "open_ones() > 1")
    granted = ('dlsym(nullptr, "memcpy") != nullptr', "getuid() != -1", "flood()")
    assert wrote(*refused, *granted, above=above) == [0, 0, 0, 1, 1, 1]
    assert "flood" not in "".join(capfd.readouterr())


@pytest.mark.parametrize("then", ["return true;", "for (;;) {}"])
@pytest.mark.parametrize("answer", ["\\x80pickle\\0whole", "!no reason ofus"])
def test_what_it_answers_itself_is_an_error_or_its_own_result(wrote, then, answer):
    lie = f'for (int fd = 3; fd < 64; ++fd) write(fd, "{answer}", 13);'
    start = time.monotonic()
    with pytest.raises(RunError, match="wrote into the answer of its jail"):
        wrote("lies()", above=f"{SYSTEM}static bool lies() {{ {lie} {then} }}\n")
    assert time.monotonic() - start < 8  # of 10 s


def test_a_strangers_names_and_pragmas_change_no_other_kernel(wrote):
    ours = current().kernels["03_flash"]
    before = execute.run(request_of(ours)).arrays["o"].tobytes()
    above = '#pragma GCC optimize("fast-math")\n#pragma GCC poison flash\n' + SYSTEM
    above += 'extern "C" __attribute__((visibility("default"))) float expf(float) { return 7; }\n'
    above += 'extern "C" __attribute__((visibility("default"))) int launch_flash(void*, void*) { return 7; }\n'
    assert wrote("launch_flash(nullptr, nullptr) == 7", above=above) == [1]
    assert execute.run(request_of(ours)).arrays["o"].tobytes() == before


# ---- the compiler ----


@pytest.fixture
def compiled(small_kernel):
    """compiled(above, body) -> the message of the build, or "" if it went well."""

    def run(above, body="", **headers):
        spec = small_kernel(body, above=above, **headers)
        try:
            build.build(spec, request_of(spec).defines, Mode.TIMED, "cpu")
        except BuildError as error:
            return str(error)
        return ""

    return run


@pytest.mark.parametrize(
    "above",
    [
        'asm(".incbin \\"{secret}\\"");',
        '#pragma GCC dependency "{secret}"',
        '#line 1 "{secret}"\nint x = ;',
        '_Pragma("GCC dependency \\"{secret}\\"")',
    ],
)
def test_the_compiler_shows_no_line_of_a_file(compiled, above, tmp_path):
    secret = tmp_path.parent / "a-secret-file"
    secret.write_text("a-secret-word is not C\n")
    said = compiled(above.replace("{secret}", str(secret)))
    assert said and "a-secret-word" not in said


PATH = "constexpr char at(int i) { return i < int(sizeof __FILE__) ? __FILE__[i] : 0; }\ntemplate <char...> struct S;\n"
PATH += f"S<{', '.join(f'at({n})' for n in range(24))}> x;"


def test_a_text_learns_no_folder_of_the_server_and_a_build_has_a_limit(compiled):
    said = compiled(PATH)
    assert all(f"'{letter}'" in said for letter in "small.cu") and "'/'" not in said
    found = compiled("__attribute__((used)) static char big[8 << 20] = {1};")
    assert "its build has 8." in found and "smaller" in found


@pytest.mark.parametrize("engine", jail.jail.ENGINES, ids=[engine.NAME for engine in jail.jail.ENGINES])
def test_the_compiler_answers_alike_for_each_file_outside_of_its_jail(tmp_path, monkeypatch, engine):
    if reason := jail.jail.fault(engine):
        pytest.skip(reason)
    monkeypatch.setattr(jail.jail, "engine", lambda: engine)
    command = [*build.cpp_compiler(), "-fno-diagnostics-show-caret", str(tmp_path / "a.cpp"), "-o", "a"]
    said = set()
    for path in ("/etc/shadow", "/root", "/nonexistent"):
        (tmp_path / "a.cpp").write_text(f'#include "{path}"\n')
        with child.compiling(True):
            said.add(cpp.run(command, {"TMPDIR": str(tmp_path)}).stderr.replace(path, ""))
    assert len(said) == 1 and "the jail has no file of this name" in said.pop()


def test_the_tools_of_the_linker_read_a_strangers_code_in_the_jail(tmp_path, monkeypatch):
    def noted(command, **more):
        tools.append(Path(command[0]).name)
        return confine(command, **more)

    tools, confine = [], jail.confine
    monkeypatch.setattr(jail, "confine", noted)
    text = (Path(__file__).parents[1] / "plain" / "tutorials" / "t01_static_shared.cu").read_text()
    (tmp_path / "new.cu").write_text(f"{text}// {tmp_path}\n")
    spec = load_kernel(tmp_path / "new.cu")
    build.build(spec, request_of(spec).defines, Mode.PROBED, "cpu")
    assert tools.count("objcopy") == 1 and tools.count("readelf") == 2


@pytest.mark.parametrize(
    "above",
    [
        "\n".join(["#define A0 1+1+1+1", *(f"#define A{n} A{n - 1} A{n - 1} A{n - 1} A{n - 1}" for n in range(1, 16))])
        + "\nint x[] = {A15};",
        "template <int N> struct T { T<N + 1> next; };\nT<0> t;",
        "template <class A, int N> struct P { P<P<A, N>, N + 1> a; P<P<A, N + 1>, N + 2> b; };\nP<int, 0> p;",
        "constexpr int loop() { int n = 0; for (long i = 0; i < 1L << 40; ++i) n += i; return n; }\n"
        "constexpr int n = loop();",
    ],
    ids=["macros", "templates", "wide templates", "constexpr"],
)
def test_a_bomb_for_the_compiler_ends_at_a_limit(compiled, above):
    start = time.monotonic()
    assert compiled(above)
    assert time.monotonic() - start < 90
    assert not compiled("")


def test_a_good_kernel_has_the_product_of_the_same_compile_outside(compiled, small_kernel, monkeypatch):
    spec = small_kernel("  O_gmem[0] = 7;")
    defines = request_of(spec).defines
    jailed = build.build(spec, defines, Mode.PROBED, "cpu")
    assert jailed.jailed
    monkeypatch.setenv(setting.VARIABLE, "local")
    monkeypatch.setenv("WARPGLASS_CACHE", str(spec.path.parent / "cache"))
    own = build.build(spec, defines, Mode.PROBED, "cpu")
    assert not own.jailed and own.path != jailed.path
    assert np.array_equal(*(np.frombuffer(one.path.read_bytes(), np.uint8).size for one in (own, jailed)))
