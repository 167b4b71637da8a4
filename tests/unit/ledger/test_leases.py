"""Leases: the rows of a task that is alive are left alone, those of a dead one are taken over."""

from __future__ import annotations

import random
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from airflow_provider_assistant.exceptions import AssistantLedgerPermanentError
from airflow_provider_assistant.ledger import (
    Claim,
    ClaimOutcome,
    DocumentScope,
    LeaseSettings,
    Ledger,
    RunRef,
    sqlite_engine,
)
from airflow_provider_assistant.ledger.leases import DEFAULT_SECONDS, configured, in_thread
from airflow_provider_assistant.ledger.schema import leases
from tests.sites import site_at
from tests.unit.ledger.conftest import Clock, Heartbeats
from tests.unit.ledger.outage import READ_ONLY, away

ONE, OTHER, THIRD = (RunRef("dag", name, "load", -1) for name in ("one", "other", "third"))
SCOPE = DocumentScope(site_at("s"), "documents/qa")


@pytest.fixture
def heartbeats():
    return Heartbeats()


@pytest.fixture
def database_clock():
    return Clock()


@pytest.fixture
def open_batch(database, heartbeats, database_clock):
    """Open the documents of a task; the clocks of the workers and of the database are independent."""
    opened = []

    def open_batch(run, *, seconds=DEFAULT_SECONDS, worker=Clock()):  # noqa: B008 (never changed)
        settings = LeaseSettings(seconds, database_clock, heartbeats)
        ledger = Ledger(database(), now=worker, leases=settings)
        batch = ledger.documents(scope=SCOPE, source="kb", run=run)
        opened.extend((batch, ledger))
        return batch

    yield open_batch
    for one in opened:
        one.close()


def claim(batch, *keys):
    """Claim keys like a load, and return the claims that succeeded."""
    entries = batch.entries(keys)
    claims = [Claim(key, key, entries.get(key)) for key in keys]
    won = batch.commit_and_claim((), claims)
    return [one for one in claims if one.key in won]


def created(claims, number=1):
    return [ClaimOutcome(one, "created", f"content {number}", f"doc-{one.key}-{number}") for one in claims]


def state(batch, key="k"):
    return batch.entries([key])[key].state


@pytest.fixture
def leased(database):
    """Return a function that returns the runs that have a lease."""
    engine = database()

    def leased():
        with engine.connect() as connection:
            return list(connection.scalars(sa.select(leases.c.run_id).order_by(leases.c.run_id)))

    return leased


# -- expiry ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "leased"),
        (DEFAULT_SECONDS - 0.001, "leased"),
        (0.001 - DEFAULT_SECONDS, "leased"),
        (DEFAULT_SECONDS, "ambiguous"),
        (-DEFAULT_SECONDS, "ambiguous"),
        (-timedelta(days=30).total_seconds(), "ambiguous"),
    ],
)
def test_the_claim_of_a_killed_task_expires_however_the_database_clock_is_set(
    open_batch, database_clock, seconds, expected
):
    claim(open_batch(ONE), "k")
    database_clock.advance(seconds)
    assert state(open_batch(OTHER)) == expected


@pytest.mark.parametrize("hours", [-1e5, -0.01, 5])
def test_the_clocks_of_the_workers_do_not_matter(database, hours):
    """The database's clock is the real one here."""
    skewed = datetime.now(UTC) + timedelta(hours=hours)
    with (
        Ledger(database(), now=lambda: skewed) as one,
        Ledger(database()) as other,
        one.documents(scope=SCOPE, source="kb", run=ONE) as ahead,
        other.documents(scope=SCOPE, source="kb", run=OTHER) as right,
    ):
        claim(ahead, "a")
        claim(right, "b")
        assert (state(right, "a"), state(ahead, "b")) == ("leased", "leased")
        with one.engine.begin() as connection:
            # SQLite's clock has milliseconds only: it can be behind Python's.
            expired = datetime.now(UTC) - timedelta(seconds=DEFAULT_SECONDS + 1)
            connection.execute(sa.update(leases).values(heartbeat_at=expired))
        assert (state(right, "a"), state(ahead, "b")) == ("ambiguous", "ambiguous")


