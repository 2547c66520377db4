"""The choices of every page: derived from the fields of a problem and the constants of a kernel, kept, and written into
the link."""

from app.choices.asked import NONE
from app.choices.choice import Choice
from app.choices.link import show_ignored
from app.choices.page import Page

__all__ = ["NONE", "Choice", "Page", "show_ignored"]
