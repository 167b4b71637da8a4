"""What a proxy gets, and what a proxy that opens no tunnel means: nothing was sent."""

from __future__ import annotations

import base64
import gc
import logging
import traceback
import warnings
from urllib.parse import quote

import pytest

from airflow_provider_assistant.api.call import Response
from airflow_provider_assistant.client.network import proxy_for
from airflow_provider_assistant.client.redaction import redactor_of
from airflow_provider_assistant.exceptions import (
    AssistantConnectionError,
    AssistantGatewayError,
    AssistantInputError,
)
from tests.hostile import CALLS, KEY
from tests.proxies import NAME, RecordingProxy, certificate, echoes, hangs, says, server_context, tls_front
from tests.unit.client.ways import EXCHANGES, settings_of
from tests.wire import Answer, ScriptedService, error_of

PASSWORD = "canary p@ss:w/ord#ü%"
USER = "us er"
TOKEN = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
CREDENTIALS = f"{quote(USER)}:{quote(PASSWORD, safe='')}"
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
HTTP, HTTPS = f"http://{NAME}/api/v1", f"https://{NAME}/api/v1"


@pytest.fixture
def service(pair):
    """Return a service, also reachable with TLS, and a proxy in front of both."""
    with (
        ScriptedService(Answer(body={"answer": "a", "request_id": "r1"})) as service,
        tls_front(service.host, server_context(pair)) as front,
        RecordingProxy(service.host, front) as proxy,
    ):
        yield service, proxy


@pytest.mark.promise(
    "security", "A proxy with a tunnel never sees the API key, and the service never the password of the proxy."
)
@EXCHANGES
def test_a_proxy_with_a_tunnel_gets_its_own_credentials_only(exchange, service, pair, monkeypatch):
    service, proxy = service
    allowed = {"host", "accept", "accept-encoding", "cache-control", "user-agent", "proxy-authorization"}
    for credentials in ("", f"{CREDENTIALS}@", "only-a-user@"):
        monkeypatch.setenv("https_proxy", f"http://{credentials}{proxy.host}")
        for name in ("qa", "upload", "limits"):
            assert isinstance(exchange(settings_of(HTTPS, verify=str(pair[0])), name), Response)
            head = proxy.heads.pop()
            names = {line.partition(":")[0].lower() for line in head.splitlines()[1:] if line}
            assert head.startswith(f"CONNECT {NAME}:443 ")
            assert names <= allowed
            assert ("proxy-authorization" in names) == bool(credentials)
            assert KEY not in head
            assert credentials != f"{CREDENTIALS}@" or f"Proxy-Authorization: Basic {TOKEN}\n" in head
    for received in service.received:
        assert received.headers["x-api-key"] == KEY
        assert "proxy-authorization" not in received.headers


@EXCHANGES
def test_without_a_tunnel_the_proxy_gets_both_and_the_service_only_the_key(exchange, service, monkeypatch):
    service, proxy = service
    monkeypatch.setenv("http_proxy", f"http://{CREDENTIALS}@{proxy.host}")
    for name in ("qa", "upload", "limits"):
        assert isinstance(exchange(settings_of(HTTP), name), Response)
    assert len(proxy.heads) == len(service.received) == 3
    assert all(f"Proxy-Authorization: Basic {TOKEN}\n" in head for head in proxy.heads)
    for received in service.received:
        assert received.headers["x-api-key"] == KEY
        assert "proxy-authorization" not in received.headers


@EXCHANGES
def test_a_proxy_with_tls(exchange, service, pair, monkeypatch):
    service, plain = service
    with RecordingProxy(plain.service, plain.tls_service, server_context(pair)) as proxy:
        for url in (HTTP, HTTPS):
            monkeypatch.setenv("ALL_PROXY", f"https://{CREDENTIALS}@{proxy.host}")
            outcome = exchange(settings_of(url, verify=str(pair[0])))
            assert isinstance(outcome, Response), outcome
    assert [head.split()[0] for head in proxy.heads] == ["POST", "CONNECT"]


@pytest.mark.parametrize(
    ("environment", "url", "expected"),
    [
        ({"HTTPS_PROXY": "secure:1", "ALL_PROXY": "all:1"}, "https://a.corp", ("http://secure:1", "HTTPS_PROXY")),
        ({"HTTPS_PROXY": "secure:1", "ALL_PROXY": "all:1"}, "http://a.corp", ("http://all:1", "ALL_PROXY")),
        ({"HTTPS_PROXY": "upper:1", "https_proxy": "lower:1"}, "https://a.corp", ("http://lower:1", "HTTPS_PROXY")),
        ({"HTTPS_PROXY": "upper:1", "https_proxy": ""}, "https://a.corp", None),
        # A CGI program gets HTTP_PROXY from the header of a request.
        ({"HTTP_PROXY": "plain:1", "REQUEST_METHOD": "GET"}, "http://a.corp", None),
        ({"ALL_PROXY": " HTTPS://user:p%40ss@proxy.corp/ "}, "http://a", ("https://proxy.corp:443", "ALL_PROXY")),
        ({"ALL_PROXY": "user@[fd00::1]:3128"}, "http://a.corp", ("http://[fd00::1]:3128", "ALL_PROXY")),
        ({"ALL_PROXY": "proxy"}, "http://a.corp", ("http://proxy:80", "ALL_PROXY")),
        ({"ALL_PROXY": "proxy:1", "NO_PROXY": "*"}, "https://a.corp", None),
        ({"ALL_PROXY": "proxy:1", "NO_PROXY": "x, .Corp"}, "https://A.corp:8443", None),
        ({"ALL_PROXY": "proxy:1", "NO_PROXY": "10.1.2.3,a.corp:443"}, "https://a.corp", None),
        ({"ALL_PROXY": "proxy:1", "NO_PROXY": "10.1.2.3,a.corp:443"}, "https://10.1.2.3:8080", None),
        ({"ALL_PROXY": "proxy:1", "NO_PROXY": "a.corp:443"}, "http://a.corp", ("http://proxy:1", "ALL_PROXY")),
        ({"ALL_PROXY": "proxy:1", "NO_PROXY": "corp"}, "http://a-corp", ("http://proxy:1", "ALL_PROXY")),
    ],
)
def test_which_proxy_is_used(environment, url, expected, monkeypatch):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    proxy = proxy_for(f"{url}/api/v1")
    assert (proxy and (proxy.url, proxy.variable)) == expected
    assert "user" not in repr(proxy)


