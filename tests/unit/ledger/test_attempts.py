"""Attempts: one claim wins, an outcome belongs to its claim, a claim outlives its sender for a lease."""

from __future__ import annotations

import random
import threading
from datetime import timedelta

import pytest
import sqlalchemy as sa

from airflow_provider_assistant.exceptions import AssistantLedgerError
from airflow_provider_assistant.ledger import Ledger, Outcome, RunRef, Scope, Site, hash_of, queries
from airflow_provider_assistant.ledger.clock import configured
from airflow_provider_assistant.ledger.schema import REMOVING, ledger_info
from airflow_provider_assistant.ledger.schema import attempts as table
from tests.task_runs.finals import is_final
from tests.unit.ledger.attempts import attempt, claim, created, states
from tests.unit.ledger.outage import away


@pytest.mark.promise("loads", "Of two tasks that load one row at the same time, one sends it.")
def test_one_of_two_claims_wins(scoped):
    first, second = scoped(), scoped("shop.other", "tuesday")
    assert first.commit([], [claim("a"), claim("b")]) == {hash_of("a"), hash_of("b")}
    assert second.commit([], [claim("b"), claim("c")]) == {hash_of("c")}


def test_a_commit_may_be_repeated(scoped, ledger):
    attempts = scoped()
    for _ in range(2):
        assert attempts.commit([], [claim("a")]) == {hash_of("a")}
    for _ in range(2):
        attempts.commit([Outcome(claim("a"), "created", remote_id="1")], [claim("b")])
    assert states(ledger, "a") == [(1, "created")]
    assert states(ledger, "b") == [(1, "claimed")]


@pytest.mark.parametrize(("ahead", "is_alive"), [(0.01, True), (59, True), (61, False)])
def test_a_claim_that_is_made_after_the_time_was_read_is_alive(ahead, is_alive, scoped, clock):
    first, second = scoped(), scoped("shop.other", "tuesday")
    clock.advance(ahead)
    attempt(first, "a", "claimed")
    # As if the time had been read before the claim, or the clock had been set back since.
    clock.advance(-ahead)
    (found,) = second.known([hash_of("a")])[hash_of("a")]
    assert found.is_alive == is_alive


def test_a_later_attempt_leaves_the_earlier_document_as_it_is(scoped):
    attempts = scoped()
    created(attempts, "a")
    attempt(attempts, "a", "ambiguous", 2, "v2", error="no answer", ambiguous=1)
    created(attempts, "a", 3, "v3")
    (found,) = attempts.known([hash_of("a")]).values()
    assert [(one.number, one.state, one.content_hash, one.remote_id) for one in found] == [
        (1, "created", hash_of("v1"), "a-v1"),
        (2, "ambiguous", hash_of("v2"), None),
        (3, "created", hash_of("v3"), "a-v3"),
    ]


def test_an_outcome_changes_no_attempt_of_another_task(scoped, ledger):
    slow, quick = scoped(), scoped("shop.other", "tuesday")
    late = attempt(slow, "a", "claimed")
    created(quick, "a", 2)
    quick.commit([Outcome(late, "failed")], [])
    assert states(ledger, "a") == [(1, "claimed"), (2, "created")]
    slow.commit([Outcome(late, "created", remote_id="late")], [])
    assert states(ledger, "a") == [(1, "created"), (2, "created")]


@pytest.mark.parametrize("other", [{"site": "shop"}, {"kind": "text"}, {"namespace": "x"}, {"service": "test"}])
def test_scopes_do_not_mix(scoped, other):
    created(scoped(), "a")
    assert not scoped(**other).known([hash_of("a")])


def test_a_site_is_its_service_and_its_id(ledger, clock):
    run = RunRef("dag", "run", "task", -1)
    for site in (Site("s", "help", "acme", "http://a/m2m"), Site("s", "help", None, "https://b/m2m")):
        with ledger.of(Scope(site, "qa"), "source", run) as attempts:
            found = attempts.known([hash_of("a")])
            assert bool(found) == (site.tenant_id is None)
            attempts.commit([], [claim("a", 1 + bool(found))])


