"""The API key is found however a response writes it, and ordinary text stays as it is."""

from __future__ import annotations

import gzip
import html
import json
import random
import urllib.parse

import pytest

from airflow_provider_assistant.api import endpoints, errors
from airflow_provider_assistant.api.call import Response
from airflow_provider_assistant.client.redaction import Redactor
from airflow_provider_assistant.client.transport import BoundedBody

KEY = "canary-key/0123456789+aB="
REDACTOR = Redactor(KEY)
ESCAPES = {
    "JSON": lambda text: "".join(f"\\u{ord(char):04x}" for char in text),
    "JSON, capitals": lambda text: "".join(f"\\u{ord(char):04X}" for char in text),
    "slashes": lambda text: json.dumps(text)[1:-1].replace("/", r"\/"),
    "decimal": lambda text: "".join(f"&#{ord(char)};" for char in text),
    "decimal, open": lambda text: "".join(f"&#{ord(char)}" for char in text),
    "hexadecimal": lambda text: "".join(f"&#x{ord(char):X};" for char in text),
    "hexadecimal, open": lambda text: "".join(f"&#X00{ord(char):x}" for char in text),
    "names": lambda text: text.replace("/", "&sol;").replace("+", "&plus;").replace("=", "&equals;"),
    "URL": lambda text: urllib.parse.quote(text, safe=""),
    "URL, all": lambda text: "".join(f"%{ord(char):02x}" for char in text),
    "page": html.escape,
}


@pytest.mark.parametrize("name", ESCAPES)
def test_an_escaped_key_is_cut_out(name):
    assert REDACTOR.text(f"before {ESCAPES[name](KEY)} after") == "before *** after"


@pytest.mark.parametrize("seed", range(20))
def test_a_key_that_is_escaped_several_times_does_not_stay(seed):
    rng = random.Random(seed)
    text = f"x{KEY}y"
    for name in rng.choices(list(ESCAPES), k=rng.randint(2, 3)):
        text = ESCAPES[name](text)
    redacted = REDACTOR.text(text)
    assert "***" in redacted
    for _ in range(4):
        redacted = urllib.parse.unquote(html.unescape(redacted)).encode().decode("unicode_escape").replace("\\", "")
    assert KEY not in redacted


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig"])
@pytest.mark.parametrize("status", [200, 400])
def test_a_body_in_another_encoding_is_decoded_first(encoding, status):
    response = REDACTOR.outcome(Response(status, {}, json.dumps({"error": f"ü {KEY}"}).encode(encoding)))
    assert response.document().value == {"error": "ü ***"}
    assert errors.from_response(endpoints.get_limits("acme"), response, 0.0).detail == "ü ***"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("is_declared", [True, False])
def test_an_encoding_is_declared_or_the_body_refused(encoding, is_declared):
    headers = {"content-type": f'application/json; charset="{encoding.upper()}"'} if is_declared else {}
    body = json.dumps({"error": KEY, "n": 1}).encode(encoding)
    response = REDACTOR.outcome(Response(400, headers, body))
    assert KEY not in errors.from_response(endpoints.get_limits("acme"), response, 0.0).detail.replace(" ", "")
    if is_declared:
        assert response.document().value == {"error": "***", "n": 1}
    else:
        assert response.defect == "is not JSON in a known encoding"


ORDINARY = [
    "A text with 50 % and &amp; and %20 and \\u00fc and \\n",
    r"{\"a\": \"C:\\\\users\\u005c\"}",
    "canary-key/0123456789",
    "&#99;anary-key",
]


@pytest.mark.parametrize("key", ["test", "1234", "assistant", "a-b_c", "7"])
def test_a_key_that_looks_like_ordinary_text_is_not_cut_out(key):
    body = json.dumps({"message": f"before {key} after", key: [f"{key}s", 100]}).encode()
    assert Redactor(key).outcome(Response(200, {}, body)) == Response(200, {}, body)


@pytest.mark.parametrize("text", ORDINARY)
def test_other_text_is_not_changed(text):
    assert REDACTOR.text(text) == text
    body = text.encode()
    assert REDACTOR.outcome(Response(200, {"a": text}, body)) == Response(200, {"a": text}, body)


def shown(text):
    """Return what a person reads in a text, whatever its escapes."""
    for _ in range(4):
        text = urllib.parse.unquote(html.unescape(text)).replace("\\u00", "%")
    return text.replace("\0", "").replace("\\", "")


def test_no_part_of_a_key_stays_where_a_body_is_cut():
    rng = random.Random(7)
    for name, escape in {"plain": str, **ESCAPES}.items():
        for encoding in ("utf-8", "utf-16", "utf-16-be", "utf-32-le"):
            head = rng.choice(["", "<title>", "<i>" * 90, '{"error": "', "<p>ü "])
            echo = f"{head}{escape(KEY)}".encode(encoding)
            whole = len(echo)
            kept = rng.randint(len(head.encode(encoding)) + 4, whole - 1)
            compressed = gzip.compress(echo[:kept], mtime=0)[:-8]
            cuts = {"": BoundedBody(kept), "gzip": BoundedBody(whole, "gzip")}
            for content_encoding, body in cuts.items():
                body.feed(compressed if content_encoding else echo + b"and more")
                response = REDACTOR.outcome(body.response(rng.choice([400, 503]), {}))
                error = errors.from_response(endpoints.get_limits("acme"), response, 0.0)
                assert KEY[:4] not in shown(f"{error} {error.detail}"), (name, encoding)
                assert response.defect


def test_the_name_of_an_encoding_does_not_repeat_the_key():
    for escape in (str, *ESCAPES.values()):
        for key in (KEY, "abcdefghijklmnopqrstuvwxyz", "0123456789abcdef"):
            body = BoundedBody(1024, f"gzip, {escape(key)}")
            body.feed(b"{}")
            assert key[:4] not in shown(body.response(200, {}).defect)


def test_a_key_with_a_blank_is_found_in_a_url():
    assert Redactor("canary key-0123456789").text("a%20canary%20key-0123456789") == "a%20***"


@pytest.mark.parametrize(
    "flood",
    [
        "\\" * 500_000,
        "%25" * 200_000,
        "&amp;" * 200_000,
        "&" + "amp;" * 200_000,
        "&#0" * 200_000,
        "u00" * 200_000,
    ],
    ids=["backslashes", "percent", "entities", "chain", "zeros", "codes"],
)
@pytest.mark.timeout(60)
def test_hostile_text_takes_linear_time(flood):
    assert KEY not in REDACTOR.text(f"{ESCAPES['JSON'](KEY)}{flood}")
