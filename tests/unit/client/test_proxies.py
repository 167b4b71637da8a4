"""What a proxy gets, and what a proxy that opens no tunnel means: nothing was sent."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gc
import logging
import random
import string
import time
import traceback
import warnings
from urllib.parse import quote

import pytest

from airflow_provider_assistant.api import errors
from airflow_provider_assistant.api.call import Response, TransportFailure
from airflow_provider_assistant.api.flow import RetryPolicy
from airflow_provider_assistant.client.aiohttp_transport import AiohttpTransport
from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.client.httpx_transport import HttpxTransport
from airflow_provider_assistant.client.proxies import proxy_for
from airflow_provider_assistant.client.redaction import redactor_of
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import AssistantGatewayError, AssistantInputError
from tests.hostile import CALLS
from tests.proxies import NAME, RecordingProxy, certificate, echoes, hangs, says, server_context, tls_front
from tests.wire import SHORT_TIMEOUT, Answer, ScriptedService, refusing_port

KEY = "canary-key-0123456789"
PASSWORD = "canary p@ss:w/ord#ü%"
USER = "us er"
TOKEN = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
CREDENTIALS = f"{quote(USER)}:{quote(PASSWORD, safe='')}"
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def service(pair):
    """Return a service, also reachable with TLS, and a proxy in front of both."""
    with (
        ScriptedService(Answer(body={"answer": "a", "request_id": "r1"})) as service,
        tls_front(service.host, server_context(pair)) as front,
        RecordingProxy(service.host, front) as proxy,
    ):
        yield service, proxy


def settings_of(url, pair, timeout=60.0, **changes):
    return ClientSettings(url, KEY, timeout=timeout, verify=str(pair[0]), **changes)


def exchange(settings, call):
    transport = HttpxTransport(settings)
    with contextlib.closing(transport):
        return redactor_of(settings.base_url, KEY).outcome(transport.exchange(call))


def aexchange(settings, call):
    async def run():
        transport = AiohttpTransport(settings)
        try:
            return await transport.exchange(call)
        finally:
            await transport.close()

    return redactor_of(settings.base_url, KEY).outcome(asyncio.run(run()))


WAYS = pytest.mark.parametrize("way", [exchange, aexchange])


@pytest.mark.promise(
    "security", "A proxy with a tunnel never sees the API key, and the service never the password of the proxy."
)
@WAYS
def test_a_proxy_with_a_tunnel_gets_its_own_credentials_only(way, service, pair, monkeypatch):
    service, proxy = service
    for number, call in enumerate(CALLS.values()):
        credentials = ("", f"{CREDENTIALS}@", "only-a-user@")[number % 3]
        monkeypatch.setenv("https_proxy", f"http://{credentials}{proxy.host}")
        del proxy.heads[:]
        outcome = way(settings_of(f"https://{NAME}/api/v1", pair), call)
        assert isinstance(outcome, Response)
        (head,) = proxy.heads
        names = {line.partition(":")[0].lower() for line in head.splitlines()[1:] if line}
        assert head.startswith(f"CONNECT {NAME}:443 ")
        assert names <= {"host", "accept", "accept-encoding", "cache-control", "user-agent", "proxy-authorization"}
        assert ("proxy-authorization" in names) == bool(credentials)
        assert KEY not in head
        assert number % 3 != 1 or f"Proxy-Authorization: Basic {TOKEN}\n" in head
    name = "x-api-key"
    assert len(service.received) == len(CALLS)
    for received in service.received:
        assert KEY in received.headers[name]
        assert "proxy-authorization" not in received.headers


@WAYS
def test_without_a_tunnel_the_proxy_gets_both_and_the_service_only_the_key(way, service, pair, monkeypatch):
    service, proxy = service
    monkeypatch.setenv("http_proxy", f"http://{CREDENTIALS}@{proxy.host}")
    for call in CALLS.values():
        assert isinstance(way(settings_of(f"http://{NAME}/api/v1", pair), call), Response)
    assert len(proxy.heads) == len(service.received) == len(CALLS)
    assert all(f"Proxy-Authorization: Basic {TOKEN}\n" in head for head in proxy.heads)
    for received in service.received:
        assert received.headers["x-api-key"] == KEY
        assert "proxy-authorization" not in received.headers


@WAYS
def test_a_proxy_with_tls(way, service, pair, monkeypatch):
    service, plain = service
    with RecordingProxy(plain.service, plain.tls_service, server_context(pair)) as proxy:
        for scheme in ("http", "https"):
            monkeypatch.setenv(f"{scheme}_proxy", f"https://{CREDENTIALS}@{proxy.host}")
            outcome = way(settings_of(f"{scheme}://{NAME}/api/v1", pair), CALLS["qa"])
            assert isinstance(outcome, Response), outcome
    assert [head.split()[0] for head in proxy.heads] == ["POST", "CONNECT"]


SPELLINGS = {
    "{}": "http",
    "//{}": "http",
    "http://{}": "http",
    "HTTP://{}/": "http",
    "https://{}": "https",
    "  http://{}/?a=b ": "http",
}


def test_a_proxy_is_read_in_any_spelling(monkeypatch):
    rng = random.Random(3)
    for spelling, scheme in SPELLINGS.items():
        for variable in ("https_proxy", "ALL_PROXY"):
            for address in ("proxy.corp:3128", "10.1.2.3:8080", "[fd00::1]:3128", "proxy"):
                password = "".join(rng.choices(string.punctuation + string.ascii_letters + "ü", k=12))
                for credentials in ("", "user@", f"user:{quote(password, safe='')}@"):
                    monkeypatch.setenv(variable, spelling.format(credentials + address))
                    proxy = proxy_for("https://assistant.example/api/v1")
                    port = "" if ":" in address else ":443" if scheme == "https" else ":80"
                    assert proxy.url == f"{scheme}://{address}{port}"
                    assert bool(proxy.headers) == bool(credentials)
                    assert "user" not in repr(proxy)
                    assert not proxy.headers or proxy.headers["Proxy-Authorization"] not in repr(proxy)
            monkeypatch.delenv(variable)


UNUSABLE = [
    "socks5://{}127.0.0.1:9",
    "socks5h://{}127.0.0.1:9",
    "socks4://{}127.0.0.1:9",
    "SOCKS://{}127.0.0.1:9",
    "ftp://{}127.0.0.1:9",
    "http://{}",
    "http://{}:9",
    "http://{}127.0.0.1:port",
    "http://{}127.0.0.1:99999",
    "http://{}[::1",
    "http://{}my proxy:80",
    "http://user:pass/canary@127.0.0.1:9",
    "http://user:1#canary@127.0.0.1:9",
    "user:1?canary@127.0.0.1:9",
]


@WAYS
def test_a_proxy_that_cannot_be_used_is_refused_by_the_name_of_its_variable(way, pair, monkeypatch):
    for text in UNUSABLE:
        for scheme in ("http", "https"):
            monkeypatch.setenv(f"{scheme}_proxy", text.format("user:canary@"))
            with pytest.raises(AssistantInputError, match=f"{scheme.upper()}_PROXY") as caught:
                way(settings_of(f"{scheme}://assistant.test/api/v1", pair), CALLS["qa"])
            shown = "".join(traceback.format_exception(caught.value))
            assert "canary" not in shown.replace(text, "")
            if text.lower().startswith("socks"):
                assert text.lower().partition(":")[0] in str(caught.value)


@pytest.mark.parametrize(
    ("exceptions", "excepted"),
    [
        ("*", ["a.corp", "10.1.2.3:8080", "[fd00::1]:8443"]),
        ("a.corp,  b.corp:8080", ["a.corp", "x.a.corp:1", "b.corp:8080"]),
        (".corp", ["a.corp", "x.a.corp:1"]),
        ("10.0.0.0/8, fd00::/8", ["10.1.2.3:8080", "10.255.0.1", "[fd00::1]:8443", "[fd00::1]"]),
        ("10.1.2.3,fd00::1", ["10.1.2.3:8080", "[fd00::1]:8443"]),
        ("[fd00::1]", ["[fd00::1]:8443", "[fd00::1]"]),
        ("*.corp a.b.Corp.\t,,x", ["a.corp", "x.a.corp:1", "A.CORP", "corp"]),
        ("localhost, *", ["a.corp", "10.1.2.3:8080"]),
        ("a.corp:443,[fd00::1]:8443 10.1.2.3:8080", ["a.corp", "a.corp:443", "[fd00::1]:8443", "10.1.2.3:8080"]),
        ("10.1.2.0/24:443, fd00::/64", ["10.1.2.3", "[fd00::9]:1"]),
    ],
)
def test_which_hosts_bypass_the_proxy(exceptions, excepted, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "proxy:3128")
    monkeypatch.setenv("NO_PROXY", exceptions)
    assert [host for host in excepted if proxy_for(f"https://{host}/api/v1")] == []
    for host in ("b.corp.example", "a-corp", "c.corporation:8080", "11.1.2.3", "[fe00::1]", "[fd00:1::1]:8444"):
        is_in_network = "fd00::/8" in exceptions and host.startswith("[fd")
        assert "*" in exceptions.split() or is_in_network or proxy_for(f"https://{host}/api/v1")


def test_a_port_of_an_exception_is_that_of_the_url(monkeypatch):
    monkeypatch.setenv("ALL_PROXY", "proxy:3128")
    monkeypatch.setenv("NO_PROXY", "a.corp:443 [fd00::1]:80 10.0.0.0/8:8080 b.corp:nonsense :80 / [ ]")
    direct = ["https://a.corp", "http://a.corp:443", "http://[fd00::1]", "https://10.1.2.3:8080"]
    assert [url for url in direct if proxy_for(url)] == []
    through = ["http://a.corp", "https://a.corp:8443", "https://[fd00::1]", "https://10.1.2.3", "https://b.corp"]
    assert [proxy_for(url).variable for url in through] == ["ALL_PROXY"] * len(through)


def test_which_variable_names_the_proxy(monkeypatch):
    monkeypatch.setenv("ALL_PROXY", "all:1")
    monkeypatch.setenv("HTTPS_PROXY", "secure:1")
    monkeypatch.setenv("HTTP_PROXY", "plain:1")
    found = [proxy_for(f"{scheme}://a.corp") for scheme in ("http", "https")]
    assert [(proxy.address, proxy.variable) for proxy in found] == [
        ("plain:1", "HTTP_PROXY"),
        ("secure:1", "HTTPS_PROXY"),
    ]
    monkeypatch.setenv("https_proxy", "lower:1")
    # A CGI program gets HTTP_PROXY from the header of a request.
    monkeypatch.setenv("REQUEST_METHOD", "GET")
    assert [proxy_for(f"{scheme}://a.corp").address for scheme in ("http", "https")] == ["all:1", "lower:1"]
    # An empty variable in lower case switches the proxy off.
    monkeypatch.setenv("https_proxy", "")
    monkeypatch.setenv("all_proxy", "")
    assert [proxy_for(f"{scheme}://a.corp") for scheme in ("http", "https")] == [None, None]


AFTER_CONNECT = {
    **{
        f"{status}": (echoes(status), status)
        for status in ("301", "400", "403", "407", "429", "500", "502", "503", "599")
    },
    "1xx first": (says(b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 502 Bad\r\n\r\n"), None),
    "407, half a body": (says(b"HTTP/1.1 407 No\r\nContent-Length: 99\r\n\r\nhalf"), "407"),
    "407, no length": (says(b"HTTP/1.0 407 No\r\n\r\npage"), "407"),
    "half a line": (says(b"HTTP/1.1 2"), None),
    "half of the headers": (says(b"HTTP/1.1 200 OK\r\nVia: x"), None),
    "garbage": (says(b"\x00\x16\x03 garbage \xff\r\n\r\n"), None),
    "SSH": (says(b"SSH-2.0-OpenSSH_9.7\r\n"), None),
    "closes": (says(), None),
    "tunnel, then closes": (says(ESTABLISHED), None),
    "tunnel, then garbage": (says(ESTABLISHED, b"garbage instead of TLS\r\n" * 9), None),
    "tunnel with a body, then closes": (says(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"), None),
}
HANGING = {
    "hangs": hangs(),
    "half a line, then hangs": hangs(b"HTTP/1.1 2"),
    "tunnel, then hangs": hangs(ESTABLISHED),
}


def failures_of(way, pair, monkeypatch, proxy, calls, timeout=60.0):
    """Return the failures of these calls through a proxy with credentials, which are in nothing that is shown."""
    monkeypatch.setenv("HTTPS_PROXY", f"{CREDENTIALS}@{proxy}")
    for name in calls:
        outcome = way(settings_of(f"https://{NAME}/api/v1", pair, timeout), CALLS[name])
        assert isinstance(outcome, TransportFailure), outcome
        assert (outcome.kind, outcome.sent) == ("connection", False), outcome
        assert not errors.may_have_happened(CALLS[name], outcome)
        error = errors.from_failure(CALLS[name], outcome)
        text = f"{error} {error.todo} {outcome!r}"
        assert f"proxy {proxy}" in text
        assert ("ca_bundle" if "CERTIFICATE" in text else "HTTPS_PROXY") in text
        assert text.isprintable()
        yield outcome, text


@pytest.fixture
def shown(caplog, only_new_garbage):
    """Return a function that asserts that no log and no warning has a secret."""
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


@pytest.mark.promise(
    "replies and errors", "A proxy that opens no tunnel has passed nothing on: the request failed and is not ambiguous."
)
@WAYS
def test_without_a_tunnel_nothing_was_sent(way, pair, monkeypatch, shown):
    with RecordingProxy() as proxy:
        for name, (behaviour, status) in AFTER_CONNECT.items():
            proxy.behaviour = behaviour
            for outcome, text in failures_of(way, pair, monkeypatch, proxy.host, ("qa", "upload")):
                shown(text)
                if status:
                    assert f"the proxy {proxy.host} answered CONNECT with {status}" in outcome.detail, name
        for behaviour in HANGING.values():
            proxy.behaviour = behaviour
            for outcome, text in failures_of(way, pair, monkeypatch, proxy.host, ("qa",), timeout=0.3):
                shown(text)
                assert "no connection within 0.3 s" in outcome.detail
        assert all(head.startswith(f"CONNECT {NAME}:443 ") for head in proxy.heads)
        shown(*(head for head in proxy.heads if "Proxy-Authorization" not in head))
        assert not any(KEY in head for head in proxy.heads)


def test_of_32_requests_that_the_proxy_refuses_at_once_none_is_ambiguous(pair, monkeypatch):
    async def run(settings):
        async with AssistantClient(settings) as client:
            calls = [client.asend(CALLS["qa"]) for _ in range(32)]
            return await asyncio.gather(*calls, return_exceptions=True)

    with RecordingProxy() as proxy:
        proxy.behaviour = echoes("407")
        monkeypatch.setenv("HTTPS_PROXY", f"{CREDENTIALS}@{proxy.host}")
        url = f"https://{NAME}/api/v1"
        failures = asyncio.run(run(settings_of(url, pair, retry=RetryPolicy(attempts=1))))
        assert {type(failure) for failure in failures} == {AssistantGatewayError}
        assert len(proxy.heads) == 32


@WAYS
def test_a_proxy_that_cannot_be_reached(way, pair, monkeypatch, shown):
    with refusing_port() as port:
        for address in (f"127.0.0.1:{port}", "proxy.invalid:3128"):
            for _, text in failures_of(way, pair, monkeypatch, address, ("qa", "upload", "limits")):
                shown(text)


@WAYS
def test_a_service_that_is_not_trusted_behind_a_proxy_got_nothing(way, service, pair, tmp_path, monkeypatch):
    service, proxy = service
    other = certificate(tmp_path)
    for outcome, _ in failures_of(way, other, monkeypatch, proxy.host, ("qa", "upload")):
        assert "certificate" in outcome.detail.lower()
    assert service.received == []


@WAYS
def test_a_407_without_a_tunnel_is_of_the_proxy_as_well(way, pair, monkeypatch, shown):
    with RecordingProxy() as proxy:
        monkeypatch.setenv("http_proxy", f"http://{CREDENTIALS}@{proxy.host}")
        settings = settings_of(f"http://{NAME}/api/v1", pair)
        for status in ("407", "502"):
            proxy.behaviour = echoes(status)
            outcome = way(settings, CALLS["qa"])
            if status == "407":
                assert (outcome.kind, outcome.sent) == ("connection", False)
                assert f"the proxy {proxy.host} answered with 407" in outcome.detail
                shown(repr(outcome))
            else:
                # It may have reached the service, and its page repeats everything.
                shown(str(errors.from_response(CALLS["qa"], outcome, 0.0)), repr(outcome))


@WAYS
def test_the_response_timeout_starts_once_the_tunnel_stands(way, service, pair, monkeypatch):
    service, proxy = service
    tunnel = proxy._tunnel

    def late(request):
        time.sleep(1.5 * SHORT_TIMEOUT)
        tunnel(request)

    monkeypatch.setattr(proxy, "_tunnel", late)
    monkeypatch.setenv("https_proxy", proxy.host)
    for transport in ("aiohttp_transport", "httpx_transport"):
        name = f"airflow_provider_assistant.client.{transport}.connect_timeout"
        monkeypatch.setattr(name, lambda _: 60.0)
    settings = settings_of(f"https://{NAME}/api/v1", pair, SHORT_TIMEOUT)
    assert isinstance(way(settings, CALLS["qa"]), Response)