def test_the_owner_of_a_lease_decides_how_long_it_lasts(open_batch, database_clock):
    claim(open_batch(ONE, seconds=600), "k")
    database_clock.advance(599)
    assert state(open_batch(OTHER, seconds=5)) == "leased"
    database_clock.advance(1)
    assert state(open_batch(OTHER, seconds=3600)) == "ambiguous"


def test_a_retry_of_the_same_task_instance_takes_its_claims_over_at_once(open_batch):
    claim(open_batch(ONE), "k")
    retry = open_batch(ONE)
    assert state(retry) == "ambiguous"
    (again,) = claim(retry, "k")
    assert again.entry.state == "ambiguous"
    assert state(retry) == state(open_batch(OTHER)) == "leased"


# -- begin and end ---------------------------------------------------------------------------------


def test_a_task_without_claims_has_no_lease(open_batch, heartbeats, leased):
    batch = open_batch(ONE)
    batch.entries(["k"])
    batch.commit_and_claim((), ())
    assert leased() == []
    assert len(heartbeats) == 0


@pytest.mark.parametrize("end", ["close", "release"])
def test_the_end_of_a_task_frees_what_it_left_open_at_once(open_batch, heartbeats, leased, end):
    batch = open_batch(ONE)
    claim(batch, "k", "l")
    batch.commit_and_claim(created([Claim("l", "l", None)]), ())
    assert leased() == ["one"]
    getattr(batch, end)()
    assert leased() == []
    assert len(heartbeats) == 0
    other = open_batch(OTHER)
    assert (state(other), state(other, "l")) == ("ambiguous", "created")
    batch.release()


def test_a_lease_names_its_task_instance(open_batch, database_clock, database):
    run = RunRef("dag", "run", "load", 3, "1.a")
    claim(open_batch(run), "k")
    with database().connect() as connection:
        row = connection.execute(sa.select(leases)).one()
    assert row[1:] == (database_clock(), DEFAULT_SECONDS, *run.columns().values())


def test_leases_of_killed_tasks_are_removed_by_the_next_task(open_batch, database_clock, leased):
    claim(open_batch(ONE), "a")
    database_clock.advance(DEFAULT_SECONDS - 1)
    claim(open_batch(OTHER), "b")
    assert leased() == ["one", "other"]
    database_clock.advance(1)
    claim(open_batch(THIRD), "c")
    assert leased() == ["other", "third"]


# -- a ledger that fails ---------------------------------------------------------------------------


@pytest.mark.usefixtures("no_waits")
def test_a_heartbeat_that_fails_is_followed_by_the_next(open_batch, database_clock, heartbeats, caplog):
    claim(open_batch(ONE), "k")
    database_clock.advance(DEFAULT_SECONDS - 1)
    with away(sa.Engine):
        heartbeats.beat()
    assert "The heartbeat of this task cannot be written" in caplog.text
    heartbeats.beat()
    database_clock.advance(DEFAULT_SECONDS - 1)
    assert state(open_batch(OTHER)) == "leased"


@pytest.mark.usefixtures("no_waits")
def test_a_lease_that_cannot_be_released_expires(open_batch, database_clock, heartbeats):
    batch = open_batch(ONE)
    claim(batch, "k")
    with away(sa.Engine, "DELETE", code=READ_ONLY):
        batch.close()
    heartbeats.beat()
    other = open_batch(OTHER)
    assert state(other) == "leased"
    database_clock.advance(DEFAULT_SECONDS)
    assert state(other) == "ambiguous"


@pytest.mark.usefixtures("no_waits")
def test_nothing_is_claimed_without_a_lease(open_batch, leased):
    batch = open_batch(ONE)
    with away(sa.Engine, "INSERT INTO assistant_leases"), pytest.raises(Exception, match="cannot be written"):
        batch.commit_and_claim((), [Claim("k", "k", None)])
    assert batch.entries(["k"]) == {}
    claim(batch, "k")
    assert leased() == ["one"]


def test_a_heartbeat_that_comes_late_does_not_restore_a_released_lease(database, leased, database_clock):
    late = []
    settings = LeaseSettings(now=database_clock, every=lambda _, beat: late.append(beat) or (lambda: None))
    with (
        Ledger(database(), leases=settings) as ledger,
        ledger.documents(scope=SCOPE, source="kb", run=ONE) as batch,
    ):
        claim(batch, "k")
        batch.release()
        for beat in late:
            beat()
        assert late
        assert leased() == []


