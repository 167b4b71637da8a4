"""What the limits of a tenant say about documents, in any shape."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_assistant.api.limits import DocumentLimits, document_limits

SHAPES = {
    "of the embedded service": lambda limit, used: {"limits": {"documents": {"limit": limit, "used": used}}},
    "flat": lambda limit, used: {"documents_limit": limit, "documents_used": used},
    "flat, the other way round": lambda limit, used: {"max_documents": limit, "used_documents": used},
    "in camel case": lambda limit, used: {"maxDocuments": limit, "documentCount": used},
    "limits and usage": lambda limit, used: {"limits": {"documents": limit}, "usage": {"documents": used}},
    "a list": lambda limit, used: {"limits": [{"name": "documents", "max": limit, "current": used}]},
    "an envelope": lambda limit, used: {"data": {"plan": {"quotas": {"docs": {"allowed": limit, "usage": used}}}}},
    "a bare list": lambda limit, used: [{"type": "Documents", "quota": limit, "used": used}],
    "a count": lambda limit, used: {"documents": {"max_count": limit, "count": used}},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_any_shape_says_how_many_documents_are_left(shape):
    rng = random.Random(shape)
    for _ in range(20):
        limit, used = rng.randint(1, 10**6), rng.randint(0, 10**6)
        spelled = rng.choice([str, int, float, lambda number: f" {number} "])
        expected = DocumentLimits(max(0, limit - used), limit, used)
        assert document_limits(SHAPES[shape](spelled(limit), spelled(used))) == expected


def documents(**fields):
    return {"limits": {"documents": fields}}


@pytest.mark.parametrize("limit", [None, -1, "-1", 0, "0", "unlimited", "None", "", float("inf"), -7.0])
def test_there_may_be_no_limit(limit):
    assert document_limits(documents(limit=limit, used=3)).left is None
    assert document_limits(documents(limit=limit, used=3, remaining=0)).left is None


@pytest.mark.parametrize("limit", [True, "a lot", "1e3", 7.5, float("nan"), [], {}, [7], "9" * 5000, "\u0667"])
def test_a_limit_that_is_no_number_is_not_known(limit):
    assert document_limits(documents(limit=limit, used=3)).left is None


@pytest.mark.parametrize("used", [None, -1, "none", False, "many", float("nan"), float("inf")])
def test_without_the_used_amount_nothing_is_left_and_nothing_is_missing(used):
    assert document_limits(documents(limit=10, used=used)) == DocumentLimits(None, 10, None)
    assert document_limits(documents(limit=10)) == DocumentLimits(None, 10, None)


@pytest.mark.parametrize(
    ("fields", "left"),
    [
        ({"remaining": 5}, 5),
        ({"remaining": 0}, 0),
        ({"remaining": "5"}, 5),
        ({"left": 5, "limit": 10}, 5),
        ({"remaining_quota": 5}, 5),
        ({"remaining": None}, None),
        ({"remaining": -1}, None),
        ({"remaining": "unlimited", "limit": 10, "used": 3}, None),
        ({"remaining": None, "limit": 10, "used": 3}, 7),
        # The larger one: a load must not fail because a service counts in two ways.
        ({"available": 2, "limit": 10, "used": 3}, 7),
        ({"available": 9, "limit": 10, "used": 3}, 9),
    ],
)
def test_what_is_left_may_be_stated(fields, left):
    assert document_limits(documents(**fields)).left == left


@pytest.mark.parametrize(
    "raw",
    [
        None,
        7,
        "documents",
        [],
        {"documents": 7},
        {"documents": {"total": 7}},
        {"limits": {"documents_per_day": {"limit": 10, "used": 3}}},
        {"limits": {"sites": {"documents": {"limit": 10, "used": 3}}}},
        {"sites": [{"site_id": "a", "documents": {"limit": 10, "used": 3}}]},
        [{"documents": {"limit": 10, "used": 3}}],
        {"limits": {"documents": {"bytes": {"limit": 10, "used": 3}}}},
        {"limits": {"documents": {"size": {"limit": 10, "used": 3}}}},
        {"limits": {"messages": {"limit": 10, "used": 3}}},
        {"文": {"documents": {"limit": 10, "used": 3}}},
        {"": {"documents": {"limit": 10, "used": 3}}},
        {"documents": {"used_quota": 10, "usage_limit": 3}},
    ],
)
def test_a_limit_of_something_else_is_not_understood(raw):
    assert document_limits(raw) == DocumentLimits()


def test_a_limit_that_comes_back_is_a_rate():
    for name in ("resets_at", "period", "reset", "window"):
        assert document_limits(documents(limit=10, used=3, **{name: "2026-12-01"})).left is None
        assert document_limits(documents(limit=10, used=3, **{name: None})).left == 7
        assert document_limits({"plan": {name: "month"}, **documents(limit=10, used=3)}).left is None
        assert document_limits({"messages": {name: "month"}, **documents(limit=10, used=3)}).left == 7


def test_values_that_contradict_each_other_do_not_count():
    raw = {"plan": {"documents": {"limit": 20}}, **documents(limit=10, used=3)}
    assert document_limits(raw) == DocumentLimits(None, None, 3)
    raw = {"plan": {"documents": {"limit": "10"}}, **documents(limit=10.0, used=3)}
    assert document_limits(raw).left == 7


@pytest.mark.parametrize(
    ("limits", "file_bytes"),
    [
        ({"file_bytes": {"limit": 1000, "used": None}}, 1000),
        ({"max_file_size_bytes": 1000}, 1000),
        ({"upload": {"max_size_mb": 2}}, 2 * 2**20),
        ({"document_kb": {"max": "3"}}, 3 * 2**10),
        ({"max_file_size_bytes": None}, None),
        ({"max_file_size_bytes": 0}, None),
        # Without a unit, with the sum of all files, or of all files of a day.
        ({"max_file_size": 1000}, None),
        ({"file_bytes": {"limit": 1000, "used": 7}}, None),
        ({"documents": {"bytes": {"limit": 1000}}}, None),
        ({"file_bytes_per_day": {"limit": 1000}}, None),
        ({"max_file_bytes_mb": 1000}, None),
    ],
)
def test_the_size_of_a_file_needs_a_unit(limits, file_bytes):
    assert document_limits({"limits": limits}).file_bytes == file_bytes


WORDS = ["limits", "documents", "documents_limit", "limit", "used", "remaining", "max", "count", "file_bytes", "period"]
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4), st.integers(-2, 9).map(str)
)
REPLIES = st.recursive(
    VALUES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.sampled_from(WORDS), st.text(max_size=3)), inner, max_size=5),
    ),
    max_leaves=25,
)


@settings(max_examples=150, deadline=None)
@given(REPLIES)
def test_no_reply_breaks_it(raw):
    found = document_limits(raw)
    for number in (found.left, found.limit, found.used, found.file_bytes):
        assert number is None or (type(number) is int and number >= 0)
    if found.left is not None and found.limit is not None:
        assert found.limit > 0


def test_a_deep_reply_does_not_end_the_recursion():
    raw = documents(limit=10, used=3)
    for _ in range(90):
        raw = {"data": raw}
    assert document_limits(raw) == DocumentLimits()
