"""The setting for users' kernels: who can reach the server decides, or --strangers with a jail that works."""

import pytest

from app.guards import hosts
from app.serve import parser
from kernels import catalog, jail
from kernels.errors import ProblemError
from kernels.jail import in_place, setting
from kernels.jail.setting import Setting


@pytest.mark.parametrize(
    ("listens_at", "names", "wish", "expected"),
    [
        ("127.0.0.1", "", "", Setting.LOCAL),
        ("localhost", "localhost", "local", Setting.LOCAL),
        ("127.0.0.1", "", "off", Setting.OFF),
        ("127.0.0.1", "class.example", "", Setting.OFF),  # a proxy brings others
        ("0.0.0.0", "", "", Setting.OFF),
        ("0.0.0.0", "", "local", Setting.OFF),  # a wish for danger
        ("", "", "", Setting.OFF),
        ("192.168.1.7", "", "", Setting.OFF),
    ],
)
def test_only_a_server_for_this_machine_takes_kernels_without_a_jail(listens_at, names, wish, expected):
    assert hosts.decide(listens_at, names, wish) is expected


def test_strangers_needs_a_jail_that_works(monkeypatch):
    monkeypatch.setattr(jail, "why_none", lambda: "")
    monkeypatch.setattr(in_place, "why_none", lambda: "")
    assert hosts.decide("0.0.0.0", "", "jail") is Setting.JAIL
    monkeypatch.setattr(in_place, "why_none", lambda: "the kernel has no Landlock")
    with pytest.raises(ProblemError, match="--strangers needs the jail. The kernel has no Landlock"):
        hosts.decide("0.0.0.0", "", "jail")
    with pytest.raises(ProblemError, match="is 'maybe'"):
        hosts.decide("0.0.0.0", "", "maybe")


def test_the_server_is_told_by_a_word_of_its_command_line():
    assert parser().parse_args(["--strangers"]).strangers and not parser().parse_args([]).strangers


@pytest.mark.parametrize(("word", "kernels", "families"), [("local", 1, 1), ("jail", 1, 0), ("off", 0, 0)])
def test_folders_of_users_follow_the_setting(monkeypatch, tmp_path, word, kernels, families):
    monkeypatch.setattr(catalog.families, "__path__", [*catalog.families.__path__, str(tmp_path)])
    monkeypatch.setenv(setting.VARIABLE, word)
    (tmp_path / "mine.cu").write_text((catalog.DEVICE.parent / "skeleton.cu").read_text())
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "__init__.py").write_text("PROBLEMS = {}\n")
    assert ("mine" in catalog.refreshed(None).kernels) == bool(kernels)
    assert ("odd" in catalog._family_names()) == bool(families)
    assert bool(setting.sentence()) == (word != "local")


def test_a_users_kernel_is_not_loaded_on_a_gpu_outside_the_jail(monkeypatch, tmp_path):
    from kernels.build import Mode, build
    from kernels.core.request import Request
    from kernels.run.backends import gpu

    (tmp_path / "mine.cu").write_text((catalog.DEVICE.parent / "skeleton.cu").read_text())
    monkeypatch.setenv(setting.VARIABLE, "jail")
    monkeypatch.setenv("WARPGLASS_CACHE", str(tmp_path / "cache"))
    spec = catalog.load_kernel(tmp_path / "mine.cu")
    problem = spec.problem_type(num_heads=1)
    request = Request(spec, problem, tuple(spec.settings_for(problem).items()))
    made = build(spec, request.defines, Mode.TIMED, "sm_90a")
    with pytest.raises(ProblemError, match="do not load it on a GPU"):
        gpu._ready(made, request.plan.launches[0])
