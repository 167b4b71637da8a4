"""What limits of any shape say about documents."""

from __future__ import annotations

import random

import pytest
from airflow_provider_assistant.loading.document_limits import DocumentLimits, document_limits, needs_usage
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_assistant.exceptions import AssistantInputError

NAMED = {
    "limits.documents": lambda limit, used: {"limits": {"documents": {"limit": limit, "used": used}}},
    "documents": lambda limit, used: {"documents_limit": limit, "documents_used": used},
    "data.plan.docs": lambda limit, used: {"data": {"plan": {"docs": {"allowed": limit, "usage": used}}}},
    "0": lambda limit, used: [{"type": "Documents", "quota": limit, "current": used}],
    "plan.docs": lambda limit, used: {"plan": {"docs": {"maximum": limit, "remaining": max(0, limit - used)}}},
    "documents_left": lambda limit, used: {"documents_left": max(0, limit - used)},
}


@pytest.mark.parametrize("field", NAMED)
def test_a_named_field_says_how_many_documents_are_left(field):
    rng = random.Random(field)
    for _ in range(5):
        limit, used = rng.randint(1, 10**6), rng.randint(0, 10**6)
        raw = NAMED[field](limit, used)
        assert document_limits(raw, field).left == max(0, limit - used)
        if field in {"limits.documents", "documents"}:
            assert document_limits(raw) == DocumentLimits(max(0, limit - used), limit, used)


def documents(**fields):
    return {"limits": {"documents": fields}}


@pytest.mark.parametrize("limit", [None, -1, "-1", 0, "0", "unlimited", "", float("inf"), -7.0, True, "a lot", 7.5])
def test_there_may_be_no_limit(limit):
    assert document_limits(documents(limit=limit, used=3)).left is None
    assert document_limits(documents(limit=limit, used=3, remaining=0)).left is None


@pytest.mark.parametrize(
    ("fields", "left"),
    [
        ({"limit": "9", "used": 2.0}, 7),
        ({"limit": 9, "used": None}, None),
        ({"limit": 9}, None),
        ({"remaining": 5}, 5),
        ({"remaining": "5", "limit": 9, "used": 3}, 5),
        ({"remaining": None, "limit": 9, "used": 3}, 6),
        ({"limit": 9, "used": "9" * 5000}, None),
    ],
)
def test_what_is_left_may_be_stated(fields, left):
    assert document_limits(documents(**fields)).left == left


@pytest.mark.parametrize("name", ["resets_at", "reset_at", "period"])
def test_a_limit_that_comes_back_is_a_rate_unless_the_user_names_it(name):
    assert document_limits(documents(limit=10, used=3, **{name: "2026-12-01"})).left is None
    assert document_limits(documents(limit=10, used=3, **{name: None})).left == 7
    assert document_limits(documents(limit=10, used=3, **{name: "2026-12-01"}), "limits.documents").left == 7


@pytest.mark.parametrize(
    "raw",
    [
        None,
        7,
        [],
        {"documents": 7},
        {"limits": {"sites": {"documents": {"limit": 10, "used": 3}}}},
        [{"documents": {"limit": 10, "used": 3}}],
        {"limits": {"messages": {"limit": 10, "used": 3}}},
    ],
)
def test_a_limit_of_something_else_is_not_understood(raw):
    assert document_limits(raw) == DocumentLimits()


LIMITS = {
    "nested": lambda name, limit: {"limits": {name: {"limit": limit}}},
    "plain": lambda name, limit: {"limits": {name: limit}},
    "beside": lambda name, limit: {f"{name}_limit": limit},
    "max": lambda name, limit: {"data": {"plan": {"quotas": {f"max_{name}": str(limit)}}}},
    "enveloped": lambda name, limit: {"tenant": {"limits": {name: {"max": limit, "used": None}}}},
}
USAGES = {
    "plain": lambda name, used: {name: used},
    "nested": lambda name, used: {"usage": {name: {"used": used, "limit": 1}}},
    "group": lambda name, used: {"data": {"usage": {name: str(used)}}},
    "beside": lambda name, used: {f"{name}_used": float(used)},
    "total": lambda name, used: {"data": {name: {"total": used}}},
    "count": lambda name, used: {"tenant": {"usage": {f"{name}_count": used}}},
}


