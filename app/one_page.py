"""One moment as one file that steps without a server and asks for nothing: python -m app.one_page LINK FILE.html

A link is what the address bar has after the host, such as "tiling?kernel=KERNEL&step=3".
"""

import argparse
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl

from app.choices.estimates import requests_in
from app.choices.links import read_link
from app.parts.story import Story
from app.stories import STORIES
from app.web import asking, one_file
from explainers.stories.occupancy import story as occupancy
from explainers.stories.source import story as source
from explainers.story import encoding
from kernels.catalog import Catalog, current
from kernels.core.request import Request
from kernels.errors import ProblemError, WarpglassError
from kernels.run import workers


def of_link(link: str) -> str:
    """The HTML of a link. Runs its kernel if need be.

    Raises the WarpglassError of the run, and ProblemError for a link that leads to no page or has a wrong value."""
    path, _, query = link.lstrip("/").partition("?")
    story, params = _story(path), dict(parse_qsl(query))
    return _page(story, _subject(story, params), params)


def of_request(path: str, request: Request, params: Mapping[str, str]) -> str:
    """The HTML of a page that shows a request, of any kernel. Runs it as the page does.

    params: further parameters of the link.
    Raises as of_link, and ProblemError for a page that cannot show the request."""
    story, known, kernel = _story(path), current(), request.kernel
    if kernel.name not in known.kernels or known.kernels[kernel.name].files != kernel.files:
        known = replace(known, kernels={**known.kernels, kernel.name: kernel})
    page = story.page(known)
    texts = request.problem.texts() | {name: str(value) for name, value in request.constants.items()}
    chosen = asking.translated(page, {"kernel": kernel.name, "backend": request.backend, **texts})
    taken = page.choices(read_link(page, chosen)[0])
    own = {name: text for name, text in chosen.items() if name in taken or name == "kernel"}
    params = {**own, **params}
    subject = _subject(story, params, known)
    shown = requests_in(subject)
    if isinstance(subject, (occupancy.Build, source.Build)):
        shown = [Request(subject.kernel, subject.problem, subject.settings)]
    if request.identity not in [one.identity for one in shown if one.kernel.files == kernel.files]:
        raise ProblemError(f"{story.title} cannot show these values of the fields and constants. Try any_kernel.")
    return _page(story, subject, params)


def _story(path: str) -> Story:
    if path not in STORIES or path == "start":
        raise ProblemError(
            f"{path!r} is no page with a picture. The pages are {', '.join(sorted({*STORIES} - {'start'}))}."
        )
    return STORIES[path]


def _subject(story: Story, params: Mapping[str, str], known: Catalog | None = None) -> object:
    """What a story shows with these parameters. Raises ProblemError for a wrong one."""
    answer = asking.ask(story, params, workers.survey(), catalog=known)
    if why := answer.error or next(iter([*answer.refused.values(), *answer.told]), ""):
        raise ProblemError(why)
    return answer.subject


def _page(story: Story, subject: object, params: Mapping[str, str]) -> str:
    step = params.get("step", "1")
    if not step.isdigit() or not int(step):
        raise ProblemError(f"step is {step!r}. It must be a whole number from 1.")
    bundle = encoding.encode(story.make(subject))
    return one_file.page(bundle, story.title, int(step) - 1, params.get("picture", ""))


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m app.one_page", description="Writes one moment as one file.")
    parser.add_argument("link", help='what the address bar has after the host, such as "tiling?kernel=KERNEL&step=3"')
    parser.add_argument("file", type=Path)
    args = parser.parse_args(words)
    try:
        text = of_link(args.link)
        args.file.write_text(text)
    except ProblemError as error:
        print(error, file=sys.stderr)
        return 2
    except (WarpglassError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        workers.stop()
    print(f"{args.file}: {len(text.encode()) / 1e6:.2f} MB. Open it in a browser. It needs no network.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
