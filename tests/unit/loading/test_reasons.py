"""Which reason a row keeps: that of the attempt that was sent, whatever stops the load afterwards."""

from __future__ import annotations

import asyncio
import random

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from airflow_provider_assistant.api import endpoints, flow
from airflow_provider_assistant.api.call import Response, TransportFailure
from airflow_provider_assistant.api.payloads import TextDocument
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import AssistantError
from airflow_provider_assistant.ledger import DocumentScope, Ledger, RunRef, sqlite_engine
from airflow_provider_assistant.loading.columns import ColumnSelection
from airflow_provider_assistant.loading.engine import Load
from airflow_provider_assistant.loading.findings import FindingsFile
from airflow_provider_assistant.loading.options import LoadOptions
from airflow_provider_assistant.loading.rows import DataframeRows
from airflow_provider_assistant.loading.sources import open_source
from tests.sites import site_at
from tests.unit.loading.scripted_client import ScriptedClient

FIELDS = ("title", "content", "category")
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
        for _ in range(self.rng.randrange(4)):
            await asyncio.sleep(0)
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


def load(sequence, titles, folder):
    """Load the titles, and return the kind and reason by title from the findings and from the ledger."""
    source = [dict(zip(FIELDS, (title, "c", "faq"), strict=True)) for title in titles]
    rows = DataframeRows(
        open_source(source, ColumnSelection(FIELDS)), payload=TextDocument, columns={field: field for field in FIELDS},
        constants={}, key_columns=["title"], call=lambda document: endpoints.create_text_document("s", document),
    )  # fmt: skip
    options = LoadOptions(max_concurrency=4, on_ambiguous=sequence.on_ambiguous)
    retry = flow.RetryPolicy(attempts=3, initial_backoff=0.0, gateway_refusals=sequence.gateway_refusals)
    client = ScriptedClient(sequence.answer, ClientSettings("http://unused/api/v1", "key", retry=retry), options)
    engine = sqlite_engine(folder / "ledger.db")
    scope = DocumentScope(site_at("s", "s"), "documents/text")
    with (
        Ledger(engine) as ledger,
        ledger.documents(scope=scope, source="kb", run=RunRef("dag", "run", "load", -1)) as memory,
        FindingsFile(folder / "findings.parquet") as findings,
    ):
        loading = Load(client, rows, options, ledger=memory, findings=findings)
        try:
            asyncio.run(loading.run())
        except AssistantError as error:
            assert error.happened  # noqa: PT017 (the load may stop or not)
    listed = pq.read_table(folder / "findings.parquet").to_pylist()
    with engine.connect() as connection:
        recorded = connection.execute(sa.text("SELECT label, outcome FROM entry")).all()
    return {row["key"]: (row["kind"], row["reason"]) for row in listed}, dict(map(tuple, recorded)), loading.counts


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(flow, "LEAST_JITTER", 0.0)


def test_of_every_sequence_of_attempts(tmp_path):
    seen = set()
    for seed in range(60):
        sequence = Sequence(seed)
        titles = [f"r{number}" for number in range(8)]
        folder = tmp_path / str(seed)
        folder.mkdir()
        found, recorded, counts = load(sequence, titles, folder)
        for title in titles:
            kind, reason = found.get(title, ("", ""))
            where = (seed, title, sequence.attempted.get(title), sequence.on_ambiguous, kind, reason)
            perhaps = sequence.perhaps.get(title, [])
            if kind == "ambiguous":
                assert perhaps, where
                assert perhaps[-1] in reason, where
                assert recorded[title] == "ambiguous", where
            if kind in {"failed", "rejected"}:
                assert not perhaps, where
                assert title not in sequence.stored, where
                assert recorded.get(title) != "ambiguous", where
            if kind == "rejected":
                assert sequence.attempted[title][-1] == "400", where
            if title in sequence.attempted:
                assert not reason.startswith("not sent"), where
            seen.add((kind, "not sent again" in reason))
        assert counts.rows == 8
    assert {("ambiguous", True), ("ambiguous", False), ("failed", True), ("failed", False), ("rejected", False)} <= seen