# -- taken over ------------------------------------------------------------------------------------


def test_a_late_outcome_does_not_overwrite_the_claim_of_another_run(open_batch, database_clock, heartbeats):
    stopped, other = open_batch(ONE), open_batch(OTHER)
    claims = claim(stopped, "a", "b", "c")
    database_clock.advance(DEFAULT_SECONDS)
    (taken,) = claim(other, "b")
    assert taken.entry.state == "ambiguous"
    heartbeats.beat()
    reported = []
    stopped.commit_and_claim(created(claims), (), on_taken_over=reported.append)
    assert [one.claim.key for one in reported] == ["b"]
    assert (state(other, "a"), state(other, "b"), state(other, "c")) == ("created", "leased", "created")
    other.commit_and_claim(created([taken], 2), (), on_taken_over=reported.append)
    assert len(reported) == 1
    entry = other.entries(["b"])["b"]
    assert (entry.state, entry.content_hash, entry.created_id) == ("created", "content 2", "doc-b-2")
    assert [(one.label, one.ambiguous) for one in other.documents_of_earlier_tries()] == []
    assert [(one.label, one.ambiguous) for one in open_batch(OTHER).documents_of_earlier_tries()] == [("b", 1)]


def statements_of(engine, do):
    """Return the first words of the statements that a function executes."""
    found = []

    def note(_connection, _cursor, statement, *_rest):
        found.append(" ".join(statement.split()[:3]))

    sa.event.listen(engine, "before_cursor_execute", note)
    try:
        do()
    finally:
        sa.event.remove(engine, "before_cursor_execute", note)
    return found


def test_a_group_costs_one_statement(database):
    with (
        Ledger(database()) as ledger,
        ledger.documents(scope=SCOPE, source="kb", run=ONE) as batch,
    ):
        first = claim(batch, "a", "b")
        group = [Claim(key, key, None) for key in ("c", "d")]
        found = statements_of(ledger.engine, lambda: batch.commit_and_claim(created(first), group))
        assert found == ["INSERT INTO assistant_documents"]
        quoted = ledger.engine.dialect.identifier_preparer.quote("key")
        assert statements_of(ledger.engine, lambda: batch.entries(["a", "b"])) == [f"SELECT {quoted}, outcome,"]


def test_an_outcome_that_was_recorded_meanwhile_is_not_claimed_again(open_batch, database_clock):
    """The owner was only stopped, and continues between the lookup and the claim of the other run."""
    stopped, other = open_batch(ONE), open_batch(OTHER)
    claims = claim(stopped, "k")
    database_clock.advance(DEFAULT_SECONDS)
    entry = other.entries(["k"])["k"]
    assert entry.state == "ambiguous"
    stopped.commit_and_claim(created(claims), ())
    assert other.commit_and_claim((), [Claim("k", "k", entry)]) == set()
    entry = other.entries(["k"])["k"]
    assert (entry.state, entry.content_hash, entry.created_id) == ("created", "content 1", "doc-k-1")


def test_a_load_that_ends_during_a_lookup_leaves_no_ambiguous_row(open_batch):
    """Its outcome is recorded and its lease is gone after the other run has seen the claim."""
    batch = open_batch(ONE)
    claims = claim(batch, "k")
    other = open_batch(OTHER)
    ended = []

    def end(_connection, _cursor, statement, *_rest):
        if "assistant_leases" in statement and statement.startswith("SELECT") and not ended:
            ended.append(True)
            batch.commit_and_claim(created(claims), ())
            batch.close()

    sa.event.listen(sa.Engine, "before_cursor_execute", end)
    try:
        assert state(other) == "created"
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", end)
    assert ended


# -- generated orders ------------------------------------------------------------------------------


