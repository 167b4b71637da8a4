"""Every value of any reply becomes one row, with all its digits."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given

from airflow_provider_assistant.lake.datasets import DATASETS, LIMITS, STATISTICS
from airflow_provider_assistant.lake.rows import reply_table, rows_table, values_of, with_digits
from airflow_provider_assistant.texts import storable
from tests.unit.lake.nights import origin
from tests.unit.lake.replies import JSON, leaves, sent_numbers

ORIGIN = origin()


def values(raw, **list_keys):
    keys = {name.replace("__", "."): key for name, key in list_keys.items()}
    return list(values_of(with_digits(json.dumps(raw)), keys))


def paths(raw, **list_keys):
    return [value.metric for value in values(raw, **list_keys)]


@pytest.mark.promise("lake and warehouse", "Every value of a reply is a row of its dataset, whatever the reply has.")
@given(JSON)
def test_any_reply_fits_the_schema_and_loses_nothing(raw):
    found = [value.text if value.type == "string" else json.loads(value.text) for value in values(raw)]
    expected = [storable(leaf) if isinstance(leaf, str) else leaf for leaf in leaves(raw)]
    assert [(type(one), one) for one in found] == [(type(one), one) for one in expected]
    for dataset in (STATISTICS, LIMITS):
        table = reply_table(dataset, json.dumps(raw), ORIGIN)
        assert table.schema == dataset.schema()
        assert table.num_rows == len(expected)
        assert table["metric"].to_pylist() == sorted(table["metric"].to_pylist())


@pytest.mark.promise("lake and warehouse", "Every number of a reply is exported with all its digits.")
def test_every_number_keeps_its_text_and_has_a_value_if_a_double_can_hold_it():
    numbers = sent_numbers()
    for sent, kind in ((f"[{', '.join(numbers)}]", "number"), (json.dumps(numbers), "string")):
        found = list(values_of(with_digits(sent)))
        assert [value.text for value in found] == numbers
        assert {value.type for value in found} == {kind}
        for value, number in zip(found, numbers, strict=True):
            assert value.value == (float(number) if math.isfinite(float(number)) else None)


@pytest.mark.parametrize("text", ["", " 1", "1 ", "1_000", "007", "+1", ".5", "5.", "1,5", "0x1F", "nan", "1e", "١٢"])
def test_other_texts_have_no_value(text):
    (value,) = values(text)
    assert value.value is None


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"chats": {"total": 3}}, [("chats.total", 3.0, "3", "number")]),
        ({"rates": [0.5, {"p": 1}]}, [("rates.0", 0.5, "0.5", "number"), ("rates.1.p", 1.0, "1", "number")]),
        ({"grid": [[1], [2]]}, [("grid.0.0", 1.0, "1", "number"), ("grid.1.0", 2.0, "2", "number")]),
        ({"live": True}, [("live", None, "true", "boolean")]),
        ({"last": None}, [("last", None, "null", "null")]),
        ({"by_rating": {}}, [("by_rating", None, "{}", "object")]),
        ({"top": []}, [("top", None, "[]", "array")]),
        (None, [("$", None, "null", "null")]),
        (7, [("$", 7.0, "7", "number")]),
        ({"a.b": 1, "a": {"b": 2}}, [("a.b", 1.0, "1", "number"), ("a.b", 2.0, "2", "number")]),
    ],
)
def test_values(raw, expected):
    assert [tuple(value) for value in values(raw)] == expected


@pytest.mark.parametrize(
    ("raw", "period"),
    [
        ('{"period": "2026-11"}', "2026-11"),
        ('{"period": {"days": 1.50}}', '{"days": 1.50}'),
        ('{"period": 30}', "30"),
        ('{"period": null}', None),
        ('{"inner": {"period": "x"}}', None),
        (None, None),
    ],
)
def test_period(raw, period):
    assert set(reply_table(STATISTICS, raw, ORIGIN)["period"].to_pylist()) == {period}


# -- items that are named by a field ---------------------------------------------------------------


def test_items_named_by_a_field_have_the_same_path_at_any_position():
    items = [{"kind": "qa", "n": 1}, {"kind": "text", "n": 2}]
    named = ["a.b.qa.kind", "a.b.qa.n", "a.b.text.kind", "a.b.text.n"]
    assert paths({"a": {"b": items}}, a__b="kind") == named
    assert sorted(paths({"a": {"b": items[::-1]}}, a__b="kind")) == named
    assert paths({"a": items[:1], "b": items[:1]}, a="kind") == ["a.qa.kind", "a.qa.n", "b.0.kind", "b.0.n"]


@pytest.mark.parametrize(
    ("names", "segments"),
    [
        (["größe", 7, True, 1.5, "a.b", ""], ["größe", "7", "true", "1.5", "a.b", ""]),
        (["x", "y", "x", "x", "y"], ["x", "y", "x#2", "x#3", "y#2"]),
        (["x#2", "x", "x", "x#2"], ["x#2", "x", "x#3", "x#2#2"]),
        # An item without a name is named by its position.
        (["1", None, "1"], ["1", "1#2", "1#3"]),
        (["a", {"x": 1}, [1]], ["a", "1", "2"]),
    ],
)
def test_the_names_of_items_are_all_different(names, segments):
    items = [{"id": name, "n": number} for number, name in enumerate(names)]
    found = [path for path in paths({"a": items}, a="id") if path.endswith(".n")]
    assert found == [f"a.{segment}.n" for segment in segments]


def test_many_items_of_one_name_take_linear_time():
    assert len({value.metric for value in values_of([{"id": "x"}] * 50_000, {"": "id"})}) == 50_000


def test_a_star_stands_for_the_items_of_a_list_further_up():
    raw = {
        "regions": [{"name": "eu", "channels": [{"id": "web", "n": 1}]}, {"name": "us", "channels": [{"id": "app"}]}]
    }
    assert paths(raw, regions="name", **{"regions.*.channels": "id"}) == [
        "regions.eu.name",
        "regions.eu.channels.web.id",
        "regions.eu.channels.web.n",
        "regions.us.name",
        "regions.us.channels.app.id",
    ]


@given(JSON)
def test_list_keys_lose_no_value(raw):
    keyed = values_of(raw if isinstance(raw, str) else with_digits(json.dumps(raw)), {"": "a", "*": "a", "a": "a"})
    assert sorted(map(repr, (value[1:] for value in keyed))) == sorted(repr(value[1:]) for value in values(raw))


# -- datasets --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dataset", DATASETS.values(), ids=DATASETS)
def test_every_dataset_describes_its_columns_and_says_its_site(dataset):
    names = dataset.schema().names
    assert rows_table(dataset, []).schema == dataset.schema()
    assert list(dataset.descriptions()) == names
    assert all(dataset.descriptions().values())
    assert {"service", "site_id"} <= set(names)
    assert set(dataset.personal()) <= set(names)


def test_a_broken_surrogate_does_not_stop_an_export():
    sent = r'{"said \ud800": "half a pair \udc00", "period": "\ud800"}'
    assert reply_table(STATISTICS, sent, {**ORIGIN, "site_id": "a\udc00"}).num_rows == 2
