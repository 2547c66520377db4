"""A chart as a picture of the stage."""

from collections.abc import Mapping, Sequence

import altair as alt

from explainers.story.stage import View


def chart_view(
    id: str, title: str, chart: alt.LayerChart, about: str, note: str, at: Sequence[float], colours: Mapping[str, str]
) -> View:
    """Returns the view of a chart from Inline.layered, with names at the ends of its lines.

    about: the chart in words, for readers who cannot see it.
    note: the text below the chart.
    at: the place of each step on the x axis.
    colours: name of a line -> colour, for the legend.
    """
    spec = chart.to_dict(validate=False)  # the tests validate it
    rows = [row for table in spec["datasets"].values() for row in table]
    longest_name = max((len(row["said"]) for row in rows if "beside" in row), default=0)
    meta = {
        "spec": spec,
        "alt": about,
        "note": note,
        "at": at,
        "room": longest_name,
        "ends": spec["usermeta"]["ends"],
        "legend": [[f"background:{colour}", name] for name, colour in colours.items()],
    }
    return View("chart", id, title, meta)