class TestLease:
    def alive(self, scoped, run="tuesday"):
        return [one.is_alive for one in scoped(run=run).known([hash_of("a")])[hash_of("a")]]

    def test_a_claim_counts_as_alive_for_a_lease_after_its_last_renewal(self, scoped, clock):
        attempts = scoped()
        attempts.commit([], [claim("a")])
        clock.advance(59)
        assert self.alive(scoped) == [True]
        attempts.renew()
        clock.advance(59)
        assert self.alive(scoped) == [True]
        clock.advance(2)
        assert self.alive(scoped) == [False]

    def test_a_retry_of_the_task_instance_takes_its_claims_over_at_once(self, scoped):
        scoped().commit([], [claim("a")])
        assert self.alive(scoped, "monday") == [False]
        assert self.alive(scoped, "tuesday") == [True]

    def test_an_outcome_ends_it(self, scoped):
        attempt(scoped(), "a", "failed")
        assert self.alive(scoped) == [False]

    def test_a_renewal_that_comes_late_revives_no_outcome(self, scoped):
        attempts = scoped()
        attempt(attempts, "a", "ambiguous")
        attempts.renew()
        assert self.alive(scoped) == [False]

    @pytest.mark.parametrize("hours", [-48, -1, 2])
    def test_a_clock_that_is_set_back_blocks_no_row(self, scoped, clock, hours):
        scoped().commit([], [claim("a")])
        clock.now += timedelta(hours=hours)
        clock.advance(61)
        assert self.alive(scoped) == [False]

    @pytest.mark.parametrize(("text", "seconds"), [("5", 5), ("90.5", 90.5), ("3600", 3600)])
    def test_its_length_is_configured(self, monkeypatch, text, seconds):
        monkeypatch.setenv("AIRFLOW__ASSISTANT__LEASE_SECONDS", text)
        assert configured().lease == timedelta(seconds=seconds)

    @pytest.mark.parametrize("text", ["", "4.9", "3601", "soon", "nan"])
    def test_a_length_outside_the_limits_is_refused(self, monkeypatch, text):
        monkeypatch.setenv("AIRFLOW__ASSISTANT__LEASE_SECONDS", text)
        with pytest.raises(AssistantLedgerError, match="from 5 to 3600", check=is_final):
            configured()

    def test_the_clock_is_that_of_the_database(self, database):
        with Ledger(database()) as ledger, ledger.connect() as connection:
            first = ledger.clock.read(connection)
            assert ledger.clock.read(connection) >= first
            assert first.tzinfo is not None


@pytest.mark.parametrize("seed", range(20))
def test_generated_orders_of_claims_and_outcomes(scoped, clock, seed):
    """Whatever two tasks do, at most one of them holds a number, and no outcome is lost."""
    rng = random.Random(seed)
    tasks = [scoped(), scoped("shop.other", "tuesday")]
    held: dict[tuple[int, int], Outcome | None] = {}
    for _ in range(40):
        who = rng.randrange(2)
        attempts = tasks[who]
        known = attempts.known([hash_of("a")]).get(hash_of("a"), ())
        step = rng.choice(["claim", "record", "wait", "renew"])
        if step == "claim":
            number = known[-1].number + 1 if known else 1
            if attempts.commit([], [claim("a", number)]):
                assert (0, number) not in held
                assert (1, number) not in held
                held[who, number] = None
        elif step == "record":
            mine = [number for owner, number in held if owner == who]
            if mine:
                outcome = Outcome(claim("a", rng.choice(mine)), rng.choice(["created", "ambiguous", "failed"]))
                attempts.commit([outcome], [])
                held[who, outcome.claim.number] = outcome
        elif step == "wait":
            clock.advance(rng.choice([1, 61]))
        else:
            attempts.renew()
    found = {one.number: one.state for one in tasks[0].known([hash_of("a")]).get(hash_of("a"), ())}
    assert found == {number: outcome.state if outcome else "claimed" for (_, number), outcome in held.items()}


def test_workers_that_open_a_new_ledger_at_once_create_one(database):
    engines = [database() for _ in range(8)]
    threads = [threading.Thread(target=Ledger, args=(engine,)) for engine in engines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with engines[0].connect() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(ledger_info)) == 1


