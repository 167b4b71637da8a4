"""Every leaf of any reply becomes one row."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given

from airflow_provider_assistant import lake
from airflow_provider_assistant.lake.flattening import with_digits
from airflow_provider_assistant.texts import storable
from tests.unit.lake.replies import JSON, leaves, sent_numbers


@given(JSON)
def test_every_leaf_survives_as_text(raw):
    metrics = list(lake.flatten(raw))
    found = [metric.text if metric.type == "string" else json.loads(metric.text) for metric in metrics]
    expected = [storable(leaf) if isinstance(leaf, str) else leaf for leaf in leaves(raw)]
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert type(one) is type(other)
        assert one == other


def test_every_number_keeps_its_text_and_has_a_value_if_a_double_can_hold_it():
    numbers = sent_numbers()
    sent = f"[{', '.join(numbers)}]"
    metrics = list(lake.flatten(with_digits(sent)))
    assert [metric.text for metric in metrics] == numbers
    assert {metric.type for metric in metrics} == {"number"}
    for metric, number in zip(metrics, numbers, strict=True):
        double = float(number)
        assert metric.value == (double if math.isfinite(double) else None)
    # The same numbers, sent as texts.
    texts = list(lake.flatten(numbers))
    assert [metric.value for metric in texts] == [metric.value for metric in metrics]
    assert [metric.text for metric in texts] == numbers
    assert {metric.type for metric in texts} == {"string"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 1",
        "1 ",
        "1_000",
        "007",
        "+1",
        ".5",
        "5.",
        "1,5",
        "0x1F",
        "nan",
        "inf",
        "Infinity",
        "1e",
        "12 %",
        "١٢",
        "1\n",
    ],
)
def test_other_texts_have_no_value(text):
    (metric,) = lake.flatten(text)
    assert metric.value is None


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"chats": {"total": 3}}, [("chats.total", 3.0, "3", "number")]),
        ({"rates": [0.5, {"p": 1}]}, [("rates.0", 0.5, "0.5", "number"), ("rates.1.p", 1.0, "1", "number")]),
        ({"grid": [[1], [2]]}, [("grid.0.0", 1.0, "1", "number"), ("grid.1.0", 2.0, "2", "number")]),
        ({"live": True}, [("live", None, "true", "boolean")]),
        ({"last": None}, [("last", None, "null", "null")]),
        ({"plan": "gründlich"}, [("plan", None, "gründlich", "string")]),
        ({"by_rating": {}}, [("by_rating", None, "{}", "object")]),
        ({"top": []}, [("top", None, "[]", "array")]),
        (None, [("$", None, "null", "null")]),
        ({}, [("$", None, "{}", "object")]),
        (7, [("$", 7.0, "7", "number")]),
        ([1], [("0", 1.0, "1", "number")]),
        ({"a.b": 1, "a": {"b": 2}}, [("a.b", 1.0, "1", "number"), ("a.b", 2.0, "2", "number")]),
    ],
)
def test_flatten(raw, expected):
    assert [tuple(metric) for metric in lake.flatten(raw)] == expected


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_json_has_no_word_for_is_null(number):
    assert list(lake.flatten({"rate": number})) == [("rate", None, "null", "null")]


def test_lists_may_be_nested_deeper_than_python_calls():
    raw = 1
    for _ in range(3000):
        raw = [raw]
    (metric,) = lake.flatten(raw)
    assert metric.metric == ".".join("0" * 3000)


# -- items that are named by a field --------------------------------------------------------------------


def paths(raw, **list_keys):
    return [
        metric.metric for metric in lake.flatten(raw, {name.replace("__", "."): key for name, key in list_keys.items()})
    ]


KINDS = {"documents": {"by_kind": [{"kind": "qa", "n": 1}, {"kind": "text", "n": 2}]}}


def test_items_named_by_a_field_have_the_same_path_at_any_position():
    named = [
        "documents.by_kind.qa.kind",
        "documents.by_kind.qa.n",
        "documents.by_kind.text.kind",
        "documents.by_kind.text.n",
    ]
    assert paths(KINDS, documents__by_kind="kind") == named
    turned = {"documents": {"by_kind": KINDS["documents"]["by_kind"][::-1]}}
    assert sorted(paths(turned, documents__by_kind="kind")) == sorted(named)


def test_other_lists_keep_positions():
    assert paths({"a": [{"kind": "x"}], "b": [{"kind": "x"}]}, a="kind") == ["a.x.kind", "b.0.kind"]


@pytest.mark.parametrize(
    ("name", "segment"), [("größe", "größe"), (7, "7"), (True, "true"), (1.5, "1.5"), ("a.b", "a.b"), ("", "")]
)
def test_an_item_may_be_named_by_any_scalar(name, segment):
    assert paths({"a": [{"id": name}]}, a="id") == [f"a.{segment}.id"]


@pytest.mark.parametrize("item", [{"n": 1}, {"id": None}, {"id": {"x": 1}}, {"id": [1]}, 5, None, [1]])
def test_an_item_without_a_name_keeps_its_position(item):
    found = paths({"a": [{"id": "first"}, item]}, a="id")
    assert found[0] == "a.first.id"
    assert all(path == "a.1" or path.startswith("a.1.") for path in found[1:])


@pytest.mark.parametrize(
    ("names", "segments"),
    [
        (["x", "x"], ["x", "x#2"]),
        (["x", "y", "x", "x", "y"], ["x", "y", "x#2", "x#3", "y#2"]),
        # The names that items really have stay as they are.
        (["x", "x", "x#2"], ["x", "x#3", "x#2"]),
        (["x#2", "x", "x", "x#2"], ["x#2", "x", "x#3", "x#2#2"]),
        # An item without a name is named by its position.
        (["1", None, "1"], ["1", "1#2", "1#3"]),
        ([1, "1", 1.0, True, "true"], ["1", "1#2", "1.0", "true", "true#2"]),
        (["", ""], ["", "#2"]),
    ],
)
def test_items_of_one_name_are_told_apart(names, segments):
    items = [{"id": name, "n": number} for number, name in enumerate(names)]
    found = [metric for metric in lake.flatten({"a": items}, {"a": "id"}) if metric.metric.endswith(".n")]
    assert [(metric.metric, metric.value) for metric in found] == [
        (f"a.{segment}.n", number) for number, segment in enumerate(segments)
    ]


def test_many_items_of_one_name_take_linear_time():
    names = lake.flatten([{"id": "x"}] * 50_000, {"": "id"})
    assert len({metric.metric for metric in names}) == 50_000


def test_a_star_stands_for_the_items_of_a_list_further_up():
    raw = {
        "regions": [{"name": "eu", "channels": [{"id": "web", "n": 1}]}, {"name": "us", "channels": [{"id": "app"}]}]
    }
    keys = {"regions": "name", "regions.*.channels": "id"}
    assert [metric.metric for metric in lake.flatten(raw, keys)] == [
        "regions.eu.name", "regions.eu.channels.web.id", "regions.eu.channels.web.n",
        "regions.us.name", "regions.us.channels.app.id",
    ]  # fmt: skip


def test_the_reply_itself_may_be_the_list():
    assert [metric.metric for metric in lake.flatten([{"id": "x"}], {"": "id"})] == ["x.id"]


@given(JSON)
def test_list_keys_lose_no_leaf(raw):
    keyed = lake.flatten(raw, {"": "a", "*": "a", "a": "a"})
    assert [metric[1:] for metric in keyed] == [metric[1:] for metric in lake.flatten(raw)]
