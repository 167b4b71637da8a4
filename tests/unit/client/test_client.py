"""The client on real sockets: how many connections, through which proxy, behind which certificate."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.flow import RetryPolicy
from airflow_provider_assistant.exceptions import AssistantConnectionError, AssistantInputError
from tests import proxies
from tests.wire import Answer, ScriptedService, client_of

CALL = endpoints.get_limits("acme-inc")
ONCE = RetryPolicy(attempts=1)
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(autouse=True)
def idle_connections_stay_open(monkeypatch):
    for transport in ("aiohttp_transport", "httpx_transport"):
        monkeypatch.setattr(f"airflow_provider_assistant.client.{transport}.KEEPALIVE_SECONDS", 600.0)


class CountingService(ScriptedService):
    """
    Count the connections that are open, that were open at once, and all connections.

    No request is answered before ``at_once`` connections were open, so that a busy machine cannot keep them apart.
    """

    def __init__(self, *answers, context=None, at_once=1) -> None:
        super().__init__(*answers)
        self.open = self.most = 0
        enough = threading.Event()
        if context:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self._server.handle_error = lambda *_: None
        handler = self._server.RequestHandlerClass
        counted = self

        class Counted(handler):
            def setup(self):
                with counted._lock:
                    counted.open += 1
                    counted.most = max(counted.most, counted.open)
                    if counted.most >= at_once:
                        enough.set()
                enough.wait(60)
                super().setup()

            def finish(self):
                try:
                    super().finish()
                finally:
                    with counted._lock:
                        counted.open -= 1

        self._server.RequestHandlerClass = Counted


def in_threads(client, count):
    with ThreadPoolExecutor(count) as pool:
        return [reply.raw for reply in pool.map(client.send, [CALL] * count)]


def in_tasks(client, count):
    async def run():
        async with client:
            return [reply.raw for reply in await asyncio.gather(*(client.asend(CALL) for _ in range(count)))]

    return asyncio.run(run())


def one(client):
    with client:
        return [client.send(CALL).raw]


def one_in_a_task(client):
    return in_tasks(client, 1)


WAYS = pytest.mark.parametrize("many", [in_threads, in_tasks])
ONE_WAYS = pytest.mark.parametrize("send", [one, one_in_a_task])


@WAYS
@pytest.mark.parametrize("most", [1, 3])
def test_connections_are_bounded(many, most):
    with CountingService(Answer(body={"n": 1}, delay=0.03), at_once=most) as service:
        client = client_of(service.url, max_concurrency=most)
        assert many(client, 12) == [{"n": 1}] * 12
        client.close()
        assert service.most == most
        assert service.connections == most
        assert len(service.received) == 12


def test_connections_are_kept_and_closed_and_opened_again():
    with CountingService() as service:
        client = client_of(service.url)
        for _ in range(3):
            client.send(CALL)
        assert service.connections == 1
        client.close()
        client.close()
        client.send(CALL)
        assert service.connections == 2
        client.close()


def test_under_asyncio_in_one_loop_after_another():
    with CountingService() as service:
        client = client_of(service.url)

        async def thrice():
            async with client:
                for _ in range(3):
                    await client.asend(CALL)
            await client.aclose()

        for connections in (1, 2):
            asyncio.run(thrice())
            assert service.connections == connections


def test_threads_share_a_client():
    with CountingService(*(Answer(body={"n": number}) for number in range(60))) as service:
        client, replies = client_of(service.url, max_concurrency=4), []

        def sends():
            for _ in range(10):
                reply = client.send(CALL)
                replies.append(reply.raw["n"])

        threads = [threading.Thread(target=sends) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        client.close()
        assert sorted(replies) == list(range(60))
        assert service.most <= 4


@ONE_WAYS
@pytest.mark.parametrize("spelling", [str.lower, str.upper])
def test_a_proxy_of_the_environment(send, spelling, monkeypatch):
    with ScriptedService(Answer(body={"by": "proxy"})) as proxy:
        monkeypatch.setenv(spelling("http_proxy"), proxy.url.removesuffix("/api/v1"))
        assert send(client_of("http://assistant.invalid/api/v1", retry=ONCE)) == [{"by": "proxy"}]
        (received,) = proxy.received
        assert received.path == "http://assistant.invalid/api/v1/m2m/tenants/acme-inc/limits"


@ONE_WAYS
@pytest.mark.parametrize("exceptions", ["127.0.0.1", "localhost,127.0.0.1", "*"])
def test_hosts_in_no_proxy_bypass_the_proxy(send, exceptions, monkeypatch):
    with (
        ScriptedService(Answer(body={"by": "proxy"})) as proxy,
        ScriptedService(Answer(body={"by": "self"})) as service,
    ):
        monkeypatch.setenv("http_proxy", proxy.url.removesuffix("/api/v1"))
        monkeypatch.setenv("no_proxy", exceptions)
        assert send(client_of(service.url, retry=ONCE)) == [{"by": "self"}]
        assert proxy.received == []


@ONE_WAYS
def test_a_proxy_for_another_scheme_is_not_used(send, monkeypatch):
    with ScriptedService(Answer(body={"by": "self"})) as service:
        monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
        assert send(client_of(service.url, retry=ONCE)) == [{"by": "self"}]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return proxies.certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def secure(certificate):
    context = proxies.server_context(certificate)
    with CountingService(Answer(body={"safe": True}), context=context) as service:
        yield service


def https(service):
    return service.url.replace("http:", "https:")


@ONE_WAYS
def test_an_unknown_certificate_is_refused(send, secure):
    with pytest.raises(AssistantConnectionError, match=r"(?i)certificate") as refused:
        send(client_of(https(secure), retry=ONCE))
    assert "set ca_bundle" in refused.value.todo
    assert secure.received == []


@ONE_WAYS
def test_a_ca_bundle_verifies_a_certificate(send, secure, certificate):
    assert send(client_of(https(secure), retry=ONCE, verify=str(certificate[0]))) == [{"safe": True}]


@ONE_WAYS
def test_a_ca_bundle_from_the_environment_verifies_a_certificate(send, secure, certificate, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    assert send(client_of(https(secure), retry=ONCE)) == [{"safe": True}]


@ONE_WAYS
def test_a_certificate_for_another_host_is_refused(send, secure, certificate):
    url = https(secure).replace("127.0.0.1", "localhost")
    with pytest.raises(AssistantConnectionError, match=r"(?i)certificate|hostname"):
        send(client_of(url, retry=ONCE, verify=str(certificate[0])))
    assert secure.received == []


@ONE_WAYS
def test_verification_can_be_switched_off(send, secure):
    assert send(client_of(https(secure), retry=ONCE, verify=False)) == [{"safe": True}]


@ONE_WAYS
def test_an_unreadable_ca_bundle_is_an_error_before_anything_is_sent(send, secure, tmp_path):
    (tmp_path / "no.pem").write_text("no certificate")
    for bundle in (tmp_path / "missing.pem", tmp_path / "no.pem", tmp_path):
        with pytest.raises(AssistantInputError, match="ca_bundle") as caught:
            send(client_of(https(secure), retry=ONCE, verify=str(bundle)))
        assert caught.value.field == "ca_bundle"
    assert secure.received == []