@pytest.mark.parametrize("name", ["documents", "active_documents"])
@pytest.mark.parametrize(("limits", "usage"), list(zip([*LIMITS, "plain"], USAGES, strict=True)))
def test_the_used_amount_may_be_in_another_reply(name, limits, usage):
    rng = random.Random(f"{name} {limits} {usage}")
    for _ in range(5):
        limit, used = rng.randint(1, 10**6), rng.randint(0, 10**6)
        raw = LIMITS[limits](name, limit)
        assert needs_usage(raw)
        assert document_limits(raw) == DocumentLimits(None, limit, None, name)
        expected = DocumentLimits(max(0, limit - used), limit, used, name)
        assert document_limits(raw, usage=USAGES[usage](name, used)) == expected
        both = {**raw, **USAGES["group"](name, used)["data"]}
        assert document_limits(both) == expected
        assert not needs_usage(both)


@pytest.mark.parametrize(
    "usage", [None, [], 7, {}, {"docs": 5}, {"documents": None}, {"documents": "many"}, {"usage": {}}]
)
def test_a_usage_that_is_not_understood_leaves_the_room_unknown(usage):
    limits = document_limits({"limits": {"documents": 10}}, usage=usage)
    assert limits == DocumentLimits(None, 10, None)
    assert "may have 10 documents" in str(limits)


def test_the_limit_with_the_least_room_counts():
    rng = random.Random(5)
    for _ in range(50):
        amounts = {
            name: (rng.randint(1, 99), rng.randint(0, 99)) for name in ("reference_documents", "active_documents")
        }
        room = {name: max(0, limit - used) for name, (limit, used) in amounts.items()}
        raw = {"limits": {name: {"limit": limit, "used": used} for name, (limit, used) in amounts.items()}}
        limits = document_limits(raw)
        assert limits.left == min(room.values()) == room[limits.name]
        raw = {"limits": {name: limit for name, (limit, _) in amounts.items()}}
        usage = {"usage": {name: used for name, (_, used) in amounts.items()}}
        assert document_limits(raw, usage=usage) == limits
        assert limits.name.replace("_", " ") in str(limits)


@pytest.mark.parametrize("unlimited", [None, -1, "-1", 0, "unlimited"])
def test_one_of_several_limits_may_not_exist(unlimited):
    raw = {"limits": {"documents": unlimited, "active_documents": {"limit": unlimited}, "reference_documents": 9}}
    usage = {"documents": 5, "reference_documents": 7, "active_documents": 6}
    assert document_limits(raw, usage=usage) == DocumentLimits(2, 9, 7, "reference_documents")
    assert not needs_usage({"limits": {"documents": unlimited}})
    assert document_limits({"limits": {"documents": unlimited}}, usage=usage).left is None


def test_a_known_room_counts_although_another_is_not_known():
    raw = {"limits": {"documents": 9, "active_documents": {"remaining": 4}}}
    assert needs_usage(raw)
    assert document_limits(raw) == DocumentLimits(4, name="active_documents")
    assert document_limits(raw, usage={"documents": 7}).left == 2


def test_a_named_field_takes_its_used_amount_from_the_usage():
    raw = {"plan": {"pages": {"limit": 30}}}
    assert needs_usage(raw, "plan.pages")
    assert document_limits(raw, "plan.pages", {"usage": {"pages": 12}}).left == 18
    assert document_limits(raw, "plan.pages", {"usage": {"documents": 12}}).left is None
    with pytest.raises(AssistantInputError):
        needs_usage(raw, "plan.texts")


def test_a_usage_of_a_period_is_not_that_of_documents():
    raw = {"limits": {"documents": 10}}
    assert document_limits(raw, usage={"documents": {"used": 3, "resets_at": "2026-12-01"}}).left is None


WORDS = ["limits", "usage", "documents", "active_documents", "documents_limit", "limit", "used", "remaining"]
WORDS += ["max", "count", "file_bytes", "period"]
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


@settings(max_examples=30, deadline=None)
@given(REPLIES)
def test_no_reply_breaks_it(raw):
    found = document_limits(raw)
    for number in (found.left, found.limit, found.used):
        assert number is None or (type(number) is int and number >= 0)
    if found.left is not None and found.limit is not None:
        assert found.limit > 0
    assert needs_usage(raw) in {True, False}
