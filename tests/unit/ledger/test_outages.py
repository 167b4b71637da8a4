"""Outages of the ledger: short ones have no effect, longer ones fail the task, and no received answer is lost."""

from __future__ import annotations

import contextlib

import pytest
import sqlalchemy as sa
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantBadRequestError,
    AssistantLedgerError,
    AssistantLedgerPermanentError,
)
from airflow_provider_assistant.ledger import (
    AcceptedQuestion,
    ChatScope,
    Claim,
    ClaimOutcome,
    DocumentScope,
    Ledger,
    RequestEnd,
    find_request,
    record_ends,
    send_once,
    sqlite_engine,
)
from airflow_provider_assistant.ledger.database import SQLITE_ATTEMPTS, is_transient
from airflow_provider_assistant.ledger.export_queries import feedback_between, requests_between
from airflow_provider_assistant.ledger.load_queries import loads_between
from airflow_provider_assistant.ledger.queries import (
    counts,
    find_ambiguous,
    page_of_ambiguous,
    superseded_documents,
)
from airflow_provider_assistant.ledger.selection import ALL, Selection
from tests.sites import site_at
from tests.unit.ledger.conftest import START
from tests.unit.ledger.outage import READ_ONLY, away
from tests.unit.ledger.single import RUN, accepted, chat_claim, chats, claim_rating, rate, submit
from tests.unit.ledger.single import SITE_URL as SCOPE

ALL_SITES = Selection()
DAY = (START, START)


pytestmark = pytest.mark.usefixtures("no_waits")


@pytest.fixture
def database(tmp_path):
    """The same functions repeat what any database refuses, and here it is one that a test can make refuse."""
    return lambda: sqlite_engine(tmp_path / "ledger.db")


CALLS = {
    "find": lambda _, batch: batch.find("k"),
    "submit": lambda ledger, _: submit(ledger),
    "rate": lambda ledger, _: rate(ledger),
    "find_request": lambda ledger, _: find_request(ledger.engine, site_at(SCOPE), "r"),
    "record_end": lambda ledger, _: record_ends(ledger.engine, site_at(SCOPE), {"r": RequestEnd("complete", START)}),
    "entries": lambda _, batch: batch.entries(["k"]),
    "commit_and_claim": lambda _, batch: batch.commit_and_claim((), [Claim("k", "k", None)]),
    "accepted": lambda _, batch: list(batch.accepted()),
    "stale": lambda _, batch: list(batch.stale(lambda _: True)),
    "documents_of_earlier_tries": lambda _, batch: list(batch.documents_of_earlier_tries()),
    "withdraw": lambda _, batch: batch.withdraw(["k"], "why"),
    "record_ends": lambda _, batch: batch.record_ends({"r": RequestEnd("lost", START)}),
    "record_late": lambda _, batch: batch.record_late([AcceptedQuestion("k", "h", "r", START, 1)]),
    "load": lambda ledger, _: ledger.load(
        scope=DocumentScope(site_at("s"), "documents/qa"), source="kb", run=RUN
    ).__enter__(),
    "feedback_between": lambda ledger, _: ledger.read(feedback_between, *DAY),
    "requests_between": lambda ledger, _: ledger.read(requests_between, *DAY),
    "loads_between": lambda ledger, _: ledger.read(loads_between, *DAY),
    "counts": lambda ledger, _: ledger.read(counts, ALL_SITES),
    "ambiguous": lambda ledger, _: ledger.read(page_of_ambiguous, ledger.leases, ALL_SITES, ALL),
    "superseded": lambda ledger, _: ledger.read(superseded_documents, ALL_SITES),
    "find_ambiguous": lambda ledger, batch: ledger.read(find_ambiguous, ledger.leases, ALL_SITES, batch.open),
}


@pytest.fixture
def batch(ledger):
    key = claim_rating(ledger)
    scope = ChatScope(site_at(SCOPE), "async", "b")
    with ledger.chat_requests(scope=scope, run=RUN) as batch:
        batch.open = key
        yield batch


@pytest.mark.promise(
    "ledger", "A short outage of the ledger is not noticed, a longer one fails the attempt, and a refusal the task."
)
@pytest.mark.parametrize("name", CALLS)
def test_a_database_that_is_away_or_refuses(name, ledger, batch, tmp_path):
    with away(ledger.engine, code=READ_ONLY) as outage, pytest.raises(AssistantLedgerPermanentError) as caught:
        CALLS[name](ledger, batch)
    assert len(outage.failed) == 1
    assert isinstance(caught.value, AirflowFailException)
    with away(ledger.engine), pytest.raises(AssistantLedgerError) as caught:
        CALLS[name](ledger, batch)
    assert not isinstance(caught.value, AirflowFailException)
    assert f"{tmp_path}/ledger.db" in str(caught.value)
    with away(ledger.engine, times=SQLITE_ATTEMPTS - 1) as outage:
        CALLS[name](ledger, batch)
    assert outage.failed


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ('connection to server at "10.0.0.1", port 5432 failed: Connection refused', True),
        ("server closed the connection unexpectedly", True),
        ("FATAL:  the database system is starting up", True),
        ("FATAL:  sorry, too many clients already", True),
        ("deadlock detected", True),
        ("could not translate host name", True),
        ('FATAL:  password authentication failed for user "me"', False),
        ('FATAL:  database "none" does not exist', False),
    ],
)
def test_what_servers_say_is_told_apart(text, passes):
    assert is_transient(sa.exc.OperationalError("SELECT 1", {}, Exception(text))) is passes