UNUSABLE = [
    "socks5://{}127.0.0.1:9",
    "ftp://{}127.0.0.1:9",
    "http://{}",
    "http://{}127.0.0.1:port",
    "http://{}127.0.0.1:99999",
    "http://{}[::1",
    "http://{}my proxy:80",
    "http://user:pass/canary@127.0.0.1:9",
    "user:1?canary@127.0.0.1:9",
]


@EXCHANGES
@pytest.mark.parametrize("text", UNUSABLE)
def test_a_proxy_that_cannot_be_used_is_refused_by_the_name_of_its_variable(exchange, text, monkeypatch):
    monkeypatch.setenv("https_proxy", text.format("user:canary@"))
    with pytest.raises(AssistantInputError, match="HTTPS_PROXY is not the URL of an http or https proxy") as caught:
        exchange(settings_of(HTTPS))
    assert "canary" not in "".join(traceback.format_exception(caught.value)).replace(text, "")


@pytest.fixture
def shown(caplog, only_new_garbage):
    """Return a function that asserts that no text, no log and no warning has a secret."""
    for name in ("", "httpx", "httpcore", "aiohttp", "asyncio"):
        caplog.set_level(logging.DEBUG, name)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")

        def check(*texts):
            texts = [*texts, *map(str, caught), *(f"{r.getMessage()} {r.exc_text}" for r in caplog.records)]
            for secret in (TOKEN, PASSWORD, quote(PASSWORD, safe=""), "p@ss", "p%40ss", KEY):
                assert [text for text in texts if secret in text] == []

        yield check
        # aiohttp warns of what it has not closed.
        gc.collect()
        check()


def failure_of(exchange, settings, name="qa"):
    """Return the error of a call that the proxy did not pass on, and all that it shows."""
    error = exchange(settings, name)
    assert isinstance(error, AssistantConnectionError | AssistantGatewayError), error
    assert not error.maybe_done
    redactor_of(settings.base_url, KEY).error(error)
    return error, f"{error} {error!r} {error.fields()}"


AFTER_CONNECT = {
    **{status: (echoes(status), status) for status in ("301", "403", "407", "502")},
    "407, half a body": (says(b"HTTP/1.1 407 No\r\nContent-Length: 99\r\n\r\nhalf"), "407"),
    "half a line": (says(b"HTTP/1.1 2"), None),
    "garbage": (says(b"\x00\x16\x03 garbage \xff\r\n\r\n"), None),
    "closes": (says(), None),
    "tunnel, then closes": (says(ESTABLISHED), None),
    "tunnel, then garbage": (says(ESTABLISHED, b"garbage instead of TLS\r\n" * 9), None),
    "hangs": (hangs(), None),
    "tunnel, then hangs": (hangs(ESTABLISHED), None),
}


@pytest.mark.promise(
    "replies and errors", "A proxy that opens no tunnel has passed nothing on: the request failed and is not ambiguous."
)
@EXCHANGES
@pytest.mark.parametrize("after", AFTER_CONNECT)
def test_without_a_tunnel_nothing_was_sent(exchange, after, monkeypatch, shown):
    behaviour, status = AFTER_CONNECT[after]
    with RecordingProxy() as proxy:
        proxy.behaviour = behaviour
        monkeypatch.setenv("HTTPS_PROXY", f"{CREDENTIALS}@{proxy.host}")
        settings = settings_of(HTTPS, timeout=0.3 if "hangs" in after else 60.0)
        for name in ("qa", "upload"):
            error, text = failure_of(exchange, settings, name)
            shown(text)
            assert f"the proxy {proxy.host}" in text
            assert not status or f"answered CONNECT with {status}" in text
            assert status or "tunnel" in after or "HTTPS_PROXY" in error.todo
        assert all(head.startswith(f"CONNECT {NAME}:443 ") and KEY not in head for head in proxy.heads)


@EXCHANGES
def test_a_service_that_is_not_trusted_behind_a_proxy_got_nothing(exchange, service, tmp_path, monkeypatch, shown):
    service, proxy = service
    monkeypatch.setenv("HTTPS_PROXY", f"{CREDENTIALS}@{proxy.host}")
    other, _ = certificate(tmp_path)
    error, text = failure_of(exchange, settings_of(HTTPS, verify=str(other)))
    shown(text)
    assert "CERTIFICATE_VERIFY_FAILED" in error.happened
    assert service.received == []


@EXCHANGES
@pytest.mark.parametrize("status", ["407", "502"])
def test_a_page_of_a_proxy_without_a_tunnel_shows_no_secret(exchange, status, monkeypatch, shown):
    with RecordingProxy() as proxy:
        monkeypatch.setenv("http_proxy", f"http://{CREDENTIALS}@{proxy.host}")
        proxy.behaviour = echoes(status)
        reply = redactor_of(HTTP, KEY).response(exchange(settings_of(HTTP)))
    assert reply.status == int(status)
    error = error_of(CALLS["qa"], reply)
    assert error.maybe_done == (status == "502")
    shown(str(error), repr(reply))
