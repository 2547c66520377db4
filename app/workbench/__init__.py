"""The workbench: a text from the page is kept as a draft, compiled, run and checked in the jail, with its messages.

drafts.py        the texts as files, and a catalogue with them, so that every page can show a draft
routes.py        POST /wg/workbench/check and /wg/workbench/versions
examine.py       a draft -> its messages with their lines, and whether the check accepts it. Runs in a worker
versions.py      two drafts -> the table of both. Runs in a worker
"""
