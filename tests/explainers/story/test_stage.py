"""The form in which a stage goes to the browser."""

import json
import math

import altair as alt
import numpy as np
import pandas as pd
import pytest

from explainers.story import encoding, stage
from explainers.story.questions import idea, options


def there_and_back(value):
    return encoding.decode(encoding.encode(value))


def test_frames_come_back_with_their_own_fields_and_an_equal_value_goes_once():
    frames = [
        {"tile": n // 50, "title": f"step {n}", "sentence": "A long sentence." * 9, "x": float("inf")}
        for n in range(100)
    ]
    frames[3] |= {"details": "only here", "lines": {"a.cu:3": 2}}
    made = stage.Stage("", frames, [stage.View("v", "v", "V", {"frames": frames}, {})])
    data, back = encoding.encode(made), there_and_back(made)
    assert back["frames"] == [{**frame, "x": "inf"} for frame in frames]
    assert back["views"][0]["meta"]["frames"] == back["frames"] and data.count(b"A long sentence.") == 9


def test_a_stage_comes_back_as_json_knows_it_and_its_columns_as_float32():
    columns = {"q": np.arange(6.0).reshape(2, 3), "none": np.zeros(0), "k": np.float16([1.5, np.nan, np.inf])}
    view = stage.View("matrices", "m", "Matrices", {"n": np.int64(3), "rect": (0, 1, 2, 3)}, columns, side=1)
    frames = [{"title": "one", "sentence": "It is.", "lines": {"a.cu:3": 2}}]
    back = there_and_back(stage.Stage("A headline", frames, [view], tone="good"))
    assert (back["headline"], back["tone"], back["step"]) == ("A headline", "good", 0)
    (shown,) = back["views"]
    assert shown["meta"] == {"n": 3, "rect": [0, 1, 2, 3], "frames": frames}  # of the stage, as it has none
    assert (shown["kind"], shown["side"]) == ("matrices", 1)
    assert shown["columns"]["q"].dtype == np.float32 and shown["columns"]["q"].tolist() == [0, 1, 2, 3, 4, 5]
    assert shown["columns"]["none"].size == 0
    assert np.array_equal(shown["columns"]["k"], [1.5, np.nan, np.inf], equal_nan=True)


def test_numbers_that_are_none_and_columns_at_any_depth_come_back_and_equal_stages_have_equal_bytes():
    back = there_and_back({"deep": [{"m": float("nan")}, (np.float32(-np.inf), math.inf, 1.5)]})
    assert back == {"deep": [{"m": "nan"}, ["-inf", "inf", 1.5]]}
    assert math.isnan(float(back["deep"][0]["m"])) and float(back["deep"][1][0]) == -math.inf
    value = {"a": [np.float32([1]), {"b": np.arange(3)}], "c": ({"d": np.float64([[7, 8]])},), 5: True, "e": None}
    back = there_and_back(value)
    assert [column.tolist() for column in (back["a"][0], back["a"][1]["b"], back["c"][0]["d"])] == [
        [1],
        [0, 1, 2],
        [7, 8],
    ]
    assert back["5"] is True and back["e"] is None

    def made():
        return stage.Stage("A", [{"sentence": "x", "b": 1}], [stage.View("k", "i", "t", {}, {"q": np.arange(3.0)})])

    assert encoding.encode(made()) == encoding.encode(made())
    frames = [{"title": "one", "lines": {"a.cu:3": 2}, "o": 1}]
    twice = stage.Stage("", frames, [stage.View("m", "m", "M", {"frames": frames})])
    back = there_and_back(twice)
    assert back["frames"] == frames and back["views"][0]["meta"]["frames"] == frames
    assert encoding.encode(twice).count(b"a.cu:3") == 1


def test_the_bytes_are_laid_out_as_the_browser_reads_them_and_a_chart_is_its_specification():
    data = encoding.encode({"texts": "é ü ∞", "x": np.float32([1, 2])})
    length = int.from_bytes(data[4:8], "little")
    assert data[:4] == b"WGST" and (8 + length) % 4 == 0 and len(data) == 8 + length + 8
    assert json.loads(data[8 : 8 + length])["x"] == {"$column": [0, 2]}
    assert np.frombuffer(data[8 + length :], "<f4").tolist() == [1, 2]
    with pytest.raises(ValueError, match="no stage"):
        encoding.decode(b"else" + data[4:])
    step = alt.param(name="step", value=1)
    made = alt.Chart(pd.DataFrame({"x": [1, 2]})).mark_rule().encode(x=alt.datum(alt.ExprRef("step"))).add_params(step)
    block = there_and_back([stage.chart(made, "alternative", "caption", "title")])[0]
    assert block["kind"] == "chart" and block["alt"] == "alternative"
    assert [param["name"] for param in block["spec"]["params"]] == ["step"] and block["spec"]["params"][0]["value"] == 1


def test_a_table_has_its_numbers_its_texts_and_an_empty_cell_where_nothing_is_known():
    x, n = pd.Series([1.5, None], dtype=object), pd.array([3, pd.NA], "Int64")
    frame = pd.DataFrame({"name": ["a", None], "x": x, "n": n, "best": [True, False]})
    block = there_and_back([stage.table(frame, "A caption", lit="best")])[0]
    assert block["columns"] == ["name", "x", "n"] and block["kinds"] == ["text", "number", "number"]
    assert block["rows"] == [["a", 1.5, 3], ["", "", ""]] and block["lit"] == [True, False]
    frame = pd.DataFrame({"m": np.float32([np.nan, np.inf]), "l": [2.5, float("nan")]})
    assert there_and_back([stage.table(frame)])[0]["rows"] == [["NaN", 2.5], ["inf", "NaN"]]
    assert there_and_back([stage.table(frame.convert_dtypes())])[0]["rows"] == [["", 2.5], ["inf", ""]]


# ---- questions ----


def test_a_question_has_a_reason_against_each_wrong_option_and_its_options_a_fixed_order():
    found = idea("why", "Why?", "Each byte is read once", {"It is small": "It has 64 rows.", "By luck": "No."}, "So.")
    assert found.options[found.answer] == "Each byte is read once" and found.kind == "options"
    reasons = {"Each byte is read once": "", "It is small": "It has 64 rows.", "By luck": "No."}
    assert dict(zip(found.options, found.reasons)) == reasons
    assert options("n", "?", "2", ["4", "1"], "So.", ["1", "2", "4"])[0].options == ["1", "2", "4"]
    shuffled = options("n", "?", "b", ["a", "c"], "So.")[0]
    assert shuffled.options == options("n", "?", "b", ["c", "a"], "So.")[0].options
    assert not options("n", "?", "b", ["b"], "So.")
