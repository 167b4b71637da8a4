"""The ledger: a completed effect is never sent again, and an ambiguous one is never hidden."""

from __future__ import annotations

import logging
import sqlite3
from datetime import UTC, datetime, timedelta, timezone

import pytest
import sqlalchemy as sa

from airflow_provider_assistant import ledger as ledgers
from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantBadRequestError,
    AssistantLedgerError,
    AssistantRateLimitError,
    AssistantResponseError,
)
from airflow_provider_assistant.ledger import (
    Ledger,
    RunRef,
    feedback_between,
    key_of,
    ratings,
    sqlite_engine,
    submissions,
)
from tests.processes import preload, processes
from tests.threads import at_once
from tests.unit.ledger.conftest import START

preload(__name__)

RUN = RunRef("dag", "run", "task", -1)
SCOPE = "https://h/api/v1/m2m/sites/docs"


class Sender:
    def __init__(self, *outcomes) -> None:
        self.outcomes = list(outcomes)
        self.count = 0

    def __call__(self):
        self.count += 1
        outcome = self.outcomes.pop(0) if self.outcomes else {"request_id": f"req-{self.count}"}
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


def submit(ledger, send, *, key="k", scope=SCOPE, run=RUN, **options):
    facts = {"site_id": "docs", "session_id": "s", "state": None, "completed_at": None}
    return ledger.run_once(submissions, scope, key, run, send, **facts, **options)


def rate(ledger, *, request_id="req-1", rating="good", key=None, site_id="docs"):
    return ledger.run_once(
        ratings, SCOPE, key or key_of(request_id, rating), RUN, dict,
        site_id=site_id, session_id="s", request_id=request_id, rating=rating,
    )  # fmt: skip


def test_what_is_done_is_not_sent_again(ledger):
    send = Sender()
    row, sent = submit(ledger, send)
    again, sent_again = submit(ledger, send, run=RunRef("dag", "other", "task", 3))
    assert (sent, sent_again, send.count) == (True, False, 1)
    assert row == again
    assert (row.outcome, row.attempts, row.request_id, row.run_id) == ("created", 1, "req-1", "run")


def test_scope_and_key_tell_effects_apart(ledger):
    send = Sender()
    for scope, key in (("a", "1"), ("a", "2"), ("b", "1")):
        assert submit(ledger, send, scope=scope, key=key)[1]
    assert send.count == 3


@pytest.mark.parametrize(
    ("refusal", "outcome"), [(AssistantBadRequestError("400"), "rejected"), (AssistantRateLimitError("429"), "failed")]
)
def test_what_was_refused_is_sent_again_without_a_word(ledger, refusal, outcome, caplog):
    send = Sender(refusal)
    with pytest.raises(type(refusal)):
        submit(ledger, send)
    assert ledger.find(submissions, SCOPE, "k").outcome == outcome
    row, sent = submit(ledger, send)
    assert sent
    assert (row.outcome, row.attempts, row.error) == ("created", 2, None)
    assert not caplog.records


@pytest.mark.parametrize("failure", [AssistantAmbiguousError("maybe"), AssistantResponseError("no id in the reply")])
def test_what_may_have_happened_is_sent_again_and_said_so(ledger, failure, caplog):
    send = Sender(failure)
    with pytest.raises(type(failure)):
        submit(ledger, send)
    kept = ledger.find(submissions, SCOPE, "k")
    assert (kept.outcome, kept.error) == ("ambiguous", str(failure))
    row, sent = submit(ledger, send)
    assert sent
    assert (row.outcome, row.attempts) == ("created", 2)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert str(failure) in record.getMessage()


class Killed(BaseException):
    """The process is killed between request and response."""


def test_an_intent_without_an_outcome_is_sent_again_and_said_so(ledger, caplog):
    send = Sender(Killed())
    with pytest.raises(Killed):
        submit(ledger, send)
    assert ledger.find(submissions, SCOPE, "k").outcome == "claimed"
    assert submit(ledger, send)[1]
    (record,) = caplog.records
    assert "may already have happened" in record.getMessage()


