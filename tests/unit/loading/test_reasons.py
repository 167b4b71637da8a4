"""Which reason a row keeps: that of the attempt that was sent, whatever stops the load afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from airflow_provider_assistant.loading.engine import Load

from airflow_provider_assistant.api import flow
from airflow_provider_assistant.api.call import Response, TransportFailure
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import AssistantError
from airflow_provider_assistant.ledger import DocumentScope, Ledger, RunRef, sqlite_engine
from airflow_provider_assistant.ledger.schema import documents
from airflow_provider_assistant.loading.findings import FindingsFile
from airflow_provider_assistant.loading.options import LoadOptions
from tests.sites import site_at
from tests.unit.loading.scripted_client import ScriptedClient, text_rows
from tests.virtual_time import simulated

PAGE = {"content-type": "text/html", "server": "nginx"}
# How far an attempt gets: the service never sees it, it may, or it judges it.
UNSENT = ["no connection", "tunnel 502", "403 page", "429", "408 page"]
PERHAPS = ["timeout", "broken", "502 page", "503 page", "504", "200 page"]
STOPS = ["401", "tunnel 407", "login page", "421"]


class Sequence:
    """Gives each attempt of each row a fate, and records how far it got."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.on_ambiguous = self.rng.choice(["retry", "retry", "skip", "fail"])
        self.gateway_refusals = frozenset(self.rng.choice([(), (503,)]))
        self.attempted: dict[str, list[str]] = {}
        self.perhaps: dict[str, list[str]] = {}
        self.stored: set[str] = set()

    async def answer(self, call):
        title = call.json["title"]
        kinds = [UNSENT, PERHAPS, ["ok"], ["400"], STOPS]
        fate = self.rng.choice(self.rng.choices(kinds, [4, 6, 6, 1, 1])[0])
        fates = self.attempted.setdefault(title, [])
        fates.append(fate)
        mark = f"{title}-{len(fates)}"
        await asyncio.sleep(self.rng.random() / 10)
        is_refusal = fate == "503 page" and self.gateway_refusals
        if fate in PERHAPS and not is_refusal:
            self.perhaps.setdefault(title, []).append(mark)
            if self.rng.random() < 0.5:
                self.stored.add(title)
        return self._outcome(fate, title, mark)

    def _outcome(self, fate, title, mark):
        page = f"<html><title>{mark}</title>".encode()
        match fate.split():
            case ["ok"]:
                self.stored.add(title)
                return Response(201, {}, b'{"id": "1"}')
            case ["no", _]:
                return TransportFailure("connection", mark, sent=False)
            case ["tunnel", status]:
                return TransportFailure("connection", mark, sent=False, proxy="p:1", proxy_status=int(status))
            case ["timeout" | "broken" as kind]:
                return TransportFailure("timeout" if kind == "timeout" else "connection", mark, sent=True)
            case ["login", _]:
                return Response(200, PAGE, b"<title>Sign in</title>")
            case ["429"]:
                return Response(429, {"retry-after": "0"}, b"")
            case [status, "page"]:
                return Response(int(status), PAGE, page)
            case [status]:
                return Response(int(status), {}, f'{{"error": "{mark}"}}'.encode())


def load(sequence, titles, folder, ledger):
    """Load the titles, and return the kind and reason by title: of the findings, and of the ledger; and the counts."""
    options = LoadOptions(max_concurrency=4, on_ambiguous=sequence.on_ambiguous)
    retry = flow.RetryPolicy(attempts=3, initial_backoff=0.0, gateway_refusals=sequence.gateway_refusals)
    client = ScriptedClient(sequence.answer, ClientSettings("http://unused/api/v1", "key", retry=retry), options)
    scope = DocumentScope(site_at("s", "s"), "documents/text")
    path = folder / f"{titles[0]}.parquet"
    with (
        ledger.documents(scope=scope, source=titles[0], run=RunRef("dag", titles[0], "load", -1)) as memory,
        FindingsFile(path) as findings,
    ):
        loading = Load(client, text_rows(titles), options, ledger=memory, findings=findings)
        with contextlib.suppress(AssistantError):
            simulated(loading.run())
    listed = {row["key"]: (row["kind"], row["reason"]) for row in pq.read_table(path).to_pylist()}
    with ledger.engine.connect() as connection:
        columns = (documents.c.label, documents.c.outcome, documents.c.error)
        recorded = {label: (outcome, error) for label, outcome, error in connection.execute(sa.select(*columns))}
    return listed, recorded, loading.counts


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(flow, "LEAST_JITTER", 0.0)


def test_of_every_sequence_of_attempts(tmp_path):
    seen = set()
    with Ledger(sqlite_engine(tmp_path / "ledger.db")) as ledger:
        for seed in range(20):
            sequence = Sequence(seed)
            titles = [f"{seed}-r{number}" for number in range(8)]
            found, recorded, counts = load(sequence, titles, tmp_path, ledger)
            assert counts.rows == len(titles)
            for title in titles:
                kind, reason = found.get(title, ("", ""))
                check(sequence, title, kind, reason, *recorded.get(title, ("", "")))
                seen.add((kind, "not sent again" in reason))
    assert {("ambiguous", True), ("ambiguous", False), ("failed", True), ("failed", False), ("rejected", False)} <= seen


def check(sequence, title, kind, reason, outcome, error):
    fates = sequence.attempted.get(title, [])
    perhaps = sequence.perhaps.get(title, [])
    where = (title, fates, sequence.on_ambiguous, kind, reason, error)
    if kind == "ambiguous":
        # The last attempt that may have created the document; not a later one that did not, or was not sent.
        assert perhaps, where
        assert perhaps[-1] in reason, where
        assert outcome == "ambiguous", where
        assert perhaps[-1] in error, where
    elif kind in {"failed", "rejected"}:
        assert not perhaps, where
        assert title not in sequence.stored, where
        assert outcome != "ambiguous", where
    if kind == "rejected":
        assert fates[-1] == "400" or "lets others pass" in reason, where
    if fates:
        assert not reason.startswith("not sent"), where
