"""Read settings from connections in every form that Airflow supports, and show their fields in the form."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest
from airflow.sdk import Connection

from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.hooks.connection import Settings
from airflow_provider_assistant.hooks.extra import ConnectionExtra, form_fields

KEY = "canary-key/with+signs=&%"
QUOTED = "canary-key%2Fwith%2Bsigns%3D%26%25"


def settings(**fields):
    extra = fields.pop("extra", {})
    text = extra if isinstance(extra, str) else json.dumps(extra)
    fields = {"host": "h", "password": KEY, **fields}
    return Settings.of(Connection(conn_id="c", conn_type="assistant", extra=text, **fields))


@pytest.mark.parametrize(
    ("fields", "url"),
    [
        ({"host": "h.example"}, "https://h.example/api/v1"),
        ({"host": "  h.example  "}, "https://h.example/api/v1"),
        ({"host": "h.example/api/v1/"}, "https://h.example/api/v1"),
        ({"host": "h.example/api/v2"}, "https://h.example/api/v2"),
        ({"host": "HTTPS://h.example"}, "https://h.example/api/v1"),
        ({"host": "https://h.example///"}, "https://h.example/api/v1"),
        ({"host": "http://h.example/api/v1/"}, "http://h.example/api/v1"),
        ({"host": "h.example", "port": 8443}, "https://h.example:8443/api/v1"),
        ({"host": "https://h.example:1", "port": 8443}, "https://h.example:1/api/v1"),
        ({"host": "https://h.example/eu/api/v1"}, "https://h.example/eu/api/v1"),
        ({"host": "https://h.example/my gateway"}, "https://h.example/my%20gateway/api/v1"),
        ({"host": "h.example", "schema": "http"}, "http://h.example/api/v1"),
        ({"host": "h.example", "schema": "HTTPS"}, "https://h.example/api/v1"),
        ({"host": "http://h.example", "schema": "https"}, "http://h.example/api/v1"),
        ({"host": "h.example", "schema": "api/v1"}, "https://h.example/api/v1"),
        ({"host": "h.example", "schema": "/eu/api/v1/"}, "https://h.example/eu/api/v1"),
        ({"host": "2001:db8::1", "port": 8443}, "https://[2001:db8::1]:8443/api/v1"),
        ({"host": "http://[::1]:8080"}, "http://[::1]:8080/api/v1"),
        ({"host": "https://h.example:8443", "port": 0}, "https://h.example:8443/api/v1"),
    ],
)
def test_base_url_of_fields(fields, url):
    assert settings(**fields).client.base_url == url


@pytest.mark.parametrize(
    ("form", "url"),
    [
        (f"assistant://:{QUOTED}@h.example/", "https://h.example/api/v1"),
        (f"assistant://:{QUOTED}@h.example:8443/api/v1?tenant_id=acme-inc&site_id=docs", "https://h.example:8443/api/v1"),
        (f"assistant://:{QUOTED}@h.example/https", "https://h.example/api/v1"),
        (f"assistant://:{QUOTED}@127.0.0.1:8089/http", "http://127.0.0.1:8089/api/v1"),
        (f"assistant://:{QUOTED}@https%3A%2F%2Fh.example%2Fapi%2Fv1/", "https://h.example/api/v1"),
        (f"assistant://:{QUOTED}@http%3A%2F%2Flocalhost%3A8089%2Fapi%2Fv1/", "http://localhost:8089/api/v1"),
        (f"assistant://https://:{QUOTED}@h.example/api/v1", "https://h.example/api/v1"),
        (f"assistant://:{QUOTED}@[2001:db8::1]:8443/", "https://[2001:db8::1]:8443/api/v1"),
        (json.dumps({"conn_type": "assistant", "host": "https://h.example/api/v1", "password": KEY}),
         "https://h.example/api/v1"),
        (json.dumps({"conn_type": "assistant", "host": "h.example", "port": "8443", "password": KEY}),
         "https://h.example:8443/api/v1"),
    ],
)  # fmt: skip
def test_base_url_of_the_environment(form, url, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", form)
    client = AssistantHook().settings.client
    assert client.base_url == url
    assert client.api_key == KEY


def test_a_uri_carries_the_extra(monkeypatch):
    uri = (
        f"assistant://:{QUOTED}@h/?tenant_id=acme-inc&site_id=docs&timeout=7.5&retries=0&verify=false&complete_words=ok"
    )
    monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", uri)
    read = AssistantHook().settings
    assert (read.tenant_id, read.site_id) == ("acme-inc", "docs")
    assert (read.client.timeout, read.client.retry.attempts, read.client.verify) == (7.5, 1, False)
    assert read.client.words.state("OK") == "complete"


@pytest.mark.parametrize(
    ("fields", "field", "part"),
    [
        ({"host": None}, "host", "https://assistant.example.com"),
        ({"host": "   "}, "host", "https://assistant.example.com"),
        ({"host": "ftp://h.example"}, "host", "ftp://h.example"),
        ({"host": "h..example"}, "host", "invalid port or host"),
        ({"host": f"https://{64 * 'h'}.example"}, "host", "invalid port or host"),
        ({"host": "h.example:port"}, "host", "port"),
        ({"host": "h.example:99999"}, "host", "port"),
        ({"host": "https://[::1"}, "host", "base URL"),
        ({"host": "https://user@h.example"}, "host", "password"),
        ({"host": "https://h.example/api/v1?site_id=docs"}, "host", "query"),
        ({"host": "https://h.example/#docs"}, "host", "fragment"),
        ({"host": "https://h.example/api/v1/m2m/sites/a"}, "host", "must end before '/m2m/sites/a'"),
        ({"password": None}, "password", "API key"),
        ({"password": " "}, "password", "API key"),
        ({"password": "schlüssel"}, "password", "header"),
        ({"password": "two\nlines"}, "password", "header"),
    ],
)
def test_refused(fields, field, part):
    with pytest.raises(AssistantInputError, match=part) as caught:
        settings(**fields)
    assert caught.value.field == field
    assert "'c'" in str(caught.value)


@pytest.mark.parametrize("extra", ["[]", "[1]", "3", '"text"', "null", "{", "canary"])
def test_an_extra_that_is_not_an_object_is_rejected(extra):
    with pytest.raises(AssistantInputError, match="must be a JSON object") as caught:
        settings(extra=extra)
    assert caught.value.field == "extra"
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    "host",
    [
        "https://user:canary@h.example",
        "ftp://user:canary@h.example",
        "https://user:canary@h.example:port",
        "https://user:canary@",
        "https://user:canary@[::1",
        "https://h.example/?key=canary",
        "https://h.example/#canary",
    ],
)
def test_a_secret_in_the_wrong_place_is_not_repeated(host):
    with pytest.raises(AssistantInputError) as caught:
        settings(host=host)
    assert "canary" not in f"{caught.value} {caught.value!r}"


# -- fields of the extra ---------------------------------------------------------------------------


def test_every_field_may_be_left_empty_in_the_form():
    empty = settings(extra=dict.fromkeys(ConnectionExtra.model_fields, ""))
    assert empty == settings(extra={}) == settings(extra=dict.fromkeys(ConnectionExtra.model_fields))
    assert empty.client == ClientSettings("https://h/api/v1", KEY)
    assert (empty.service, empty.documents) == ("h", None)


def test_fields_are_read_as_text_and_as_what_they_are():
    read = settings(
        extra={
            "tenant_id": " acme\r\n",
            "site_id": 17,
            "service_name": "our assistant",
            "timeout": "12.5",
            "chat_timeout": "150",
            "retries": " 2 ",
            "max_concurrency": "8",
            "verify": "true",
            "ca_bundle": "/etc/ca.pem\n",
            "client_cert": "/run/cert.pem",
            "complete_words": "ready, answered",
            "failed_words": ["broken", "in pieces"],
        }
    )
    assert (read.tenant_id, read.site_id, read.service) == ("acme", "17", "our assistant")
    client = read.client
    assert (client.timeout, client.chat_timeout) == (12.5, 150)
    assert (client.retry.attempts, client.max_concurrency) == (3, 8)
    assert (client.verify, client.client_cert, client.client_key) == ("/etc/ca.pem", "/run/cert.pem", None)
    states = {word: client.words.state(word) for word in ("Ready", "answered", "BROKEN", "in pieces", "queued")}
    assert list(states.values()) == ["complete", "complete", "failed", "failed", "pending"]
    assert settings(extra={"verify": False, "ca_bundle": "/etc/ca.pem"}).client.verify is False


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (["one", "in progress"], {"one", "inprogress"}),
        (" one,\n two; three ", {"one", "two", "three"}),
        ('["one", "two"]', {"one", "two"}),
        ("", set()),
        ([], set()),
    ],
)
def test_words_are_read_in_every_form(value, words):
    known = settings().client.words.complete
    assert settings(extra={"complete_words": value}).client.words.complete == known | words


MOST = {"timeout": 86_400, "chat_timeout": 86_400, "retries": 100, "max_concurrency": 10_000}
NO_NUMBERS = [-1, 1e12, "1e12", 10**30, "inf", "nan", True, False, [], {}, "soon", "30s", "canary"]
WRONG = [
    *((name, value) for name, most in MOST.items() for value in (*NO_NUMBERS, most + 1)),
    *(("timeout", 0), ("retries", 1.5), ("max_concurrency", 0), ("verify", "/etc/canary.pem"), ("verify", 2)),
    *(("complete_words", 5), ("complete_words", [""]), ("failed_words", [1, None]), ("tenant_id", {"id": "canary"})),
    *(("tenant_id", True), ("service_name", "two\nlines"), ("service_name", "x" * 101)),
    *(("manage_documents", value) for value in ("canary", "[", 5, ["canary"], {"lists": "/canary"}, {"list": "//x"})),
]


@pytest.mark.parametrize(("name", "value"), WRONG, ids=str)
def test_a_wrong_value_is_refused_by_its_field_and_not_repeated(name, value):
    with pytest.raises(AssistantInputError, match=f"'c': invalid extra: {name}") as caught:
        settings(extra={name: value})
    assert caught.value.field == name
    assert "canary" not in f"{caught.value} {caught.value!r}"


def test_numbers_at_their_bounds_are_accepted_and_what_json_does_not_have_is_not():
    for name, most in MOST.items():
        for value in (most, str(most), float(most), f" {most} "):
            assert settings(extra={name: value}) is not None
        # Not JSON, but what Python writes. It must not count as "not set".
        for constant in ("NaN", "Infinity", "-Infinity", "1e999"):
            with pytest.raises(AssistantInputError, match=name):
                settings(extra=f'{{"{name}": {constant}}}')


def test_documents_may_be_managed_by_the_usual_routes_or_by_others():
    usual = settings(extra={"manage_documents": True}).documents
    assert usual.list == "/m2m/sites/{site_id}/documents"
    for value in ("true", "True", "{}", {}):
        assert settings(extra={"manage_documents": value}).documents == usual
    for value in (False, "false", "", None):
        assert settings(extra={"manage_documents": value}).documents is None
    for value in ({"delete": None}, '{"delete": null}'):
        assert settings(extra={"manage_documents": value}).documents.delete is None


@pytest.mark.promise(
    "Airflow", "A field of the connection that has no effect is named in a warning, with a similar one."
)
@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("tenat_id", "Did you mean tenant_id?"),
        ("Site-ID", "Did you mean site_id?"),
        ("extra__assistant__site_id", "Did you mean site_id?"),
        ("max_retries", "Did you mean retries?"),
        ("clientCert", "Did you mean client_cert?"),
        ("connect_timeout", "Did you mean chat_timeout?"),
        ("headers", "The known fields are tenant_id, site_id, "),
    ],
)
def test_a_field_that_does_not_exist_is_warned_about(name, advice, caplog):
    assert settings(extra={name: "canary", "retries": 1}).client.retry.attempts == 2
    (warning,) = caplog.messages
    assert f"the field '{name}' in the extra has no effect. {advice}" in warning
    assert "canary" not in warning


# -- warnings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("extra", "is_said"), [({"verify": False}, True), ({"verify": True}, False), ({}, False)])
def test_verify_false_is_warned_about(extra, is_said, caplog):
    settings(extra=extra)
    assert ("verify=false" in caplog.text) == is_said
    assert KEY not in caplog.text


@pytest.mark.parametrize(
    ("host", "warned"),
    [
        *((host, True) for host in ("http://h.example", "http://10.0.0.1", "http://localhost.evil.example")),
        *((host, False) for host in ("http://localhost:8089", "http://127.0.0.1", "http://[::1]:80", "https://h")),
    ],
)
def test_a_key_that_is_sent_unencrypted_is_warned_about(host, warned, caplog):
    settings(host=host)
    assert ("unencrypted" in caplog.text) is warned


@pytest.mark.parametrize("key", ["test", "12345678", "a-b-c", "dev-acme-full", "1" * 16, "sk_12345"])
def test_a_key_that_looks_like_ordinary_text_is_warned_about(key, caplog):
    assert settings(password=f"\t{key}\n").client.api_key == key
    assert ("looks like an ordinary word or number" in caplog.text) == (key in {"test", "12345678", "a-b-c"})
    assert key not in caplog.text


# -- the form --------------------------------------------------------------------------------------


def test_the_form_has_a_field_with_description_for_every_setting():
    fields = form_fields()
    assert set(fields) == set(ConnectionExtra.model_fields)
    assert fields["timeout"] == {
        "label": "Timeout (s)",
        "description": "Longest time in seconds from the end of a request to the last byte of its response. Default: "
        "30.",
        "schema": {"type": ["number", "null"], "minimum": 0.1, "maximum": 86400},
    }
    assert fields["verify"]["schema"] == {"type": ["boolean", "null"], "default": True}
    assert fields["manage_documents"]["schema"] == fields["complete_words"]["schema"] == {"type": ["string", "null"]}


def test_airflow_3_1_has_the_same_form(monkeypatch):
    def kind(name):
        return lambda label, *, description, default: (name, label, description, default)

    # WTForms may be missing.
    names = ("BooleanField", "IntegerField", "StringField")
    monkeypatch.setitem(sys.modules, "wtforms", SimpleNamespace(**{name: kind(name) for name in names}))
    widgets = AssistantHook.get_connection_form_widgets()
    fields = form_fields()
    assert {name: widget[1:3] for name, widget in widgets.items()} == {
        name: (field["label"], field["description"]) for name, field in fields.items()
    }
    kinds = [widgets[name][0] for name in ("verify", "retries", "timeout", "site_id")]
    assert kinds == ["BooleanField", "IntegerField", "StringField", "StringField"]
    shown = AssistantHook.get_ui_field_behaviour()
    assert shown["hidden_fields"] == ["schema", "login", "port"]
    assert shown["relabeling"] == {"host": "Base URL", "password": "API key"}
