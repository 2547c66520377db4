"""What the pages ask: derived from the fields of a problem and the constants of a kernel. Values are in the link, and
the browser holds them; nothing here draws, and nothing is kept."""

from app.choices.asked import NONE, Asked, State
from app.choices.choice import Choice

__all__ = ["NONE", "Asked", "Choice", "State"]
