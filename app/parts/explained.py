"""Wires an explainer (explainers.story.base.Story) to a story of the app: its stage and its tabs, made with the app's
runs."""

from collections.abc import Callable
from typing import Any

from app.choices.page import Page, State
from app.parts import running, tabs
from app.parts.story import Story, Tab
from explainers.story import base
from kernels.catalog import Catalog
from kernels.core.request import Request


def request_of(subject: Any) -> Request:
    return subject if isinstance(subject, Request) else subject.request


def story_of(
    explainer: base.Story[Any],
    path: str,
    title: str,
    look: str,
    order: int,
    page: Callable[[Catalog], Page],
    subject: Callable[[Page, State, str], Any],
    request_tabs: bool = True,
    **more: Any,
) -> Story:
    """The story of an explainer.

    path, title, look, order, page, subject, more: fields of Story.
    request_tabs: whether it has the tabs of builds and data. Its subject then is a Request or has one."""

    def made_with_runs(part: base.Part[Any]) -> Tab:
        return lambda subject: part(subject, running)

    parts: dict[str, Tab] = {tab: made_with_runs(part) for tab, part in explainer.parts().items()}
    if request_tabs:
        parts[tabs.BUILDS.id] = lambda subject: tabs.builds(request_of(subject))
        parts[tabs.DATA.id] = lambda subject: tabs.data(request_of(subject))
    parts |= more.pop("parts", {})
    return Story(
        path=path,
        title=title,
        look=look,
        order=order,
        page=page,
        subject=subject,
        make=lambda subject: explainer.stage(subject, running),
        parts=parts,
        **more,
    )
