"""The API key is cut out in the usual ways to write it, and ordinary text stays as it is."""

from __future__ import annotations

import base64
import json
import urllib.parse

import pytest

from airflow_provider_assistant.api.call import Response
from airflow_provider_assistant.client.redaction import Redactor
from airflow_provider_assistant.exceptions import AssistantError

KEY = 'canary-key/0123456789+aB="'
FORMS = {
    "plain": KEY,
    "JSON": json.dumps(KEY)[1:-1],
    "JSON with escaped slashes": json.dumps(KEY)[1:-1].replace("/", r"\/"),
    "URL": urllib.parse.quote(KEY, safe=""),
    "base64": base64.b64encode(KEY.encode()).decode().rstrip("="),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_key_is_cut_out_of_replies_and_failures(form):
    text, clean = f"before {FORMS[form]} after", "before *** after"
    response = Redactor(KEY).response(Response(200, {"x-echo": text}, text.encode()))
    assert response == Response(200, {"x-echo": clean}, clean.encode())
    failure = AssistantError(text, todo=text)
    Redactor(KEY).error(failure)
    assert (failure.happened, failure.todo) == (clean, clean)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kept", [4, 20])
def test_no_part_of_a_key_stays_where_a_body_is_cut(form, kept):
    body = b"x" * 100 + FORMS[form][:kept].encode()
    response = Redactor(KEY).response(Response(200, {}, body, defect="is larger than …"))
    assert FORMS[form][:4].encode() not in response.body


@pytest.mark.parametrize("key", ["test", "1234", "assistant", "a-b_c", "7"])
def test_a_key_that_looks_like_ordinary_text_is_not_cut_out(key):
    response = Response(200, {"a": key}, json.dumps({"message": f"before {key} after", key: [100]}).encode())
    assert Redactor(key).response(response) == response
