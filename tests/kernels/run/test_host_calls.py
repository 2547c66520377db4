"""The host's calls from C++: the plans that they know, and their library."""

from kernels import catalog
from kernels.core.cases import cases_of
from kernels.run.backends import gpu_launches


def test_one_stream_and_a_graph_are_plain_and_streams_copies_attributes_and_children_are_not():
    names = {"launch_one_stream", "launch_graph", "launch_two_streams", "launch_copy_pinned", "launch_dependent"}
    names |= {"launch_grid_barrier", "launch_children", "launch_padded"}
    specs = [catalog.find(name) for name in sorted(names)]
    plans = {spec.name: spec.plan(cases_of(spec, "launch_cases").possible[0].problem) for spec in specs}
    plain = {name for name, plan in plans.items() if gpu_launches.plain(plan)}
    assert plain == {"launch_one_stream", "launch_graph", "launch_padded"}


def test_the_library_compiles_and_has_each_function_that_python_calls():
    library = gpu_launches._library()
    assert all(hasattr(library, name) for name in ("launch_all", "launch_graph", "make_graph", "destroy_graph"))
