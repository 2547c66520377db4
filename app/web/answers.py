"""Keeps answers for a moment: a class opens one link a hundred times, and a waiting page repeats its question each
second. Answers depend neither on the page nor on the progress of jobs."""

import threading
import time
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from concurrent.futures import Future

from app.measured import measuring
from app.parts.story import Story
from app.web import asking
from app.web.asking import Asking
from kernels.catalog import current
from kernels.run.backends import Survey

SECONDS = 10.0  # for an answer, because recordings may change
MOST = 256  # answers. The oldest go first
MOST_CHARACTERS = 4096  # in the question of a kept answer

_kept: OrderedDict[Hashable, tuple[float, "Future[Asking]"]] = OrderedDict()
_lock = threading.Lock()


def ask(
    story: Story, params: Mapping[str, str], survey: Survey, change: tuple[str, str] | None, carried: bool, part: str
) -> Asking:
    """asking.ask. Callers must not change the result. For equal questions, one thread finds the answer."""
    if sum(map(len, (*params, *params.values(), *(change or ()), part))) > MOST_CHARACTERS:
        return asking.ask(story, params, survey, change, carried, part)
    question = (story.path, tuple(params.items()), change, carried, part)
    key = (*question, current(), _found(survey), measuring.progress().version)
    now = time.monotonic()
    with _lock:
        when, found = _kept.get(key, (0.0, None))
        own: Future[Asking] | None = None
        if not found or now - when > SECONDS:
            found = own = Future()
            _kept[key] = now, own
            _kept.move_to_end(key)
            while len(_kept) > MOST:
                _kept.popitem(last=False)
    if not own:
        return found.result()
    try:
        own.set_result(asking.ask(story, params, survey, change, carried, part))
    except BaseException as error:
        with _lock:
            _kept.pop(key, None)
        own.set_exception(error)
    return own.result()


def _found(survey: Survey) -> tuple[object, ...]:
    """The content of a survey: the id of an object that is gone may be another's."""
    return tuple(survey.devices.items()), tuple(survey.reasons.items()), survey.gpus


ask.cache_clear = _kept.clear  # type: ignore[attr-defined]  # for tests, as lru_cache has it
