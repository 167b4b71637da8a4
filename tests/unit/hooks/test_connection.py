"""Read settings from connections in every form that Airflow supports."""

from __future__ import annotations

import json

import pytest
from airflow.sdk import Connection

from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.hooks.connection import extra_of, settings_of
from airflow_provider_assistant.provider_info import get_provider_info

KEY = "canary-key/with+signs=&%"
QUOTED = "canary-key%2Fwith%2Bsigns%3D%26%25"


def settings(**fields):
    extra = fields.pop("extra", {})
    connection = Connection(
        conn_id="c", conn_type="assistant", extra=json.dumps(extra), **{"host": "h", "password": KEY, **fields}
    )
    return settings_of(connection, extra_of(connection))


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
    assert read.client.timeout == 7.5
    assert read.client.retry.attempts == 1
    assert read.client.verify is False
    assert read.client.words.state("OK") == "complete"


@pytest.mark.parametrize(
    ("fields", "field", "part"),
    [
        ({"host": None}, "host", "https://assistant.example.com"),
        ({"host": "   "}, "host", "https://assistant.example.com"),
        ({"host": "ftp://h.example"}, "host", "ftp://h.example"),
        ({"host": "h.example:port"}, "host", "port"),
        ({"host": "h.example:99999"}, "host", "port"),
        ({"host": "https://[::1"}, "host", "base URL"),
        ({"host": "https://user@h.example"}, "host", "password"),
        ({"host": "https://h.example/api/v1?site_id=docs"}, "host", "query"),
        ({"host": "https://h.example/#docs"}, "host", "fragment"),
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
    connection = Connection(conn_id="c", conn_type="assistant", host="h", password=KEY, extra=extra)
    with pytest.raises(AssistantInputError, match="must be a JSON object") as caught:
        settings_of(connection, extra_of(connection))
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


def test_every_field_may_be_left_empty_in_the_form():
    fields = next(iter(get_provider_info()["connection-types"]))["conn-fields"]
    empty = settings(extra=dict.fromkeys(fields, ""))
    assert empty == settings(extra={}) == settings(extra=dict.fromkeys(fields))
    assert empty.client == ClientSettings("https://h/api/v1", KEY)


def test_types_are_coerced():
    read = settings(
        extra={
            "timeout": "12.5",
            "chat_timeout": "150",
            "retries": "2",
            "max_concurrency": "8",
            "max_response_bytes": "1048576",
            "verify": "true",
            "ca_bundle": "/etc/ca.pem",
            "complete_words": "ready, answered",
            "failed_words": ["broken"],
        }
    ).client
    assert (read.timeout, read.chat_timeout) == (12.5, 150)
    assert (read.retry.attempts, read.max_concurrency) == (3, 8)
    assert read.verify == "/etc/ca.pem"
    assert read.max_response_bytes == 1024**2
    assert [read.words.state(word) for word in ("Ready", "answered", "BROKEN", "complete", "queued")] == [
        "complete", "complete", "failed", "complete", "pending",
    ]  # fmt: skip


@pytest.mark.parametrize(("extra", "is_said"), [({"verify": False}, True), ({"verify": True}, False), ({}, False)])
def test_verify_false_is_warned_about(extra, is_said, caplog):
    assert settings(extra=extra).client.verify is not is_said
    assert ("verify=false" in caplog.text) == is_said
    assert KEY not in caplog.text


def test_no_verification_beats_a_ca_bundle():
    assert settings(extra={"verify": False, "ca_bundle": "/etc/ca.pem"}).client.verify is False


def test_unknown_extras_are_all_named_with_what_is_known():
    with pytest.raises(AssistantInputError) as caught:
        settings(extra={"tenantid": "acme-inc", "Timeout": 3, "site_id": "docs"})
    assert "Timeout, tenantid" in str(caught.value)
    assert "tenant_id" in str(caught.value)


@pytest.mark.parametrize(
    "extra",
    [
        {"timeout": 0},
        {"timeout": KEY},
        {"retries": 1.5},
        {"max_concurrency": 0},
        {"max_response_bytes": "16 MB"},
        {"verify": "maybe"},
        {"complete_words": 5},
        {"tenant_id": {"id": "acme-inc"}},
    ],
)
def test_bad_extras_are_named_without_their_value(extra):
    with pytest.raises(AssistantInputError) as caught:
        settings(extra=extra)
    (name,) = extra
    assert caught.value.field == name
    assert name in str(caught.value)
    assert "canary" not in str(caught.value)


NUMBERS = {"timeout": 86_400, "chat_timeout": 86_400, "retries": 100, "max_concurrency": 10_000}
NUMBERS["max_response_bytes"] = 1024**3


def test_numbers_have_bounds_and_no_other_kinds():
    bad = [-1, 1e12, "1e12", 1e308, 10**30, "inf", "nan", "-inf", True, False, [], {}, "soon", "30s"]
    for name, most in NUMBERS.items():
        for value in [*bad, most + 1]:
            with pytest.raises(AssistantInputError, match=name) as caught:
                settings(extra={name: value})
            assert caught.value.field == name
        for value in (most, str(most), float(most), f" {most} "):
            assert settings(extra={name: value}).client is not None
        # Not JSON, but what Python writes. It must not count as "not set".
        for constant in ("NaN", "Infinity", "-Infinity", "1e999"):
            connection = Connection(conn_id="c", conn_type="assistant", extra=f'{{"{name}": {constant}}}')
            with pytest.raises(AssistantInputError, match=f"the extra has {constant}, which is not a finite number"):
                extra_of(connection)


LISTS = ["complete_words", "failed_words", "rating_words"]


@pytest.mark.parametrize("name", [*LISTS, "active_words", "draft_words", "processing_words"])
def test_lists_of_words_are_read_in_every_form(name):
    def read(value):
        if name in LISTS:
            client = settings(extra={name: value}).client
            words = {"complete_words": client.words.complete, "failed_words": client.words.failed}
            return set(words.get(name, client.rating_words))
        return set(getattr(settings(extra={"manage_documents": {name: value}}).documents, name))

    for value in (
        ["one", "two"], "one, two", "one two", "one;two", " one,\n two ", '["one", "two"]', '[\n"one","two"]  ',
    ):  # fmt: skip
        assert read(value) >= {"one", "two"}, value
        assert not any(set(word) & set('[]"') for word in read(value))
    for value in ("one", '"one"', '["one"]', ["one"]):
        assert "one" in read(value)
    assert {"in progress", "inprogress"} & read(["in progress"])
    for value in ("", "[]", []):
        assert read(value) == read([])
    for value in (
        ['["one"]'], "['one']", '["one"', '{"one": 1}', "[1]", [1], [None], [""], ["  "], '[["one"]]', "'one'", 5, True,
    ):  # fmt: skip
        with pytest.raises(AssistantInputError, match="word"):
            read(value)


def test_statuses_of_a_gateway_are_read_in_every_form():
    for value, expected in (
        ("503", {503}), (503, {503}), ([503], {503}), ("502, 503", {502, 503}), ("[503,504]", {503, 504}),
        ("529", {529}), ("503 503", {503}), (["503"], {503}), ("", set()), (None, set()), ([], set()), ("[]", set()),
    ):  # fmt: skip
        assert settings(extra={"gateway_refusals": value}).client.retry.gateway_refusals == expected, value
    with_retries = settings(extra={"gateway_refusals": "503", "retries": 0}).client.retry
    assert (with_retries.attempts, with_retries.gateway_refusals) == (1, {503})
    for value in ("429", "404", "5xx", 5, True, 503.5, {"503": 1}, [[503]], [None], [True], "600", "[503", '{"a": 1}'):
        with pytest.raises(AssistantInputError, match="gateway_refusals"):
            settings(extra={"gateway_refusals": value})


@pytest.mark.promise(
    "Airflow", "A field of the connection that does not exist is refused, with the field to use instead."
)
@pytest.mark.parametrize(
    ("names", "advice"),
    [
        ("proxy proxies http_proxy HTTPS-PROXY proxy_url trust_env", "Proxies are read from the environment"),
        ("cert certificate ssl_certfile keyfile client_cert_file", "Use client_cert for the path of the client"),
        ("client-cert clientCert client_crt", "Use client_cert"),
        ("ca_cert cafile ca_file CACert ssl_ca_cert ca_bundle_", "Use ca_bundle."),
        ("ssl tls verify_ssl ssl_verify tls_verify", "Use verify (true or false), or ca_bundle"),
        ("headers extra_headers cookies auth user_agent", "No further headers"),
        ("api_key apikey token x_api_key secret password", "Put the API key into the password field"),
        ("url base_url host endpoint_url server", "Put the base URL into the host field"),
        ("retry max_retries num_attempts", "Use retries."),
        ("read_timeout connect_timeout request_timeout", "Use timeout or chat_timeout"),
        ("pool_size max_connections concurrency", "Use max_concurrency."),
        ("tenant workspace_id", "Use tenant_id."),
        ("site chatbot extra__assistant__site_id Site_ID site-id", "Use site_id."),
        ("allow_redirects follow_redirects", "Redirects are never followed."),
    ],
)
def test_names_of_other_libraries_are_refused_with_what_to_use(names, advice):
    for name in names.split():
        with pytest.raises(AssistantInputError, match=f"unknown extra {name}") as caught:
            settings(extra={name: "canary"})
        assert advice in caught.value.todo, name
        assert "canary" not in str(caught.value)
    with pytest.raises(AssistantInputError, match="the path of CA certificates belongs into ca_bundle"):
        settings(extra={"verify": "/etc/ca.pem"})


@pytest.mark.parametrize("name", ["timeout", "retries", "max_concurrency", "verify", "tenant_id", "ledger_conn_id"])
def test_the_form_offers_what_the_extra_reads(name):
    from airflow_provider_assistant.hooks.connection import ConnectionExtra

    fields = next(iter(get_provider_info()["connection-types"]))["conn-fields"]
    assert set(fields) == set(ConnectionExtra.model_fields)
    assert name in fields


@pytest.mark.parametrize("around", [(" ", " "), ("", "\n"), ("\r\n", "\r\n"), ("\t", "\u00a0")])
def test_whitespace_around_what_is_pasted_is_dropped(around, monkeypatch):
    before, after = around
    found = settings(
        password=f"{before}{KEY}{after}",
        extra={name: f"{before}{name[:4]}{after}" for name in ("tenant_id", "site_id", "ca_bundle")},
    )
    assert (found.client.api_key, found.tenant_id, found.site_id, found.client.verify) == (KEY, "tena", "site", "ca_b")


def test_tenant_and_site_of_a_template_are_stripped(monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_C", json.dumps({"conn_type": "assistant", "host": "h", "password": KEY}))
    hook = AssistantHook("c", tenant_id=" acme-inc\n", site_id="docs\n")
    assert (hook.resolve_tenant_id(), hook.resolve_site_id(), hook.resolve_site_id(" shop ")) == (
        "acme-inc",
        "docs",
        "shop",
    )
    with pytest.raises(AssistantInputError, match="site_id is empty"):
        AssistantHook("c", site_id=" \n").resolve_site_id()


@pytest.mark.parametrize(
    ("host", "warned"),
    [
        ("http://h.example", True),
        ("http://10.0.0.1", True),
        ("http://localhost.evil.example", True),
        ("http://localhost:8089", False),
        ("http://127.0.0.1", False),
        ("http://[::1]:80", False),
        ("https://h.example", False),
    ],
)
def test_a_key_that_is_sent_unencrypted_is_warned_about(host, warned, caplog):
    settings(host=host)
    assert ("unencrypted" in caplog.text) is warned


@pytest.mark.parametrize("host", ["http://assistant.example.com", "http://127.0.0.1:8089"])
def test_a_proxy_that_reads_the_key_is_named_without_its_password(host, caplog, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "user:secret-word@proxy.corp:3128")
    monkeypatch.setenv("NO_PROXY", "")
    settings_of(Connection(conn_id="c", conn_type="assistant", host=host, password="k"), {})
    assert "the proxy proxy.corp:3128 can read it" in caplog.text
    assert "secret-word" not in caplog.text


@pytest.mark.parametrize("key", ["test", "1234", "assistant", "12345678", "a-b-c"])
def test_a_key_that_looks_like_ordinary_text_is_warned_about(key, caplog):
    assert settings(password=key).client.api_key == key
    (said,) = caplog.messages
    assert "looks like an ordinary word or number" in said
    assert key not in said


@pytest.mark.parametrize("key", ["dev-acme-full", "x" * 16, "1" * 16, "sk_12345"])
def test_a_recognisable_key_is_not_warned_about(key, caplog):
    settings(password=key)
    assert caplog.text == ""