class Model:
    """A model of a few lines that predicts every state and every winner."""

    def __init__(self, batches, clock, heartbeats):
        self.batches, self.clock, self.heartbeats = batches, clock, heartbeats
        self.beaten: dict[int, float] = {}  # owner of a lease: time of its last heartbeat
        self.owners: dict[str, tuple[int, str]] = {}  # key: owner and outcome of the latest claim
        self.claims: dict[tuple[int, str], Claim] = {}
        self.now = 0.0

    def claim(self, number, key):
        entry = self.batches[number].entries([key]).get(key)
        if entry is None or entry.state == "ambiguous":
            self.claims[number, key] = Claim(key, key, entry)
            assert self.batches[number].commit_and_claim((), [self.claims[number, key]]) == {key}
            self.beaten.setdefault(number, self.now)
            self.owners[key] = number, "claimed"

    def beat(self, *_):
        self.heartbeats.beat()
        self.beaten = dict.fromkeys(self.beaten, self.now)

    def wait(self, number, _):
        seconds = [1.0, DEFAULT_SECONDS / 2, DEFAULT_SECONDS][number]
        self.now += seconds
        self.clock.advance(seconds)

    def record(self, number, key):
        if claimed := self.claims.pop((number, key), None):
            lost: list[ClaimOutcome] = []
            outcomes = created([claimed], number)
            self.batches[number].commit_and_claim(outcomes, (), on_taken_over=lost.append)
            assert bool(lost) == (self.owners[key] != (number, "claimed"))
            if not lost:
                self.owners[key] = number, "created"

    def release(self, number, _):
        self.batches[number].release()
        self.beaten.pop(number, None)

    def check(self):
        for reader, batch in enumerate(self.batches):
            found = batch.entries(list("abc"))
            assert {key: entry.state for key, entry in found.items()} == {
                key: self._expected(reader, *owner) for key, owner in self.owners.items()
            }

    def _expected(self, reader, owner, outcome):
        if outcome != "claimed":
            return outcome
        is_alive = owner in self.beaten and self.now - self.beaten[owner] < DEFAULT_SECONDS
        return "leased" if owner == reader or is_alive else "ambiguous"


@pytest.mark.promise(
    "ledger", "Of several tasks that want a row at once, one sends it; the row of a dead task is taken over."
)
@pytest.mark.parametrize("seed", range(4))
def test_generated_orders_of_claims_heartbeats_and_ends(open_batch, database_clock, heartbeats, seed):
    rng = random.Random(seed)
    model = Model([open_batch(run) for run in (ONE, OTHER, THIRD)], database_clock, heartbeats)
    steps = (*[model.claim, model.wait, model.record] * 2, model.beat, model.release)
    for _ in range(80):
        rng.choice(steps)(rng.randrange(3), rng.choice("abc"))
        model.check()


# -- the real thread and the real clock ------------------------------------------------------------


def test_a_thread_writes_the_heartbeats_and_ends(database):
    settings = LeaseSettings(seconds=0.1)
    with Ledger(database(), leases=settings) as ledger:
        batch = ledger.documents(scope=SCOPE, source="kb", run=ONE)

        def heartbeat():
            with ledger.engine.connect() as connection:
                return connection.scalar(sa.select(leases.c.heartbeat_at))

        others = threading.enumerate()
        claim(batch, "k")
        first, deadline = heartbeat(), time.monotonic() + 60
        while heartbeat() == first:
            assert time.monotonic() < deadline, "a heartbeat is written"
            time.sleep(0.005)
        (thread,) = (one for one in threading.enumerate() if one.name == "ledger-lease" and one not in others)
        assert thread.daemon, "a task that ends without cleaning up is not kept alive"
        batch.close()
        thread.join(60)
        assert not thread.is_alive()
        assert heartbeat() is None


def test_a_stopped_timer_calls_no_more():
    called = threading.Event()
    stop = in_thread(0.001, called.set)
    assert called.wait(60)
    stop()


# -- configuration ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "seconds"), [("5", 5), ("90.5", 90.5), ("3600", 3600), ("", 60)])
def test_the_duration_is_configured(monkeypatch, text, seconds):
    assert configured().seconds == DEFAULT_SECONDS
    monkeypatch.setenv("AIRFLOW__ASSISTANT__LEASE_SECONDS", text)
    assert configured().seconds == seconds


@pytest.mark.parametrize("text", ["4.9", "0", "-60", "3601", "nan", "inf", "1 minute"])
def test_a_duration_outside_the_limits_stops_before_anything_is_sent(monkeypatch, tmp_path, text):
    monkeypatch.setenv("AIRFLOW__ASSISTANT__LEASE_SECONDS", text)
    with pytest.raises(AssistantLedgerPermanentError, match=f"from 5 to 3600, not '{text}'. Nothing was sent"):
        Ledger(sqlite_engine(tmp_path / "ledger.db"))
    assert list(tmp_path.iterdir()) == []
