"""Links to Launches: a problem or a kernel that it cannot show is reported and replaced."""

from app.stories import STORIES
from app.web import asking
from kernels.run import workers


def test_a_problem_or_a_kernel_that_the_page_cannot_show_is_reported():
    told = asking.ask(
        STORIES["launches"], {"kernel": "launch_graph", "size": "9", "against": "launch_graph"}, workers.survey()
    )
    assert told.told == [
        "size is 9. Here it can be 0 to 1.",
        "against is 'launch_graph'. It must be another kernel with the problem of launch_graph.",
    ]
    assert told.link["size"] == "1" and told.link["against"] == "before" and len(told.subject.requests) == 2
