"""The API key is cut out of all that is shown, in whatever way it is escaped; ordinary text stays as it is."""

from __future__ import annotations

import base64
import html
import json
import logging
import string
import time
import urllib.parse
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_assistant.api.call import Response
from airflow_provider_assistant.client.redaction import Redactor
from airflow_provider_assistant.client.retry import RetryPolicy
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import AssistantError
from tests.hostile import CALLS
from tests.wire import ScriptedTransport, client_with

KEY = 'canary-key/0123456789+aB="'
ESCAPES = {
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON, slashes": lambda text: json.dumps(text)[1:-1].replace("/", r"\/"),
    "JSON, all": lambda text: "".join(f"\\u{ord(char):04x}" for char in text),
    "Python": lambda text: repr(text)[1:-1],
    "HTML": html.escape,
    "HTML, decimal": lambda text: "".join(f"&#{ord(char)};" for char in text),
    "HTML, hexadecimal": lambda text: "".join(f"&#x{ord(char):X};" for char in text),
    "HTML, named": lambda text: text.replace("&", "&amp;").replace("/", "&sol;").replace("+", "&plus;"),
    "URL": lambda text: urllib.parse.quote(text, safe=""),
    "URL, path": urllib.parse.quote,
    "URL, form": urllib.parse.quote_plus,
    "URL, all": lambda text: "".join(f"%{ord(char):02x}" for char in text),
}
FORMS = {name: escape(KEY) for name, escape in ESCAPES.items()} | {
    "plain": KEY,
    "base64": base64.b64encode(KEY.encode()).decode().rstrip("="),
}
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]
# Keys as an HTTP header carries them.
PRINTABLE = [char for char in string.printable if char.isprintable()]
KEYS = (
    st.text([*PRINTABLE, *"%&\\;#/+\"'" * 3], min_size=16, max_size=40).map(str.strip).filter(lambda key: len(key) > 15)
)


@pytest.mark.parametrize("form", FORMS)
def test_a_key_is_cut_out_of_replies_and_failures(form):
    text, clean = f"before {FORMS[form]} after", "before *** after"
    response = Redactor(KEY).response(Response(200, {"x-echo": text}, text.encode()))
    assert response == Response(200, {"x-echo": clean}, clean.encode())
    failure = AssistantError(text, todo=text)
    Redactor(KEY).error(failure)
    assert (failure.happened, failure.todo) == (clean, clean)


@given(KEYS, st.lists(st.sampled_from(list(ESCAPES)), max_size=4), st.sampled_from(ENCODINGS))
@pytest.mark.promise("replies and errors", "The API key is in no error, log or reply, in whatever way it is escaped.")
def test_no_chain_of_escapes_shows_a_key(key, chain, encoding):
    echo = reduce(lambda text, name: ESCAPES[name](text), chain, key)
    bodies = [f"<html><title>Refused: {echo} </title>", json.dumps({"error": f"Refused: {echo} "}), f"Refused: {echo}"]
    texts = []
    handler = logging.Handler()
    handler.emit = lambda record: texts.append(record.getMessage())
    logging.getLogger("airflow_provider_assistant").addHandler(handler)
    for status in (200, 400):
        responses = [Response(status, {"x-request-id": echo}, body.encode(encoding)) for body in bodies]
        client = client_with(
            ClientSettings("http://assistant.invalid", key, retry=RetryPolicy(attempts=1)),
            transport=ScriptedTransport(responses),
        )
        for _ in responses:
            try:
                texts.append(json.dumps(client.send(CALLS["limits"]).raw, ensure_ascii=False))
            except AssistantError as error:
                texts += [str(error), str(error.fields())]
    logging.getLogger("airflow_provider_assistant").removeHandler(handler)
    for text in texts:
        for undo in (str, html.unescape, urllib.parse.unquote, urllib.parse.unquote_plus, from_json):
            for again in (str, html.unescape, urllib.parse.unquote, from_json):
                assert key not in again(undo(text))


def from_json(text):
    try:
        return json.loads(f'"{text}"', strict=False)
    except ValueError:
        return text


def test_what_surrounds_an_escaped_key_stays():
    url = f"https://assistant.invalid/?key={FORMS['URL']}&site=1%2F2&again={FORMS['URL, all']}"
    assert Redactor(KEY).text(url) == "https://assistant.invalid/?key=***&site=1%2F2&again=***"
    body = {"echo": json.dumps({"key": FORMS["HTML"], "path": "C:\\new\\u0041"}), "text": "50 % &amp; more"}
    redacted = Redactor(KEY).response(Response(200, {}, json.dumps(body).encode()))
    assert redacted.body.decode() == json.dumps(body).replace(json.dumps(FORMS["HTML"])[1:-1], "***")


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


@pytest.mark.parametrize("unit", [r"ab\u0041cdefg", r"\"word\" ", "&#65;", "&amp;amp;amp;", "\\", "%"])
def test_a_large_reply_with_escapes_is_read_in_linear_time(unit):
    redactor = Redactor(KEY)
    seconds = []
    for size in (100_000, 1_600_000):
        started = time.process_time()
        redactor.response(Response(200, {}, (unit * (size // len(unit))).encode()))
        seconds.append(time.process_time() - started)
    # 16 times the size.
    assert seconds[1] < 100 * max(seconds[0], 0.001)
