"""Decode response bodies from JSON."""

from __future__ import annotations

import pytest

from airflow_provider_assistant.api.call import Response
from airflow_provider_assistant.exceptions import AssistantResponseError


def decoded(body, headers=None, **more):
    return Response(200, headers or {}, body, **more).document()


def test_a_body_that_is_nested_too_deeply_is_an_error():
    with pytest.raises(AssistantResponseError, match="whose JSON is nested more than 100 levels deep"):
        decoded(b"[" * 101 + b"]" * 101)


def test_the_error_names_the_defect():
    with pytest.raises(AssistantResponseError, match="status 200 with a body that is larger than"):
        decoded(b"{}", defect="is larger than a house")


@pytest.mark.parametrize("body", [b"\xff\xfe", b'{"a": "\xe9"}', b"{'a': 1}", b"{}}", b"[1,]", b"\0"])
def test_a_body_that_is_not_json_is_an_error(body):
    with pytest.raises(AssistantResponseError, match="not JSON"):
        decoded(body)


def test_the_content_type_cannot_forge_a_log_line():
    with pytest.raises(AssistantResponseError) as caught:
        decoded(b"<", {"content-type": "text/html\x1b[2J\r\nINFO all is well" + "x" * 10_000})
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300
