"""Sections of the stories that have several, one `show` each."""