def test_the_intent_is_on_disk_before_the_request(ledger, tmp_path):
    def send():
        with sqlite3.connect(tmp_path / "ledger.db") as other:
            assert other.execute("SELECT outcome FROM assistant_submissions").fetchall() == [("claimed",)]
        return {"request_id": "r"}

    submit(ledger, send)


def test_a_failed_chat_is_asked_again_and_starts_afresh(ledger, clock):
    send = Sender()
    again_if = submissions.c.state == "failed"
    submit(ledger, send, again_if=again_if)
    assert not submit(ledger, send, again_if=again_if)[1]
    ledger.chat_ended(SCOPE, "req-1", "complete")
    assert not submit(ledger, send, again_if=again_if)[1]
    ledger.engine.dispose()
    with ledger.engine.begin() as connection:
        connection.execute(sa.update(submissions).values(state="failed"))
    row, sent = submit(ledger, send, again_if=again_if)
    assert sent
    assert (row.request_id, row.state, row.completed_at, row.attempts) == ("req-2", None, None, 2)


def test_the_first_end_of_a_chat_stands(ledger, clock):
    submit(ledger, Sender())
    clock.advance(5)
    ledger.chat_ended(SCOPE, "req-1", "complete")
    clock.advance(5)
    ledger.chat_ended(SCOPE, "req-1", "failed")
    row = ledger.submission_of(SCOPE, "req-1")
    assert row.state == "complete"
    assert row.completed_at == START + timedelta(seconds=5)


def test_a_chat_that_was_lost_after_it_had_ended_is_lost(ledger, clock):
    submit(ledger, Sender())
    clock.advance(5)
    ledger.chat_ended(SCOPE, "req-1", "complete")
    ledger.chat_ended(SCOPE, "req-1", "lost")
    row = ledger.submission_of(SCOPE, "req-1")
    assert (row.state, row.completed_at) == ("lost", START + timedelta(seconds=5))


def test_a_request_of_another_site_is_another_request(ledger):
    submit(ledger, Sender())
    ledger.chat_ended("elsewhere", "req-1", "complete")
    assert ledger.submission_of(SCOPE, "req-1").state is None
    assert ledger.submission_of("elsewhere", "req-1") is None
    assert ledger.submission_of(SCOPE, "req-9") is None


def test_settled_facts_keep_what_is_not_theirs(ledger):
    submit(ledger, Sender())
    row = ledger.find(submissions, SCOPE, "k")
    assert (row.site_id, row.session_id, row.dag_id, row.task_id, row.map_index) == ("docs", "s", "dag", "task", -1)


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=5, minutes=30)), timezone(timedelta(hours=-8))])
def test_moments_come_back_as_utc(tmp_path, zone):
    moment = START.astimezone(zone)
    with Ledger(sqlite_engine(tmp_path / "ledger.db"), now=lambda: moment) as ledger:
        submit(ledger, Sender())
        row = ledger.find(submissions, SCOPE, "k")
    assert row.claimed_at == row.recorded_at == START
    assert row.claimed_at.tzinfo is UTC
    with sqlite3.connect(tmp_path / "ledger.db") as raw:
        ((stored,),) = raw.execute("SELECT claimed_at FROM assistant_submissions")
    assert stored == "2026-11-21 23:59:58.123456"


def test_feedback_has_the_seconds_its_answer_took(ledger, clock):
    submit(ledger, Sender())
    clock.advance(2.5)
    ledger.chat_ended(SCOPE, "req-1", "complete")
    clock.advance(1)
    rate(ledger)
    rate(ledger, request_id="elsewhere", rating="bad")
    rows = feedback_between(ledger.engine, START, START + timedelta(minutes=1))
    assert [(row["request_id"], row["rating"], row["answer_seconds"]) for row in rows] == [
        ("req-1", "good", 2.5),
        ("elsewhere", "bad", None),
    ]
    assert rows[0]["sent_at"] == START + timedelta(seconds=3.5)
    assert (rows[0]["dag_id"], rows[0]["map_index"], rows[0]["attempts"]) == ("dag", -1, 1)


def test_an_answer_that_took_no_time_has_zero_seconds(ledger):
    submit(ledger, Sender())
    ledger.chat_ended(SCOPE, "req-1", "complete")
    rate(ledger)
    (row,) = feedback_between(ledger.engine, START, START + timedelta(seconds=1))
    assert row["answer_seconds"] == 0


