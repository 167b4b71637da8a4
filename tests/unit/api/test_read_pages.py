"""Whether a reply has a next page."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from airflow_provider_assistant.api.call import CallInfo
from airflow_provider_assistant.api.read_pages import next_query, unread_items
from airflow_provider_assistant.api.replies import ApiReply
from tests.unit.lake.replies import JSON

PARAMS = {"status": "open"}


def reply(raw, link=None):
    return ApiReply(raw, CallInfo(200, link=link))


@pytest.mark.parametrize(
    ("raw", "query"),
    [
        ({"next": "https://elsewhere.example/a/b?page=2&status=open"}, {"page": "2", "status": "open"}),
        ({"links": {"next": {"href": "/x?c=a%20b"}}}, {"c": "a b"}),
        ({"meta": {"next_url": "?offset=50"}}, {"offset": "50"}),
        ({"next_cursor": "abc="}, {"status": "open", "cursor": "abc="}),
        ({"page": {"nextPageToken": 7}}, {"status": "open", "pageToken": "7"}),
        ({"next_page": 3}, {"status": "open", "page": "3"}),
        ({"next": None, "next_cursor": "", "next_page": None}, None),
        ({"next": "the next one"}, None),
        ({"next_page": True}, None),
        ({"items": [{"next": "?page=2"}]}, None),
        ([{"next": "?page=2"}], None),
        (None, None),
    ],
)
def test_the_next_page_is_what_the_reply_says(raw, query):
    assert next_query(reply(raw), PARAMS) == query


def test_a_header_may_have_the_next_page():
    header = '<https://h.example/x?page=1>; rel="prev", <https://h.example/x?page=3>; rel="next"'
    assert next_query(reply([], header), PARAMS) == {"page": "3"}


@pytest.mark.parametrize(
    ("raw", "read", "unread"),
    [
        ({"total": 10}, 4, 6),
        ({"meta": {"totalItems": 10}}, 10, 0),
        ({"total": 3}, 4, 0),
        ({"total": True}, 0, 0),
        ({"total": 2, "has_more": True}, 2, 1),
        ({"meta": {"page": 1, "total_pages": 3}}, 5, 1),
        ({"total_pages": 1}, 5, 0),
        ({"pages": [1, 2]}, 5, 0),
        ({"pagination": {"hasNext": True}}, 5, 1),
        ({"has_more": "yes"}, 5, 0),
        ([1, 2], 2, 0),
    ],
)
def test_items_that_were_not_read(raw, read, unread):
    assert unread_items(raw, read) == unread


@settings(max_examples=200, deadline=None)
@given(JSON)
def test_no_reply_breaks_it(raw):
    query = next_query(reply(raw), PARAMS)
    assert query is None or all(isinstance(value, str) for value in query.values())
    assert unread_items(raw, 3) >= 0
