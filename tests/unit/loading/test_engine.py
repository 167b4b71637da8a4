"""The loader with a scripted service: for all responses, the counts add up and each row is created once."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections import Counter
from dataclasses import asdict

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from airflow_provider_assistant.ledger.selection import ALL, Selection
from airflow_provider_assistant.loading.engine import Load

from airflow_provider_assistant.api import flow
from airflow_provider_assistant.api.call import Response, TransportFailure
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousPermanentError,
    AssistantAuthenticationError,
    AssistantError,
    AssistantInputError,
)
from airflow_provider_assistant.ledger import Claim, DocumentScope, Ledger, RunRef, sqlite_engine
from airflow_provider_assistant.ledger.queries import count_stale, page_of_stale
from airflow_provider_assistant.loading import engine, ledger_writer
from airflow_provider_assistant.loading.counts import LoadCounts
from airflow_provider_assistant.loading.findings import FindingsFile
from airflow_provider_assistant.loading.options import LoadOptions
from airflow_provider_assistant.loading.rows import DataframeRows
from tests.sites import site_at
from tests.unit.loading.scripted_client import ScriptedClient, text_rows

RUN = RunRef("dag", "run", "load", -1)
ENDS = ("created", "unchanged", "skipped", "rejected", "ambiguous", "failed")


class Service:
    """A service that stores documents and sends scripted responses."""

    def __init__(self, *script) -> None:
        self.script = list(script)
        self.titles: list[str] = []
        self.acknowledged: list[str] = []
        self.requests = self.in_flight = self.most = 0

    async def answer(self, call):
        self.requests += 1
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        await asyncio.sleep(0)
        self.in_flight -= 1
        title = call.json["title"]
        action = self.script.pop(0) if self.script else "ok"
        if action in {"ok", "store-502", "store-drop", "garbled"}:
            self.titles.append(title)
        match action:
            case "ok":
                self.acknowledged.append(title)
                return Response(201, {}, b'{"id": "%d"}' % len(self.titles))
            case "garbled":
                return Response(201, {}, b"<html>")
            case "store-502":
                return Response(502, {}, b"")
            case "drop" | "store-drop":
                return TransportFailure("connection", "gone", True)
            case "unreachable":
                return TransportFailure("connection", "nobody", False)
            case "429":
                return Response(429, {"retry-after": "0"}, b"")
            case status:
                return Response(int(status), {}, b'{"error": {"message": "no"}}')


def client_of(service, attempts, options):
    retry = flow.RetryPolicy(attempts=attempts, initial_backoff=0.0)
    return ScriptedClient(service.answer, ClientSettings("http://unused/api/v1", "key", retry=retry), options)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(flow, "LEAST_JITTER", 0.0)
    monkeypatch.setattr(ledger_writer, "GROUP_DELAY", 0.0001)


@pytest.fixture
def run(tmp_path):
    """Load titles, and return the counts, the findings and the error."""
    numbers = iter(range(10_000))

    def loads(service, titles, *, ref=RUN, ledger=True, scope="s", attempts=3, content="c", findings=None, **options):
        rows = text_rows(titles, content)
        path = tmp_path / f"findings-{findings or next(numbers)}.parquet"
        error = None
        with contextlib.ExitStack() as stack:
            memory = None
            if ledger:
                opened = stack.enter_context(Ledger(sqlite_engine(tmp_path / "ledger.db")))
                memory = stack.enter_context(
                    opened.documents(scope=DocumentScope(site_at("h", scope), "documents/qa"), source="kb", run=ref)
                )
            listing = stack.enter_context(FindingsFile(path))
            given_options = LoadOptions(**{"max_concurrency": 4, **options})
            load = Load(
                client_of(service, attempts, given_options), rows, given_options, ledger=memory, findings=listing
            )
            try:
                asyncio.run(load.run())
            except AssistantError as raised:
                error = raised
        counts = load.counts
        assert counts.rows == sum(getattr(counts, end) for end in ENDS) == len(titles)
        return counts, Counter(pq.read_table(path).column("kind").to_pylist()), error

    return loads


def ends(counts):
    return {end: getattr(counts, end) for end in ENDS if getattr(counts, end)}


@pytest.mark.parametrize(
    ("titles", "mass_change", "stale"),
    [("ab", False, 0), ("abc", False, 0), ("a", False, 1), ("aa", False, 1), ("ab", True, 0), ("a", True, 1)],
)
def test_stale_documents_are_counted_where_rows_are_repeated_or_new_as_well(titles, mass_change, stale, run):
    run(Service(), "ab")
    counts, kinds, _ = run(Service(), titles, allow_mass_change=mass_change)
    assert (counts.stale, kinds["stale"]) == (stale, stale)


def test_the_ledger_lists_stale_documents_until_their_rows_are_back(run, tmp_path):
    dice = random.Random(7)
    known, stale = set(), set()
    for _ in range(12):
        titles = "".join(dice.sample("abcdef", dice.randint(1, 6)))
        looks = dice.random() < 0.7
        on_missing = "stale" if looks else "ignore"
        run(Service(), titles, content=dice.choice("xy"), on_missing=on_missing, allow_mass_change=True)
        stale -= set(titles)
        known |= set(titles)
        if looks:
            stale = known - set(titles)
        with Ledger(sqlite_engine(tmp_path / "ledger.db")) as ledger:
            rows = ledger.read(page_of_stale, Selection(), ALL).rows
            assert {row.label for row in rows} == stale
            assert ledger.read(count_stale, Selection()) == len(stale)


def test_the_entries_are_not_read_for_stale_documents_if_none_is_missing(run):
    """Reading them takes as long as a third of the preflight."""
    statements = []

    def note(_connection, _cursor, statement, *_rest):
        statements.append(statement)

    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    try:
        for titles, reads in (("ab", 0), ("abc", 0), ("a", 1)):
            statements.clear()
            run(Service(), titles)
            listing = [one for one in statements if "label" in one and "content_hash IS NOT NULL" in one]
            assert len(listing) == reads
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", note)


def test_a_refused_retry_does_not_forget_what_may_have_been_created(run):
    service = Service("store-drop")
    assert ends(run(service, ["a"], on_ambiguous="skip")[0]) == {"ambiguous": 1}
    service.script = ["401"]
    assert isinstance(run(service, ["a"])[2], AssistantAuthenticationError)
    assert ends(run(service, ["a"], on_ambiguous="skip")[0]) == {"ambiguous": 1}
    counts, listed, _ = run(service, ["a"])
    assert (ends(counts), counts.possibly_duplicated, listed["possibly_duplicated"]) == ({"created": 1}, 1, 1)
    assert service.titles == ["a", "a"]


@contextlib.contextmanager
def claimed(tmp_path, titles, ref=RUN):
    """Claim rows; the task lives until the end of the block, and records no outcome."""
    from airflow_provider_assistant.loading.fingerprints import encoded, hash_of

    with Ledger(sqlite_engine(tmp_path / "ledger.db")) as ledger:
        with ledger.documents(scope=DocumentScope(site_at("h", "s"), "documents/qa"), source="kb", run=ref) as memory:
            keys = {hash_of(encoded((title,))) for title in titles}
            assert memory.commit_and_claim((), [Claim(key, "label", None) for key in keys]) == keys
            yield


@pytest.mark.parametrize("on_ambiguous", ["retry", "skip", "fail"])
def test_claims_without_an_outcome_are_ambiguous(on_ambiguous, run, tmp_path):
    with claimed(tmp_path, "bc"):
        pass
    service = Service()
    counts, listed, error = run(service, "abcd", on_ambiguous=on_ambiguous)
    match on_ambiguous:
        case "retry":
            assert (ends(counts), counts.possibly_duplicated) == ({"created": 4}, 2)
            assert listed == {"possibly_duplicated": 2}
        case "skip":
            assert ends(counts) == {"created": 2, "ambiguous": 2}
            assert sorted(service.titles) == ["a", "d"]
        case "fail":
            assert isinstance(error, AssistantAmbiguousPermanentError), "a retry would stop at the same row"
            assert "on_ambiguous is 'fail'" in str(error)
            assert not {"b", "c"} & set(service.titles)


def test_claims_of_another_live_task_are_left_to_it(run, tmp_path):
    service = Service()
    with claimed(tmp_path, "bc", RunRef("other", "run", "load", -1)):
        counts, listed, _ = run(service, "abcd")
    assert ends(counts) == {"created": 2, "skipped": 2}
    assert listed == {"skipped": 2}
    assert sorted(service.titles) == ["a", "d"]


def test_a_refusal_stops_what_is_not_yet_in_flight(run):
    service = Service(*["ok"] * 7, *["403"] * 200)
    counts, _, _ = run(service, [f"t{number}" for number in range(100)], max_concurrency=3)
    assert counts.created == 7
    assert counts.failed == 93
    assert service.requests <= 7 + 3


def test_without_a_ledger(run):
    service = Service("store-502")
    counts, _, _ = run(service, "abb", ledger=False)
    assert (ends(counts), counts.possibly_duplicated, counts.stale) == ({"created": 2, "unchanged": 1}, 1, None)
    assert sorted(service.titles) == sorted("aab") or sorted(service.titles) == sorted("abb")


def test_counts_in_words_and_as_plain_types():
    counts = LoadCounts(rows=10, created=4, unchanged=6, changed=1, stale=2, seconds=2.0)
    assert str(counts) == "10 rows: 4 created, 6 unchanged (1 of them changed, 2 stale)"
    assert counts.done == 10
    assert counts.as_dict() == asdict(counts) | {"rows_per_second": 5.0}
    assert LoadCounts().as_dict()["rows_per_second"] == 0.0
    assert str(LoadCounts(rows=1, failed=1)) == "1 row: 0 created, 1 failed"


def test_a_source_that_is_gone_in_the_middle_of_a_load_lets_requests_end(tmp_path, monkeypatch):
    class Gone(DataframeRows):
        def prepared(self, is_wanted):
            for row in super().prepared(is_wanted):
                if row.number == 7:
                    raise AssistantInputError("'faq.csv' cannot be read: it is gone", field="source")
                yield row

    monkeypatch.setattr(engine, "LOOK_AHEAD", 2)
    options = LoadOptions(max_concurrency=4)
    with (
        Ledger(sqlite_engine(tmp_path / "ledger.db")) as ledger,
        ledger.documents(scope=DocumentScope(site_at("h", "s"), "documents/qa"), source="kb", run=RUN) as memory,
        FindingsFile(tmp_path / "findings.parquet") as findings,
    ):
        rows = text_rows([str(number) for number in range(1, 11)], kind=Gone)
        load = Load(client_of(Service(), 1, options), rows, options, ledger=memory, findings=findings)
        with pytest.raises(AssistantInputError, match="is gone"):
            asyncio.run(load.run())
    assert load.counts.ambiguous == 0
    assert load.counts.created == load.counts.requests
    assert load.counts.done == 10


@pytest.mark.promise("loads", "Several loads of the same rows at once create each document once.")
def test_two_loads_of_the_same_rows_at_once(run):
    titles = [f"t{number}" for number in range(120)]
    service, results = Service(), {}
    barrier = threading.Barrier(3)

    def loads(name):
        barrier.wait()
        order = titles if name != "b" else titles[::-1]
        results[name] = run(service, order, ref=RunRef("dag", name, "load", -1), findings=name)

    threads = [threading.Thread(target=loads, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(service.titles) == sorted(titles)
    assert sum(counts.created for counts, _, _ in results.values()) == len(titles)
    for counts, listed, error in results.values():
        assert error is None
        assert set(ends(counts)) <= {"created", "unchanged", "skipped"}
        assert listed["skipped"] == counts.skipped
