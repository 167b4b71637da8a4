"""Loads, chats, batches and polls behind real gateways. The record of the embedded service is the truth."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.payloads import ChatMessage
from airflow_provider_assistant.exceptions import AssistantError
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.operators.chat import AssistantChatOperator
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator
from airflow_provider_assistant.sensors.chat import AssistantChatRequestSensor
from tests.live import gateways
from tests.live.gateways import PASSWORD, USER, Relay
from tests.proxies import LOCAL_NAME, certificate, server_context, tls_front

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]
ROWS, QUESTIONS = 8, 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gateways")


@pytest.fixture(scope="module")
def pairs(folder: Path) -> dict[str, tuple[Path, Path]]:
    """Certificates and their keys: one that is trusted, an expired and a foreign one."""
    for name in ("own", "expired", "foreign"):
        (folder / name).mkdir()
    return {
        "own": certificate(folder / "own"),
        "expired": certificate(folder / "expired", days=-1),
        "foreign": certificate(folder / "foreign"),
    }


@pytest.fixture(scope="module")
def relay(_server: Any) -> Iterator[Relay]:
    with contextlib.closing(Relay(_server.server.root.removeprefix("http://"))) as relay:
        yield relay


@pytest.fixture(scope="module")
def hosts(relay: Relay, pairs: dict[str, tuple[Path, Path]], folder: Path) -> Iterator[dict[str, str]]:
    """``host:port`` of everything that is in front of the service, by name."""
    with contextlib.ExitStack() as stack:
        found = {"relay": relay.host}
        found |= {f"tls {n}": stack.enter_context(tls_front(relay.host, server_context(p))) for n, p in pairs.items()}
        found["hole"], found["silent"] = stack.enter_context(gateways.black_holes())
        for name in gateways.GATEWAYS:
            if not gateways.missing(name):
                (folder / name).mkdir()
                ports = stack.enter_context(gateways.gateway(name, folder / name, relay.host, pairs["own"]))
                found |= {f"{name} {fault}": host for fault, host in ports.items()}
        yield found


@dataclass(frozen=True)
class Place:
    """
    What is between a task and the service.

    :param host: Name of the host, see ``hosts``; with a proxy, the one behind it.
    :param says: Word in the error of every job. Default: empty, the jobs succeed.
    :param proxy: Name of a proxy. Default: empty, none.
    :param user: Credentials of the proxy. Default: empty, none.
    :param extra: Fields of the connection.
    :param is_sent: Whether a request may have been passed on, for all that the reply shows. Default: False.
    """

    host: str
    says: str = ""
    proxy: str = ""
    user: str = ""
    scheme: str = "http"
    extra: dict[str, str] = field(default_factory=dict)
    is_sent: bool = False


VIA_SQUID = partial(Place, host="relay", proxy="squid open")
PLACES = {
    "nginx": Place("nginx open"),
    "nginx, 20 requests per second": Place("nginx limited"),
    "haproxy": Place("haproxy open"),
    "haproxy, one connection": Place("haproxy full"),
    "squid": VIA_SQUID(),
    "squid, tunnel": VIA_SQUID(host="tls own", scheme="https"),
    "squid, password": VIA_SQUID(proxy="squid auth", user=f"{USER}:{PASSWORD}@"),
    "squid, tunnel, password": VIA_SQUID(
        host="tls own", scheme="https", proxy="squid auth", user=f"{USER}:{PASSWORD}@"
    ),
    "nginx, mutual TLS": Place("nginx mutual", scheme="https", extra={"client_cert": "own"}),
    "nginx, no client certificate": Place("nginx mutual", "400", scheme="https"),
    "nginx, foreign client certificate": Place("nginx mutual", "400", scheme="https", extra={"client_cert": "foreign"}),
    "expired certificate": Place("tls expired", "expired", scheme="https", extra={"ca_bundle": "expired"}),
    "foreign certificate": Place("tls foreign", "self-signed", scheme="https"),
    "black hole on connect": Place("hole", "no connection within 1 s"),
    "black hole after connect": Place("silent", "no complete answer within 1 s", is_sent=True),
    "nginx, its password": Place("nginx basic", "401"),
    "nginx, denied": Place("nginx deny", "403"),
    "nginx, login page": Place("nginx login", "200", is_sent=True),
    "nginx, elsewhere": Place("nginx elsewhere", "40"),
    "nginx, service down": Place("nginx down", "502", is_sent=True),
    "nginx, service slow": Place("nginx slow", "504", is_sent=True, extra={"timeout": "5", "chat_timeout": "5"}),
    "haproxy, denied": Place("haproxy denied", "403"),
    "haproxy, service down": Place("haproxy down", "503", is_sent=True),
    "haproxy, no service": Place("haproxy empty", "503", is_sent=True),
    "haproxy, service slow": Place("haproxy slow", "504", is_sent=True, extra={"timeout": "5", "chat_timeout": "5"}),
    "squid, denied": VIA_SQUID(says="403", proxy="squid denied"),
    "squid, no tunnel": VIA_SQUID(says="CONNECT with 403", host="tls own", scheme="https", proxy="squid denied"),
    "squid, wrong password": VIA_SQUID(says="407", proxy="squid auth", user="corp:wrong@"),
    "squid, tunnel, wrong password": VIA_SQUID(
        says="CONNECT with 407", host="tls own", scheme="https", proxy="squid auth", user="corp:wrong@"
    ),
}


class Behind:
    """The jobs of a task behind one place; each returns its error, or an empty text."""

    def __init__(self, run: Callable[..., Any], folder: Path, submit: Callable[[], str]) -> None:
        self._run, self._folder, self._submit = run, folder, submit
        self.findings: list[dict[str, Any]] = []

    def _error(self, operator: Any, **options: Any) -> str:
        done = self._run(operator, **options)
        return "" if done.state == "success" else str(done.error) or done.state

    def load(self) -> str:
        """Load rows (aiohttp)."""
        rows = [{"id": f"r{number}", "title": f"r{number}", "question": "q?", "answer": "a"} for number in range(ROWS)]
        path = self._folder / "findings.parquet"
        error = self._error(AssistantLoadQAOperator, source=rows, key_columns="id", findings_path=str(path))
        self.findings = pq.read_table(path).to_pylist() if path.exists() else []
        return error

    def create(self) -> str:
        """Create one document (httpx)."""
        return error_of(lambda: AssistantHook().create_text_document(title="t", content="c", category="k"))

    def chat(self) -> str:
        """Chat (httpx)."""
        return self._error(AssistantChatOperator, session_id="s", message="Question 1?")

    def achat(self) -> str:
        """Chat (aiohttp)."""

        async def ask() -> None:
            hook = AssistantHook()
            async with hook.async_client() as client:
                message = ChatMessage(session_id="a", message="Question 2?")
                await client.asend(endpoints.chat(hook.resolve_site_id(), message))

        return error_of(lambda: asyncio.run(ask()))

    def batch(self, mode: str = "async") -> str:
        """Ask questions, and poll for their answers (aiohttp)."""
        source = [{"id": f"q{number}", "message": f"Question {number}?"} for number in range(QUESTIONS)]
        output = str(self._folder / f"{mode}.parquet")
        options = {"poll_interval": 0.1, "timeout": 60, "key_columns": "id", "mode": mode}
        error = self._error(AssistantChatBatchOperator, source=source, output_path=output, **options)
        reasons = pq.read_table(output)["error"].drop_null().unique().to_pylist()
        return " ".join([error, *reasons]).strip()

    def batch_of_sync_chats(self) -> str:
        """Ask questions with sync chats (aiohttp)."""
        return self.batch("sync")

    def poll(self, *, deferrable: bool = False) -> str:
        """Wait for an answer in a sensor (httpx)."""
        options = {"poke_interval": 0.1, "timeout": 2, "deferrable": deferrable}
        return self._error(AssistantChatRequestSensor, request_id=self._submit(), **options)

    def apoll(self) -> str:
        """Wait for an answer in the triggerer (aiohttp)."""
        return self.poll(deferrable=True)


JOBS = [Behind.load, Behind.create, Behind.chat, Behind.achat, Behind.batch, Behind.batch_of_sync_chats]
POLLS = [Behind.poll, Behind.apoll]


def error_of(send: Callable[[], object]) -> str:
    try:
        send()
    except AssistantError as error:
        return str(error)
    return ""


@pytest.fixture
def enter(
    service: Any,
    run_operator: Callable[..., Any],
    pairs: dict[str, tuple[Path, Path]],
    hosts: dict[str, str],
    ledger_home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[Place], Behind]:
    """Return a function that leads the connection of tasks through a place."""
    for name in ("NO_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(pairs["own"][0]))

    def submit() -> str:
        """Submit a chat past the gateway."""
        monkeypatch.setenv("AIRFLOW_CONN_PAST", service.server.conn_json(service_name=None))
        with monkeypatch.context() as past:
            past.delenv("HTTP_PROXY", raising=False)
            return AssistantHook("past").submit_chat("s", "Question 3?").request_id

    def enter(place: Place) -> Behind:
        name = place.proxy or place.host
        if name not in hosts:
            pytest.skip(str(gateways.missing(name.partition(" ")[0])))
        host = hosts[place.host]
        if place.proxy:
            monkeypatch.setenv(f"{place.scheme.upper()}_PROXY", f"http://{place.user}{hosts[place.proxy]}")
            host = f"{LOCAL_NAME}:{host.partition(':')[2]}"
        extra = {"timeout": "1" if place.says else "10", "chat_timeout": "1" if place.says else "10"} | place.extra
        if "client_cert" in extra:
            extra["client_cert"], extra["client_key"] = map(str, pairs[extra["client_cert"]])
        if "ca_bundle" in extra:
            extra["ca_bundle"] = str(pairs[extra["ca_bundle"]][0])
        retries = 0 if place.says else 8
        connection = json.loads(service.server.conn_json(service_name=None, retries=retries, **extra))
        connection["host"] = f"{place.scheme}://{host}"
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", json.dumps(connection))
        return Behind(run_operator, tmp_path, submit)

    return enter


@pytest.mark.promise(
    "replies and errors", "Behind real gateways, every job succeeds, or fails with the reason and judges no row."
)
@pytest.mark.parametrize("name", PLACES)
def test_every_job_behind_a_gateway_succeeds_or_fails_with_the_reason(name, enter, service):
    place = PLACES[name]
    behind = enter(place)
    errors, seconds = {}, {}
    for job in JOBS + POLLS:
        started = time.monotonic()
        before = len(service.seen())
        errors[job.__name__] = job(behind)
        seconds[job.__name__] = round(time.monotonic() - started, 1)
        if place.says:
            # A poll begins with a request that is submitted past the gateway.
            assert len(service.seen()) - before == (job in POLLS), job.__name__
    print(f"\n{name}: {seconds}")
    states = {finding["kind"] for finding in behind.findings}
    if place.says:
        unexplained = {job: error for job, error in errors.items() if place.says not in error}
        assert unexplained == {}
        assert "rejected" not in states
        assert place.is_sent or "ambiguous" not in states
    else:
        assert {job: error for job, error in errors.items() if error} == {}
        titles = [document["title"] for document in service.documents()]
        assert sorted(titles) == sorted([*(f"r{number}" for number in range(ROWS)), "t"])


@pytest.mark.promise("loads", "A service that is away for some seconds is waited for inside the task.")
@pytest.mark.parametrize("name", ["relay", "nginx open", "haproxy open"])
def test_a_service_that_is_away_for_some_seconds_is_waited_for(name, enter, service, relay):
    behind = enter(Place(name))
    relay.be_away(4)
    assert behind.load() == ""
    titles = {document["title"] for document in service.documents()}
    assert titles == {f"r{number}" for number in range(ROWS)}
    relay.be_back()
    relay.be_away(3, after=0.3)
    assert behind.batch() == ""
    relay.be_back()
