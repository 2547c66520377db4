"""The course: stops in an order, each with one idea. A stop is a file of stops/, and no list names it."""

from app.course.check import Check, checks
from app.course.journey import Journey, Step, journey
from app.course.stop import ACTS, Gain, Link, Stop, StopError, read, stops

__all__ = [
    "ACTS",
    "Check",
    "Gain",
    "Journey",
    "Link",
    "Step",
    "Stop",
    "StopError",
    "checks",
    "journey",
    "read",
    "stops",
]
