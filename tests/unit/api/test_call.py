"""Decode response bodies from JSON."""

from __future__ import annotations

import pytest

from airflow_provider_assistant.api.call import MAX_DEPTH, Response
from airflow_provider_assistant.exceptions import AssistantResponseError
from tests.work import calls_of


def decoded(body, headers=None, **more):
    return Response(200, headers or {}, body, **more).decoded()


def nested(levels, opening=b"[", closing=b"]"):
    return opening * levels + b"1" + closing * levels


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}"), (b'[{"a":', b"}]")])
def test_depth_is_bounded(opening, closing):
    most = MAX_DEPTH // (opening.count(b"[") + opening.count(b"{"))
    assert decoded(nested(most, opening, closing))
    for levels in (most + 1, 300, 10_000, 100_000):
        with pytest.raises(AssistantResponseError, match="levels deep"):
            decoded(nested(levels, opening, closing))


def test_many_brackets_are_not_depth():
    assert len(decoded(b"[" + b",".join([b"[{}]"] * 1000) + b"]")) == 1000
    assert decoded(b'"' + b"[" * 1000 + b'"') == "[" * 1000


def test_the_depth_check_takes_linear_time():
    def body(count):
        return b"[" + b",".join([b'{"metric": "chats", "tags": [1, 2], "value": 17}'] * count) + b"]"

    little, much = body(2_000), body(20_000)
    assert calls_of(lambda: decoded(much)) <= 11 * calls_of(lambda: decoded(little))
    assert len(decoded(body(200_000))) == 200_000


def test_the_error_names_the_defect():
    with pytest.raises(AssistantResponseError, match="status 200 with a body that is larger than"):
        decoded(b"{}", defect="is larger than a house")


@pytest.mark.parametrize("body", [b"\xff\xfe", b'{"a": "\xe9"}', b"{'a': 1}", b"1" * 5000, b"{}}", b"[1,]", b"\0"])
def test_a_body_that_is_not_json_is_an_error(body):
    with pytest.raises(AssistantResponseError, match="not JSON"):
        decoded(body)


def test_the_content_type_cannot_forge_a_log_line():
    with pytest.raises(AssistantResponseError) as caught:
        decoded(b"<", {"content-type": "text/html\x1b[2J\r\nINFO all is well" + "x" * 10_000})
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300
