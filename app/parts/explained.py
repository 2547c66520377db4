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


def story_of(
    explainer: base.Story[Request],
    path: str,
    title: str,
    look: str,
    order: int,
    page: Callable[[Catalog], Page],
    subject: Callable[[Page, State, str], Request],
    **more: Any,
) -> Story:
    """The story of an explainer whose subject is one Request, with the tabs of builds and data.

    path, title, look, order, page, subject, more: fields of Story.
    """

    def made_with_runs(part: base.Part[Request]) -> Tab:
        return lambda request: part(request, running)

    parts: dict[str, Tab] = {tab: made_with_runs(part) for tab, part in explainer.parts().items()}
    parts |= {tabs.BUILDS.id: tabs.builds, tabs.DATA.id: tabs.data} | more.pop("parts", {})
    return Story(
        path=path,
        title=title,
        look=look,
        order=order,
        page=page,
        subject=subject,
        make=lambda request: explainer.stage(request, running),
        parts=parts,
        **more,
    )
