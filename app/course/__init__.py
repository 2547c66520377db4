"""The course: stops in an order, each with one idea. A stop is a file of stops/, and no list names it."""

from app.course.stop import SHELVES, Check, Gain, Link, Stop, StopError, checks, read, stops

__all__ = ["SHELVES", "Check", "Gain", "Link", "Stop", "StopError", "checks", "read", "stops"]
