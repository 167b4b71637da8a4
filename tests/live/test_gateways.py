"""Loads, batches and ratings behind real gateways. The record of the embedded service is the truth."""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator
from airflow_provider_assistant.operators.feedback_batch import AssistantRateAnswersOperator
from tests.live import gateways
from tests.live.gateways import BLOCKED_WORD, Relay
from tests.proxies import LOCAL_NAME, certificate, server_context, tls_front

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]
ROWS, QUESTIONS = 60, 6


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def relay(_server: Any) -> Iterator[Relay]:
    with contextlib.closing(Relay(_server.server.root.removeprefix("http://"))) as relay:
        yield relay


@pytest.fixture(scope="module")
def hosts(
    relay: Relay, pair: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, dict[str, str]]]:
    """The addresses of all gateways that are installed, by gateway and fault."""
    with contextlib.ExitStack() as stack:
        found = {"relay": {"open": relay.host}}
        for name in gateways.GATEWAYS:
            if not gateways.missing(name):
                folder = tmp_path_factory.mktemp(name)
                found[name] = stack.enter_context(gateways.gateway(name, folder, relay.host, pair))
        found["tls"] = {"open": stack.enter_context(tls_front(relay.host, server_context(pair)))}
        yield found


class Behind:
    """
    What is done behind one gateway, and what came of it.

    :param folder: Folder of the findings and answers.
    """

    def __init__(self, service: Any, run: Callable[..., Any], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._service, self._run, self._folder, self._monkeypatch = service, run, folder, monkeypatch

    def connect(self, url: str, **extra: Any) -> None:
        """Let the connection lead to this URL."""
        connection = json.loads(self._service.server.conn_json(**{"service_name": None, **extra}))
        connection["host"] = url
        self._monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", json.dumps(connection))

    def proxied(self, proxy: str) -> None:
        """Let requests go through a proxy."""
        for name in ("NO_PROXY", "no_proxy", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy"):
            self._monkeypatch.delenv(name, raising=False)
        for name in ("HTTP_PROXY", "HTTPS_PROXY"):
            self._monkeypatch.setenv(name, f"http://{proxy}")

    def load(self, *blocked: int, large: int | None = None, **options: Any) -> Loaded:
        """Load rows; some contain a word that a firewall blocks, one is large."""
        rows = [{"id": f"r{number}", "title": f"r{number}", "question": "q?", "answer": "a"} for number in range(ROWS)]
        for number in blocked:
            rows[number]["answer"] = BLOCKED_WORD
        if large is not None:
            rows[large]["answer"] = "x" * 9_000
        path = self._folder / "load.parquet"
        path.unlink(missing_ok=True)
        arguments = {
            "max_rejected": len(blocked) + (large is not None),
            "key_columns": "id",
            "findings_path": str(path),
            **options,
        }
        done = self._run(AssistantLoadQAOperator, source=rows, **arguments)
        stored = Counter(document["title"] for document in self._service.documents())
        return Loaded(done, pq.read_table(path).to_pylist() if path.exists() else [], stored)

    def ask(self) -> Any:
        """Ask a batch of questions."""
        source = [{"id": f"q{number}", "message": f"Question {number}?"} for number in range(QUESTIONS)]
        return self._run(
            AssistantChatBatchOperator, source=source, key_columns="id", poll_interval=0.1, timeout=120,
            output_path=str(self._folder / "answers.parquet"),
        )  # fmt: skip

    def rate(self) -> Any:
        """Rate answers that do not exist: a gateway that passes the ratings on leads to refusals of the service."""
        requests = [f"r{number}" for number in range(30)]
        paths = {name: str(self._folder / f"{name}.parquet") for name in ("answers", "scores")}
        pq.write_table(pa.table({"request_id": requests, "session_id": ["s"] * 30}), paths["answers"])
        scores = {"key": requests, "request_id": requests, "status": ["complete"] * 30, "mark": [1.0] * 30}
        pq.write_table(pa.table(scores), paths["scores"])
        return self._run(AssistantRateAnswersOperator, rules={"good": "mark >= 1"}, **paths)


def error_of(run: Any) -> str:
    """Return the error of a task, or an empty text."""
    return str(run.error) if run.state == "failed" else ""


class Loaded:
    """The result of a load, its findings, and the documents that the service stores."""

    def __init__(self, run: Any, findings: list[dict[str, Any]], stored: Counter[str]) -> None:
        self.findings, self.stored = findings, stored
        self.state, self.error = run.state, error_of(run)

    def keys(self, *kinds: str) -> set[str]:
        """Return the keys in findings of these kinds."""
        return {one["key"].removeprefix("id=") for one in self.findings if one["kind"] in kinds}


@pytest.fixture
def behind(
    service: Any, ledger_home: Path, run_operator: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    relay: Relay,
    pair: tuple[Path, Path],
) -> Behind:  # fmt: skip
    relay.be_back()
    monkeypatch.setenv("SSL_CERT_FILE", str(pair[0]))
    return Behind(service, run_operator, tmp_path, monkeypatch)


def address(hosts: dict[str, dict[str, str]], place: str) -> str:
    name, _, fault = place.partition(" ")
    if name not in hosts:
        pytest.skip(str(gateways.missing(name)))
    return hosts[name][fault]


ALL = range(ROWS)
# Gateways that answer every request themselves, the URL, and words of the error.
STOPPED = {
    "nginx basic": ("http", "nginx"),
    "nginx deny": ("http", "nginx"),
    "nginx login": ("http", "nginx"),
    "nginx elsewhere": ("http", "nginx"),
    "nginx misdirected": ("http", "nginx"),
    "nginx headers": ("http", "nginx"),
    "nginx mutual": ("https", "nginx"),
    "nginx mutual ": ("http", "nginx"),
    "haproxy denied": ("http", "gateway"),
}


@pytest.mark.promise("replies and errors", "A gateway that answers in place of the service judges no row and is named.")
@pytest.mark.parametrize("place", STOPPED)
def test_a_gateway_that_answers_everything_stops_the_task_and_is_named(place, hosts, behind, service):
    scheme, name = STOPPED[place]
    behind.connect(f"{scheme}://{address(hosts, place.strip())}/api/v1")
    started = time.monotonic()
    loaded, asked, rated = behind.load(), behind.ask(), behind.rate()
    assert time.monotonic() - started < 60
    assert service.seen() == []
    assert loaded.keys("rejected", "ambiguous", "possibly_duplicated") == set()
    for error in (loaded.error, error_of(asked), error_of(rated)):
        assert name in error
    behind.connect(service.server.url)
    assert behind.load().stored == Counter(f"r{number}" for number in ALL)


@pytest.mark.promise("loads", "A row that a firewall blocks is rejected, and the others are loaded.")
@pytest.mark.parametrize("rows", [(59,), (7, 30)])
def test_a_row_that_a_firewall_blocks_is_rejected_and_the_others_are_loaded(rows, hosts, behind):
    behind.connect(f"http://{address(hosts, 'haproxy word')}/api/v1")
    check_rejected(behind.load(*rows), rows, "403")


def test_a_row_that_is_too_large_for_a_gateway_is_rejected_and_the_others_are_loaded(hosts, behind):
    behind.connect(f"http://{address(hosts, 'nginx small')}/api/v1")
    check_rejected(behind.load(large=7), (7,), "413")


def check_rejected(loaded, rows, status):
    assert loaded.error == ""
    assert loaded.keys("rejected") == {f"r{number}" for number in rows}
    assert all(status in one["reason"] for one in loaded.findings)
    assert loaded.stored == Counter(f"r{number}" for number in ALL if number not in rows)


@pytest.mark.parametrize("place", ["nginx limited", "haproxy full"])
def test_a_gateway_with_too_many_requests_slows_a_load_down(place, hosts, behind):
    behind.connect(f"http://{address(hosts, place)}/api/v1")
    loaded = behind.load()
    assert loaded.error == ""
    assert loaded.stored == Counter(f"r{number}" for number in ALL)


@pytest.mark.parametrize("place", ["nginx down", "nginx slow", "haproxy down", "haproxy empty", "haproxy slow"])
def test_a_gateway_whose_service_is_away_ends_a_load_without_retries(place, hosts, behind, service):
    behind.connect(f"http://{address(hosts, place)}/api/v1", retries=1)
    loaded = behind.load()
    assert loaded.state == "failed"
    assert service.seen() == []
    assert loaded.keys("rejected", "created") == set()
    # Each try is one row, and the gateway may have passed it on.
    assert len(loaded.keys("ambiguous")) <= 15
    behind.connect(service.server.url)
    assert behind.load().stored == Counter(f"r{number}" for number in ALL)


@pytest.mark.promise("loads", "A service that is away for some seconds is waited for inside the task.")
@pytest.mark.parametrize("place", ["relay open", "nginx open", "haproxy open"])
@pytest.mark.parametrize("on_ambiguous", ["retry", "skip"])
def test_a_service_that_is_away_for_some_seconds_is_waited_for(place, on_ambiguous, hosts, behind, relay):
    behind.connect(f"http://{address(hosts, place)}/api/v1")
    relay.be_away(4)
    loaded = behind.load(on_ambiguous=on_ambiguous)
    assert loaded.error == ""
    left = loaded.keys("ambiguous")
    assert set(loaded.stored) | left == {f"r{number}" for number in ALL}
    assert {title for title, times in loaded.stored.items() if times > 1} <= loaded.keys("possibly_duplicated")
    assert len(left) <= 12
    relay.be_back()
    relay.be_away(3, after=0.3)
    assert behind.ask().state == "success"


@pytest.mark.parametrize("place", ["nginx open", "haproxy open"])
def test_a_reply_that_a_gateway_cut_off_leaves_the_row_in_doubt(place, hosts, behind, service):
    """The service has the row; the gateway waits for a second, and answers 504."""
    service.answer("delay:2", times=3, skip=20, method="POST")
    behind.connect(f"http://{address(hosts, place)}/api/v1")
    loaded = behind.load()
    assert loaded.error == ""
    twice = {title for title, times in loaded.stored.items() if times > 1}
    listed = loaded.keys("possibly_duplicated")
    assert len(listed) == 3
    assert twice <= listed


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("fault", ["open", "auth", "auth wrong", "denied", "unknown", "closed"])
def test_squid(fault, scheme, hosts, behind, service):
    """A forward proxy: what it does not pass on is not sent."""
    place, _, wrong = fault.partition(" ")
    host = address(hosts, f"squid {place if place in {'auth', 'denied'} else 'open'}")
    user = "corp:wrong@" if wrong else f"{gateways.USER}:{gateways.PASSWORD}@" if place == "auth" else ""
    behind.proxied(user + host)
    target = hosts["tls" if scheme == "https" else "relay"]["open"].partition(":")[2]
    name = "nowhere.test" if place == "unknown" else LOCAL_NAME
    behind.connect(f"{scheme}://{name}:{1 if place == 'closed' else target}/api/v1", retries=0)
    loaded = behind.load()
    if place == "open" or (place == "auth" and not wrong):
        assert loaded.error == ""
        assert loaded.stored == Counter(f"r{number}" for number in ALL)
        return
    assert service.seen() == []
    assert loaded.state == "failed"
    assert "squid" in loaded.error or host in loaded.error
    if scheme == "https":
        assert loaded.keys("rejected", "ambiguous", "possibly_duplicated") == set()
    assert loaded.keys("rejected") == set()