def test_many_tasks_that_claim_the_same_keys_do_not_block_each_other(database):
    Ledger(database()).close()
    names = [f"row {number}" for number in range(200)]
    won: list[str] = []

    def work(number: int) -> None:
        with Ledger(database(), warn_if_new=False) as ledger:
            scope = Scope(Site("s", "help"), "qa")
            with ledger.of(scope, "source", RunRef("dag", str(number), "task", -1)) as attempts:
                order = random.Random(number).sample(names, len(names))
                for start in range(0, len(order), 20):
                    part = [claim(name) for name in order[start : start + 20]]
                    keys = attempts.commit([], part)
                    won.extend(keys)
                    attempts.commit([Outcome(one, "created") for one in part if one.key in keys], [])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == sorted(map(hash_of, names))


def test_documents_that_need_no_request(scoped, ledger):
    first, second = scoped(), scoped("shop.other", "tuesday")
    created(first, "a")
    second.share([Outcome(claim("a", 2), "created", remote_id="a-v1"), Outcome(claim("b"), "created", remote_id=None)])
    assert [one.source for one in second.known([hash_of("a")])[hash_of("a")]] == ["shop.faq", "shop.other"]
    assert second.with_content({hash_of("v1"), hash_of("v2")}) == {hash_of("v1"): "a-v1"}
    created(first, "c", 1, "old")
    created(first, "c", 2, "new")
    first.renumber([(hash_of("c"), 1, 3)])
    assert [one.content_hash for one in first.known([hash_of("c")])[hash_of("c")]] == [hash_of("new"), hash_of("old")]


def test_a_row_that_shares_a_document_whose_removal_has_begun(scoped, ledger):
    first, second = scoped(), scoped("shop.other", "tuesday")
    created(first, "a", remote_id="1", status="active")
    first.set_documents(["1"], status=REMOVING)
    second.share([Outcome(claim("b"), "created", remote_id="1")])
    assert ledger.read(queries.statuses, second.scope, second.source) == [("1", REMOVING)]
    second.mark_gone([hash_of("b")])
    with ledger.connect() as connection:
        (document,) = queries.latest_documents(connection, second.scope, second.source, second.run)
    assert tuple(document) == (hash_of("b"), "b", "1", None, None, True)


def test_any_number_of_keys(scoped):
    attempts = scoped()
    claims = [claim(f"{number}", content=f"{number}") for number in range(2500)]
    assert len(attempts.commit([], claims)) == 2500
    attempts.commit([Outcome(one, "created", remote_id=one.label) for one in claims], [])
    keys = [one.key for one in claims]
    assert len(attempts.known(keys)) == 2500
    assert len(attempts.with_content([hash_of(str(number)) for number in range(2500)])) == 2500
    attempts.mark_gone(keys)
    assert all(found[0].is_gone for found in attempts.known(keys).values())
    attempts.mark_back([(key, "page") for key in keys])
    assert {(found[0].is_gone, found[0].group_name) for found in attempts.known(keys).values()} == {(False, "page")}


@pytest.mark.parametrize("text", ["\x00", "half \ud800", "\U0001f600" * 3000, "'; DROP TABLE x", "\u202e"])
def test_texts_of_any_kind_are_stored(scoped, ledger, text):
    attempts = scoped(source=text, namespace=text)
    made = claim(text)
    attempts.commit([], [made])
    attempts.commit([Outcome(made, "created", remote_id=text, status=text, error=text)], [])
    page = ledger.read(queries.entries, ledger.clock, queries.Filter())
    assert page.total == 1
    assert attempts.known([made.key])[made.key][0].state == "created"


def test_a_ledger_that_cannot_be_written_claims_nothing(scoped, ledger, no_waits):
    attempts = scoped()
    with away(ledger.engine, "INSERT"), pytest.raises(AssistantLedgerError):
        attempts.commit([], [claim("a")])
    assert not attempts.known([hash_of("a")])


def test_a_short_outage_is_waited_for(scoped, ledger, no_waits):
    attempts = scoped()
    with away(ledger.engine, times=2) as outage:
        assert attempts.commit([], [claim("a")])
    assert outage.failed


def test_the_lists_of_a_page_use_indexes(scoped, ledger):
    attempts = scoped()
    for number in range(300):
        created(attempts, f"{number}")
    if ledger.engine.dialect.name != "sqlite":
        return
    query = sa.select(table.c.key).where(queries.condition_of("unresolved"))
    with ledger.connect() as connection:
        compiled = query.compile(connection, compile_kwargs={"literal_binds": True})
        plan = " ".join(row[-1] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {compiled}"))
    assert "assistant_attempts_unresolved" in plan