def test_feedback_of_an_unfinished_chat_has_no_seconds(ledger):
    submit(ledger, Sender())
    rate(ledger)
    (row,) = feedback_between(ledger.engine, START, START + timedelta(seconds=1))
    assert row["answer_seconds"] is None


def test_feedback_counts_only_what_was_sent(ledger):
    with pytest.raises(AssistantBadRequestError):
        ledger.run_once(
            ratings, SCOPE, "k", RUN, Sender(AssistantBadRequestError("no")),
            site_id="docs", session_id="s", request_id="r", rating="good",
        )  # fmt: skip
    ledger.claim(ratings, SCOPE, "k2", RUN, site_id="docs", session_id="s", request_id="r", rating="good")
    assert feedback_between(ledger.engine, START, START + timedelta(days=1)) == []


def test_a_day_ends_where_the_next_begins(ledger, clock):
    midnight = datetime(2026, 11, 22, tzinfo=UTC)
    for rating, moment in (("last", midnight - timedelta(microseconds=1)), ("first", midnight)):
        clock.now = moment
        rate(ledger, rating=rating)
    day = timedelta(days=1)
    assert [row["rating"] for row in feedback_between(ledger.engine, midnight - day, midnight)] == ["last"]
    assert [row["rating"] for row in feedback_between(ledger.engine, midnight, midnight + day)] == ["first"]


def test_one_rating_is_one_row_also_when_two_services_share_a_site_name(ledger):
    for scope in (SCOPE, SCOPE.replace("//h/", "//staging/")):
        submit(ledger, Sender({"request_id": "req-1"}), scope=scope)
    rate(ledger)
    assert len(feedback_between(ledger.engine, START, START + timedelta(seconds=1))) == 1


def test_a_newer_ledger_is_refused(tmp_path):
    engine = sqlite_engine(tmp_path / "ledger.db")
    Ledger(engine).close()
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE assistant_ledger_schema SET version = 99"))
    with pytest.raises(AssistantLedgerError, match=r"99.*Upgrade"):
        Ledger(engine)


def test_opening_again_keeps_what_is_there(tmp_path):
    for expected in (True, False):
        with Ledger(sqlite_engine(tmp_path / "ledger.db")) as ledger:
            assert submit(ledger, Sender())[1] is expected
    with sqlite3.connect(tmp_path / "ledger.db") as raw:
        assert raw.execute("SELECT version FROM assistant_ledger_schema").fetchall() == [(ledgers.SCHEMA_VERSION,)]


@pytest.mark.parametrize("kind", ["no folder", "a folder", "no database"])
def test_a_ledger_that_cannot_be_opened(tmp_path, kind):
    path = tmp_path / "ledger.db"
    match kind:
        case "no folder":
            path = tmp_path / "missing" / "ledger.db"
        case "a folder":
            path.mkdir()
        case "no database":
            path.write_bytes(b"this is a letter to my aunt, not a database" * 100)
    with pytest.raises(AssistantLedgerError, match="Nothing was sent") as caught:
        Ledger(sqlite_engine(path))
    assert str(path) in str(caught.value)


def test_a_password_of_the_ledger_is_not_in_the_error():
    engine = sa.create_engine("sqlite:////no/such/folder/ledger.db")
    engine.url = sa.make_url("postgresql://user:hunter2@db.example/ledger")
    with pytest.raises(AssistantLedgerError, match=r"db\.example") as caught:
        Ledger(engine)
    assert "hunter2" not in f"{caught.value} {caught.value!r}"


def test_many_threads_open_a_new_ledger_at_once(tmp_path):
    at_once(8, lambda: Ledger(sqlite_engine(tmp_path / "ledger.db")).close())
    with sqlite3.connect(tmp_path / "ledger.db") as raw:
        assert raw.execute("SELECT DISTINCT version FROM assistant_ledger_schema").fetchall() == [
            (ledgers.SCHEMA_VERSION,)
        ]


