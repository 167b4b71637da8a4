"""Records of replies of any shape: nothing is lost, and no address is left."""

from __future__ import annotations

import json
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_assistant.api.privacy import user_label
from airflow_provider_assistant.exceptions import AssistantResponseError
from airflow_provider_assistant.lake.flattening import json_text, with_digits
from airflow_provider_assistant.lake.records import (
    LIST_FIELDS,
    day_of_item,
    find_items,
    item_name,
    relative_keys,
    with_labels,
    without_items,
    written_day,
)
from tests.unit.lake.replies import JSON, SCALARS

NAMES = ("sessions", *LIST_FIELDS)
ITEMS = st.lists(st.dictionaries(st.text(max_size=3), SCALARS, max_size=3), max_size=4)
# Names that the search may also find are left out.
OTHER = st.dictionaries(st.sampled_from(["a", "b", "c"]), SCALARS, max_size=3)


@settings(max_examples=60, deadline=None)
@given(JSON)
def test_the_text_of_a_value_is_the_text_that_was_read(raw):
    text = json.dumps(raw)
    assert json_text(with_digits(text)) == text


@settings(max_examples=50, deadline=None)
@given(OTHER, ITEMS, st.sampled_from(NAMES), st.lists(st.sampled_from(["x", "y"]), max_size=3))
def test_the_list_and_the_rest_are_the_reply(other, items, name, path):
    reply = {**other, name: items}
    for envelope in path:
        reply = {**other, envelope: reply}
    found = find_items(reply, None, NAMES)
    assert found.path == (*reversed(path), name)
    assert [item for _, item in found.items] == items
    assert find_items(reply, ".".join(found.path), ()) == found
    rest = without_items(reply, found.path)
    inner = rest
    for envelope in found.path[:-1]:
        inner = inner[envelope]
    assert name not in inner
    inner[name] = items
    assert rest == reply


def test_the_best_name_wins_at_any_level():
    reply = {"items": [{"a": 1}], "data": {"page": {"sessions": [{"b": 2}]}}}
    assert find_items(reply, None, NAMES).path == ("data", "page", "sessions")
    assert find_items(reply, None, ("other", *LIST_FIELDS)).path == ("items",)


@pytest.mark.parametrize(
    "reply",
    [
        None,
        7,
        "text",
        [1],
        [{"a": 1}, 2],
        {"sessions": 3},
        {"sessions": [1, 2]},
        {"data": {"2026": {}}},
        {"other": [{}]},
    ],
)
def test_other_values_are_no_list_of_records(reply):
    assert find_items(reply, None, NAMES) is None


def test_any_name_will_do_if_it_is_asked_for():
    reply = {"numbers": [1], "none": [], "usage": {"2026-11-20": {"n": 1}, "2026-11-21": 5}}
    assert find_items(reply, None, NAMES) is None
    found = find_items(reply, None, NAMES, any_name=True)
    assert (found.path, found.items) == (("usage",), [("2026-11-20", {"n": 1}), ("2026-11-21", 5)])


@pytest.mark.parametrize("given_path", ["a", "a.b.c", "n", ""])
def test_a_given_path_must_lead_to_a_list(given_path):
    with pytest.raises(AssistantResponseError, match="no list at"):
        find_items({"a": {"b": 1}, "n": None}, given_path, NAMES)


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2026-11-21", date(2026, 11, 21)),
        ("2026-11-21T23:30:00-05:00", date(2026, 11, 21)),
        ("2026-11-21 00:00", date(2026, 11, 21)),
        ("2026-02-30", None),
        ("2026-11", None),
        ("20261121", None),
        ("2026-11-211", None),
        ("on 2026-11-21", None),
        (20261121, None),
        (None, None),
    ],
)
def test_a_day_is_the_one_that_is_written(text, day):
    assert written_day(text) == day
    assert day_of_item(None, {"date": None, "day": text}, None) == day
    assert day_of_item(None, {"at": {"when": text}, "date": "2020-01-01"}, "at.when") == day


def test_an_item_is_named_by_its_first_field_that_has_a_text_or_a_number():
    fields = ("session_id", "id")
    assert item_name({"id": 7, "session_id": None}, fields, 3) == "7"
    assert item_name({"id": {"a": 1}}, fields, 3) == "3"
    assert item_name(["id"], fields, 0) == "0"
    assert item_name({"id": ""}, fields, 3) == ""


def test_keys_of_lists_in_an_item_begin_in_the_item():
    keys = {"data.sessions": "id", "data.sessions.*.tags": "name", "data.sessions.*.a.*.b": "k", "tags": "other"}
    assert relative_keys(keys, ("data", "sessions")) == {"tags": "name", "a.*.b": "k"}
    assert relative_keys({"": "id", "*.tags": "name"}, ()) == {"tags": "name"}


@settings(max_examples=50, deadline=None)
@given(JSON)
def test_values_without_an_address_stay_as_they_are(raw):
    text = json.dumps(raw)
    if not any(mark in text for mark in ("@", "%", "\\uff20", "\\ufe6b")):
        value = with_digits(text)
        assert json_text(with_labels(value)) == text


def test_addresses_are_replaced_in_texts_and_names_at_any_depth():
    text = '{"a@b.example": [{"x": "to A@B.example, c@d.example"}], "n": 1.10}'
    shown = json_text(with_labels(with_digits(text)))
    one, two = user_label("a@b.example"), user_label("c@d.example")
    assert shown == f'{{"{one}": [{{"x": "to {one}, {two}"}}], "n": 1.10}}'
