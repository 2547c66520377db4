"""The engines of the jail on this machine. Tests skip, with the reason, an engine that does not work here."""

import pytest

from kernels.jail import bubblewrap, jail, landlock


@pytest.fixture(params=[bubblewrap, landlock], ids=lambda engine: engine.NAME)
def engine(request, monkeypatch):
    reason = jail.fault(request.param)
    if reason:
        pytest.skip(f"{request.param.NAME}: {reason}")
    monkeypatch.setattr(jail, "engine", lambda: request.param)
    return request.param