def _opens_and_fills(path, name, ready, go):
    ready.release()
    go.acquire()
    with Ledger(sqlite_engine(path)) as ledger:
        for number in range(25):
            facts = {"site_id": "s", "session_id": "s", "request_id": "r", "rating": "good"}
            ledger.run_once(ratings, "scope", f"{name}-{number}", RunRef("d", "r", "t", -1), dict, **facts)


def test_two_processes_open_and_fill_a_new_ledger_at_once(tmp_path):
    path = tmp_path / "ledger.db"
    ready, go = processes.Semaphore(0), processes.Semaphore(0)
    workers = [processes.Process(target=_opens_and_fills, args=(path, name, ready, go)) for name in "ab"]
    for worker in workers:
        worker.start()
    for _ in workers:
        assert ready.acquire(timeout=60)
    for _ in workers:
        go.release()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    with sqlite3.connect(path) as raw:
        assert raw.execute("SELECT count(*), sum(attempts) FROM assistant_ratings").fetchall() == [(50, 50)]


def test_two_workers_with_the_same_intent_share_one_row(tmp_path):
    path = tmp_path / "ledger.db"
    facts = {"site_id": "s", "session_id": "s", "request_id": "r", "rating": "good"}
    with Ledger(sqlite_engine(path)) as slower, Ledger(sqlite_engine(path)) as faster:

        @sa.event.listens_for(slower.engine, "before_cursor_execute")
        def overtake(connection, cursor, statement, *_):
            if statement.startswith("INSERT") and not faster.find(ratings, "s", "k"):
                faster.claim(ratings, "s", "k", RUN, **facts)

        slower.claim(ratings, "s", "k", RunRef("dag", "slower", "task", -1), **facts)
        row = slower.find(ratings, "s", "k")
    assert (row.attempts, row.run_id, row.outcome) == (2, "slower", "claimed")


def test_without_configuration_it_is_a_file_in_airflow_home(ledger_home):
    with Ledger.open() as ledger:
        submit(ledger, Sender())
    assert (ledger_home / "assistant_ledger.db").is_file()


def test_a_connection_names_the_database(ledger_home, tmp_path, monkeypatch):
    path = tmp_path / "warehouse.db"
    monkeypatch.setenv("AIRFLOW__ASSISTANT__LEDGER_CONN_ID", "warehouse")
    monkeypatch.setenv("AIRFLOW_CONN_WAREHOUSE", f"sqlite:///{path}")
    with Ledger.open() as ledger:
        submit(ledger, Sender())
    with sqlite3.connect(path) as raw:
        assert raw.execute("SELECT outcome FROM assistant_submissions").fetchall() == [("created",)]
    assert not list(ledger_home.iterdir())


def test_a_task_may_do_without(ledger_home):
    with Ledger.open_optional(False) as ledger:
        assert ledger is None
    assert not list(ledger_home.iterdir())


def test_keys_tell_apart_what_differs():
    parts = [("a", "b"), ("ab",), ("a", None, "b"), ("a", "b", None), ("b", "a"), ('a","b',), (None,), ()]
    assert len({key_of(*part) for part in parts}) == len(parts)
    assert key_of("ü", None) == key_of("ü", None)
    assert len(key_of("x" * 10_000)) <= 64


def test_a_run_is_read_from_the_context():
    class Instance:
        dag_id, run_id, task_id, map_index = "d", "r", "t", None

    assert RunRef.of({"ti": Instance()}) == RunRef("d", "r", "t", -1)
    assert str(RunRef("d", "r", "t", 2)) == "d/r/t/2"


def test_outcomes_of_many_effects_at_once(ledger):
    facts = {"site_id": "docs", "session_id": "s", "request_id": "r", "rating": "good"}
    outcomes = {f"key-{number}": ("created", "ambiguous", "failed")[number % 3] for number in range(1000)}
    with ledger.engine.begin() as connection:
        rows = [
            {"scope": SCOPE, "key": key, "outcome": outcome, "attempts": 1, "claimed_at": START, **facts}
            for key, outcome in outcomes.items()
        ]
        connection.execute(sa.insert(ratings), [*rows, {**rows[0], "scope": "elsewhere", "key": "other"}])
    assert ledger.outcomes(ratings, SCOPE, [*outcomes, "unknown", "other"]) == outcomes
    assert ledger.outcomes(ratings, SCOPE, []) == {}
