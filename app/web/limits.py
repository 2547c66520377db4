"""Refuses a page that would take too long, before its first launch."""

from app.choices.estimates import SHARE, fits, requests_in, run
from app.parts.story import Story
from kernels.errors import TooLargeError
from kernels.run import workers


def check(story: Story, part: str, subject: object) -> float:
    """The estimated seconds of a stage (no part) or a tab. Raises TooLargeError, with the estimate and the remedy."""
    launched = run(requests_in(subject))
    if more := story.launches.get(part):
        launched += more(subject)
    seconds, limit = sum(each.seconds for each in launched), SHARE * workers.TIME_LIMIT
    if fits(launched):
        return seconds
    longest = max(launched, key=lambda each: each.seconds).request
    kernels = len({each.request.kernel.name for each in launched})
    of = f"{kernels} kernels" if kernels > 1 else longest.kernel.name
    raise TooLargeError(
        f"{story.title}{f' ({part})' if part else ''} launches {of} {sum(each.times for each in launched)} times at "
        f"{longest.problem.size}, which would take about {seconds:,.0f} s on the CPU (estimated); the limit is "
        f"{limit:g} s. {longest.problem.remedy[:-1]}, or a machine with a GPU."
    )
