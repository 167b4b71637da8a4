"""The ledger: a completed effect is never sent again, and an ambiguous one is never hidden."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
import sqlalchemy as sa

from airflow_provider_assistant.exceptions import (
    AssistantAmbiguousError,
    AssistantBadRequestError,
    AssistantLedgerError,
    AssistantRateLimitError,
    AssistantResponseError,
)
from airflow_provider_assistant.ledger import (
    ClaimOutcome,
    Ledger,
    RequestEnd,
    RunRef,
    find_request,
    key_of,
    rating_claim,
    rating_key,
    record_ends,
)
from airflow_provider_assistant.ledger.export_queries import feedback_between
from airflow_provider_assistant.ledger.schema import chat_requests
from tests.sites import site_at
from tests.unit.ledger.conftest import EVERYWHERE, START
from tests.unit.ledger.single import (
    SITE_URL,
    accepted,
    chats,
    claim_rating,
    rate,
    rated,
    submit,
)


class Sender:
    def __init__(self, *outcomes) -> None:
        self.outcomes = list(outcomes)
        self.count = 0

    def __call__(self):
        self.count += 1
        if self.outcomes:
            raise self.outcomes.pop(0)
        return accepted(f"req-{self.count}")


def found(ledger, key="k"):
    with chats(ledger) as opened:
        return opened.find(key)


def ended(ledger, state, clock, request_id="req-1", site_url=SITE_URL):
    record_ends(ledger.engine, site_at(site_url), {request_id: RequestEnd(state, clock.now)})


def test_what_is_done_is_not_sent_again(ledger):
    send = Sender()
    row, sent = submit(ledger, send)
    again, sent_again = submit(ledger, send, run=RunRef("dag", "other", "task", 3))
    assert (sent, sent_again, send.count) == (True, False, 1)
    assert row == again
    assert (row.outcome, row.attempts, row.request_id) == ("created", 1, "req-1")
    assert (row.site_id, row.session_id, row.dag_id, row.run_id, row.map_index) == ("docs", "s", "dag", "run", -1)


@pytest.mark.parametrize(
    ("refusal", "outcome"), [(AssistantBadRequestError("400"), "rejected"), (AssistantRateLimitError("429"), "failed")]
)
def test_what_was_refused_is_sent_again_without_a_word(ledger, refusal, outcome, caplog):
    send = Sender(refusal)
    with pytest.raises(type(refusal)):
        submit(ledger, send)
    assert found(ledger).outcome == outcome
    row, sent = submit(ledger, send)
    assert sent
    assert (row.outcome, row.attempts, row.error) == ("created", 2, None)
    assert not caplog.records


@pytest.mark.parametrize("failure", [AssistantAmbiguousError("maybe"), AssistantResponseError("no id in the reply")])
def test_what_may_have_happened_is_sent_again(ledger, failure):
    send = Sender(failure)
    with pytest.raises(type(failure)):
        submit(ledger, send)
    kept = found(ledger)
    assert (kept.outcome, kept.error) == ("ambiguous", str(failure))
    row, sent = submit(ledger, send)
    assert sent
    assert (row.outcome, row.attempts) == ("created", 2)


class Killed(BaseException):
    """The process is killed between request and response."""


def test_an_intent_without_an_outcome_is_sent_again(ledger):
    send = Sender(Killed())
    with pytest.raises(Killed):
        submit(ledger, send)
    assert found(ledger).outcome == "claimed"
    row, sent = submit(ledger, send)
    assert (sent, row.ambiguous) == (True, 1)


@pytest.mark.promise("ledger", "Nothing is sent before the ledger has recorded that it is about to be.")
@pytest.mark.parametrize("database", EVERYWHERE, indirect=True)
def test_the_claim_is_committed_before_the_request(ledger, database):
    def send():
        with database().connect() as other:
            assert list(other.scalars(sa.select(chat_requests.c.outcome))) == ["claimed"]
        return accepted()

    submit(ledger, send)


@pytest.mark.parametrize("state", ["failed", "lost"])
def test_a_chat_without_an_answer_is_asked_again_and_starts_afresh(ledger, clock, state):
    send = Sender()
    submit(ledger, send)
    assert not submit(ledger, send)[1]
    ended(ledger, state, clock)
    assert (found(ledger).request_id, found(ledger).state) == ("req-1", state)
    row, sent = submit(ledger, send)
    assert sent
    assert (row.request_id, row.state, row.completed_at, row.attempts) == ("req-2", None, None, 2)
    assert (row.error, row.superseded, row.ambiguous) == (None, None, 0)


def test_the_first_end_of_a_chat_stands(ledger, clock):
    submit(ledger)
    clock.advance(5)
    ended(ledger, "complete", clock)
    clock.advance(5)
    ended(ledger, "failed", clock)
    assert not submit(ledger)[1]
    row = find_request(ledger.engine, site_at(SITE_URL), "req-1")
    assert row.state == "complete"
    assert row.completed_at == START + timedelta(seconds=5)


def test_a_chat_that_was_lost_after_it_had_ended_is_lost(ledger, clock):
    submit(ledger)
    clock.advance(5)
    ended(ledger, "complete", clock)
    clock.advance(5)
    ended(ledger, "lost", clock)
    row = find_request(ledger.engine, site_at(SITE_URL), "req-1")
    assert (row.state, row.completed_at) == ("lost", START + timedelta(seconds=5))


@pytest.mark.parametrize("hours", [5.5, -8])
def test_moments_come_back_as_utc(database, hours):
    moment = START.astimezone(timezone(timedelta(hours=hours)))
    with Ledger(database(), now=lambda: moment) as ledger:
        submit(ledger, Sender())
        row = found(ledger)
    assert row.claimed_at == row.recorded_at == START
    assert row.claimed_at.tzinfo is UTC


def test_feedback_has_the_seconds_its_answer_took(ledger, clock):
    submit(ledger, Sender())
    submit(ledger, lambda: accepted("quick"), key="quick")
    ended(ledger, "complete", clock, "quick")
    submit(ledger, lambda: accepted("open"), key="open")
    clock.advance(2.5)
    ended(ledger, "complete", clock)
    clock.advance(1)
    rate(ledger)
    for request_id in ("elsewhere", "open", "quick"):
        rate(ledger, "bad", request_id=request_id)
    rows = ledger.read(feedback_between, START, START + timedelta(minutes=1))
    assert {row["request_id"]: (row["rating"], row["answer_seconds"]) for row in rows} == {
        "req-1": ("good", 2.5),
        "elsewhere": ("bad", None),
        "open": ("bad", None),
        "quick": ("bad", 0),
    }
    (first,) = [row for row in rows if row["request_id"] == "req-1"]
    assert first["sent_at"] == START + timedelta(seconds=3.5)
    assert (first["dag_id"], first["map_index"], first["attempts"]) == ("dag", -1, 1)


def test_feedback_counts_only_what_was_sent(ledger):
    with pytest.raises(AssistantBadRequestError):
        rate(ledger, send=Sender(AssistantBadRequestError("no")))
    claim_rating(ledger, ("s", "r", "good"))
    assert ledger.read(feedback_between, START, START + timedelta(days=1)) == []


def test_a_day_ends_where_the_next_begins(ledger, clock):
    midnight = datetime(2026, 11, 22, tzinfo=UTC)
    for rating, moment in (("last", midnight - timedelta(microseconds=1)), ("first", midnight)):
        clock.now = moment
        rate(ledger, rating)
    day = timedelta(days=1)
    assert [row["rating"] for row in ledger.read(feedback_between, midnight - day, midnight)] == ["last"]
    assert [row["rating"] for row in ledger.read(feedback_between, midnight, midnight + day)] == ["first"]


def test_one_rating_is_one_row_also_when_two_services_share_a_site_name(ledger):
    for site_url in (SITE_URL, SITE_URL.replace("//h/", "//staging/")):
        submit(ledger, site_url=site_url)
    rate(ledger)
    assert len(ledger.read(feedback_between, START, START + timedelta(seconds=1))) == 1


def test_a_password_of_the_ledger_is_not_in_the_error():
    engine = sa.create_engine("sqlite:////no/such/folder/ledger.db")
    engine.url = sa.make_url("postgresql://user:hunter2@db.example/ledger")
    with pytest.raises(AssistantLedgerError, match=r"db\.example") as caught:
        Ledger(engine)
    assert "hunter2" not in f"{caught.value} {caught.value!r}"


def test_two_workers_with_the_same_rating_share_one_row(database):
    with Ledger(database()) as slower, Ledger(database()) as faster:
        overtaken = []

        @sa.event.listens_for(slower.engine, "before_cursor_execute")
        def overtake(connection, cursor, statement, *_):
            if statement.startswith("INSERT INTO assistant_ratings") and not overtaken:
                overtaken.append(claim_rating(faster))

        row, sent = rate(slower, run=RunRef("dag", "slower", "task", -1))
    assert sent
    assert (row.attempts, row.ambiguous, row.run_id, row.outcome) == (1, 1, "slower", "created")


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


def test_entries_of_many_ratings_at_once(ledger):
    states = {}
    with rated(ledger) as opened:
        outcomes = []
        for number in range(1000):
            claim = rating_claim("s", f"r-{number}", "good", None)
            outcome = ("created", "ambiguous", "failed")[number % 3]
            states[claim.key] = {"failed": "none"}.get(outcome, outcome)
            outcomes.append(ClaimOutcome(claim, outcome, claim.key))
        opened.commit_and_claim(outcomes, ())
        found = opened.entries([*states, "unknown"])
        assert {key: entry.state for key, entry in found.items()} == states
        assert opened.entries([]) == {}


def test_a_rating_is_sent_again_after_another_one_of_its_request(ledger, clock):
    for rating, is_sent in (("good", True), ("good", False), ("bad", True), ("good", True), ("bad", True)):
        clock.advance(1)
        assert rate(ledger, rating)[1] is is_sent
    assert rate(ledger, "good", request_id="other")[1]
    assert not rate(ledger, "bad")[1]


def test_a_rating_that_may_have_been_replaced_is_sent_again(ledger, clock):
    rate(ledger, "good")
    clock.advance(1)
    claim_rating(ledger, ("s", "req-1", "bad"))
    row, sent = rate(ledger, "good")
    assert (sent, row.superseded, row.attempts) == (True, None, 2)


def test_a_rating_that_was_refused_when_it_was_sent_again_is_not_created(ledger, clock):
    for rating in ("good", "bad"):
        clock.advance(1)
        rate(ledger, rating)
    with pytest.raises(AssistantBadRequestError):
        rate(ledger, "good", Sender(AssistantBadRequestError("400")))
    with rated(ledger) as opened:
        assert opened.find(rating_key("s", "req-1", "good")).outcome == "rejected"