def test_a_connection_that_was_dropped_passes_whatever_its_class():
    dropped = sa.exc.DatabaseError("SELECT 1", {}, Exception("lost"), connection_invalidated=True)
    assert is_transient(dropped)
    assert is_transient(sa.exc.TimeoutError("no connection in the pool"))
    assert not is_transient(sa.exc.ProgrammingError("SELECT 1", {}, Exception("no such table")))


def during(ledger, *begins):
    """Return a function that answers while the ledger is away, and the stack that ends the outage."""
    stack = contextlib.ExitStack()

    def send():
        stack.enter_context(away(ledger.engine, *begins))
        return accepted("r-1")

    return send, stack


def test_what_was_received_is_returned_and_recorded_when_the_task_ends(tmp_path, clock, caplog):
    path = tmp_path / "ledger.db"
    with Ledger(sqlite_engine(path), now=clock) as ledger:
        opened = chats(ledger)
        send, outage = during(ledger)
        with outage:
            assert send_once(opened, chat_claim(opened), send).request_id == "r-1"
        assert "has answered" in caplog.text
        assert opened.find("k").outcome == "claimed"
    with Ledger(sqlite_engine(path)) as later:
        again, sent = submit(later, pytest.fail)
        assert (again.request_id, again.recorded_at, sent) == ("r-1", START, False)


def test_what_can_never_be_recorded_is_named_in_the_log(ledger, caplog):
    send, outage = during(ledger, "INSERT INTO assistant_chat_requests")
    with outage:
        submit(ledger, send, session_id="my session")
    assert "a retry of this task sends it again: my session" in caplog.text


@pytest.mark.parametrize("failure", [AssistantBadRequestError("no"), AssistantAmbiguousError("maybe")])
def test_a_failure_of_the_service_is_raised_although_it_cannot_be_recorded(ledger, failure):
    with chats(ledger) as opened:
        send, outage = during(ledger)

        def fails():
            send()
            raise failure

        with outage, pytest.raises(type(failure)):
            send_once(opened, chat_claim(opened), fails)
    with chats(ledger) as later:
        assert later.find("k").error == str(failure)


def test_nothing_is_sent_while_the_intent_cannot_be_recorded(ledger):
    with away(ledger.engine, "UPDATE", "INSERT"), pytest.raises(AssistantLedgerError):
        submit(ledger, pytest.fail)


def test_outcomes_of_a_batch_are_recorded_after_an_outage(ledger):
    with ledger.documents(scope=DocumentScope(site_at(SCOPE), "documents/qa"), source="kb", run=RUN) as memory:
        claims = [Claim(key, key, None) for key in "ab"]
        memory.commit_and_claim((), claims)
        with away(ledger.engine, "INSERT"), pytest.raises(AssistantLedgerError):
            memory.commit_and_claim([ClaimOutcome(claim, "created", "h", claim.key) for claim in claims], ())
        memory.commit_and_claim([ClaimOutcome(claim, "created", "h", claim.key) for claim in claims], ())
        assert {key: one.state for key, one in memory.entries(["a", "b"]).items()} == {"a": "created", "b": "created"}


def test_a_list_that_has_been_read_needs_no_commit(ledger, monkeypatch):
    def refuse(_):
        raise sa.exc.OperationalError("COMMIT", {}, Exception("database is locked"))

    with ledger.documents(scope=DocumentScope(site_at(SCOPE), "documents/qa"), source="kb", run=RUN) as memory:
        claim = Claim("a", "label", None)
        memory.commit_and_claim((), [claim])
        memory.commit_and_claim([ClaimOutcome(claim, "created", "h", "doc")], ())
        monkeypatch.setattr(ledger.engine.dialect, "do_commit", refuse)
        assert list(memory.stale(lambda _: False)) == [("label", "doc", None, "a")]


def test_a_file_that_may_not_be_written_is_named_with_what_to_do(tmp_path):
    path = tmp_path / "ledger.db"
    Ledger(sqlite_engine(path)).close()
    with Ledger(sqlite_engine(path)) as ledger:

        @sa.event.listens_for(ledger.engine, "connect")
        def _read_only(connection, _):
            connection.execute("PRAGMA query_only=ON")

        ledger.engine.dispose()
        with pytest.raises(AssistantLedgerPermanentError, match="readonly") as caught:
            submit(ledger, pytest.fail)
    assert str(path) in str(caught.value)
    assert "permissions" in str(caught.value)


def test_a_new_ledger_warns_once(tmp_path, caplog):
    path = tmp_path / "ledger.db"
    for _ in range(2):
        Ledger(sqlite_engine(path)).close()
    (record,) = caplog.records
    assert (record.levelname, str(path) in record.getMessage()) == ("WARNING", True)
    assert "created again" in record.getMessage()
