"""The host's calls from C++: the plans that they know, and their library."""

from kernels import catalog
from kernels.core.cases import cases_of
from kernels.run.backends import host_calls


def test_one_stream_and_a_graph_are_plain_and_the_library_has_each_function():
    names = {"launch_one_stream", "launch_graph", "launch_two_streams", "launch_copy_pinned", "launch_dependent"}
    names |= {"launch_grid_barrier", "launch_children", "launch_padded"}
    specs = [catalog.find(name) for name in sorted(names)]
    plans = {spec.name: spec.plan(cases_of(spec, "launch_cases").possible[0].problem) for spec in specs}
    plain = {name for name, plan in plans.items() if host_calls.plain(plan)}
    assert plain == {"launch_one_stream", "launch_graph", "launch_padded"}
    library = host_calls._library()
    assert all(hasattr(library, name) for name in ("launch_all", "launch_graph", "make_graph", "destroy_graph"))
