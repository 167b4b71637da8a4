"""The ledger of chat batches: accepted and withdrawn questions, and the separation of scopes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from airflow_provider_assistant.exceptions import AssistantLedgerError
from airflow_provider_assistant.ledger import (
    AcceptedQuestion,
    ChatScope,
    Claim,
    ClaimOutcome,
    DocumentScope,
    Ledger,
    RequestEnd,
    RunRef,
)
from airflow_provider_assistant.ledger.bulk_sql import PARAMETERS
from airflow_provider_assistant.ledger.schema import chat_requests
from tests.sites import site_at
from tests.unit.ledger.conftest import EVERYWHERE
from tests.unit.ledger.outage import READ_ONLY, away

RUN = RunRef("dag", "run", "ask", -1)
MOMENT = datetime(2026, 11, 21, 3, 4, 5, tzinfo=UTC)
ENDED = MOMENT + timedelta(seconds=1, microseconds=5)
SQLITE = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


@pytest.fixture
def ledger(database):
    with Ledger(database(), now=lambda: MOMENT) as ledger:
        yield ledger


def opened(ledger, site_url="s", run=RUN):
    return ledger.chat_requests(scope=ChatScope(site_at(site_url), "async", "b"), run=run)


def settle(memory, key, outcome="created", **facts):
    """Claim a key and record its outcome, like a load."""
    claim = Claim(key, f"label {key}", memory.entries([key]).get(key))
    assert memory.commit_and_claim((), [claim]) == {key}
    facts = {"created_id": f"r-{key}" if outcome == "created" else None, **facts}
    memory.commit_and_claim([ClaimOutcome(claim, outcome, f"h-{key}", **facts)], ())


def states(memory, keys):
    return {key: known.state for key, known in memory.entries(list(keys)).items()}


def documents(ledger, run=RUN):
    scope = DocumentScope(site_at("s"), "documents/qa")
    return ledger.documents(scope=scope, source="dag.load", run=run)


@pytest.mark.parametrize("database", EVERYWHERE, indirect=True)
def test_only_one_claim_of_a_key_succeeds(ledger):
    other_run = RunRef("dag", "other", "ask", -1)
    with documents(ledger) as one, documents(ledger, other_run) as other:
        first = [Claim(key, key, None) for key in "ab"]
        assert one.commit_and_claim((), first) == {"a", "b"}
        assert other.commit_and_claim((), [Claim(key, key, None) for key in "bc"]) == {"c"}
        assert states(other, "b") == {"b": "leased"}
        one.commit_and_claim([ClaimOutcome(first[1], "failed", "x")], ())
        rivals = [Claim("b", "b", opened.entries(["b"])["b"]) for opened in (one, other)]
        assert other.commit_and_claim((), rivals[1:]) == {"b"}
        assert one.commit_and_claim((), rivals[:1]) == set()


@pytest.mark.parametrize("database", EVERYWHERE, indirect=True)
@pytest.mark.parametrize("outcome", ["failed", "ambiguous", "created"])
def test_what_the_ledger_makes_of_an_outcome(outcome, ledger):
    def attempt(key, result, content):
        with documents(ledger) as memory:
            claim = Claim(key, "label", memory.entries([key]).get(key))
            assert memory.commit_and_claim((), [claim]) == {key}
            if result != "claimed":
                memory.commit_and_claim([ClaimOutcome(claim, result, content, f"id-{content}")], ())

    before = {"new": None, "failed": "none", "ambiguous": "ambiguous", "created": "created", "claimed": "ambiguous"}
    for key, state in before.items():
        if key != "new":
            attempt(key, key, "old")
        attempt(key, outcome, "new")
        with documents(ledger) as memory:
            known = memory.entries([key])[key]
        assert known.state == (outcome if outcome != "failed" else state or "none")
        stands = "new" if outcome == "created" else "old" if key == "created" else None
        assert (known.content_hash, known.created_id) == (stands, stands and f"id-{stands}")


def test_changed_content_keeps_the_ids_of_what_it_supersedes(ledger):
    for number in (1, 2, 3):
        with documents(ledger) as memory:
            settle(memory, "a", created_id=f"doc-{number}")
    with documents(ledger) as memory:
        (found,) = memory.documents_of_earlier_tries()
        assert (found.created_id, found.superseded) == ("doc-3", ["doc-1", "doc-2"])
    with documents(ledger, RunRef("dag", "other", "ask", -1)) as memory:
        assert list(memory.documents_of_earlier_tries()) == []


def test_what_was_asked_stands(ledger):
    with opened(ledger) as memory:
        # The attempts of all tries count.
        settle(memory, "a", "failed", attempts=2)
        settle(memory, "a", attempts=1)
        settle(memory, "b", "ambiguous", ambiguous=1)
        settle(memory, "c", "failed")
        memory.commit_and_claim((), [Claim("d", "d", None)])
        assert list(memory.accepted()) == [AcceptedQuestion("a", "h-a", "r-a", MOMENT, 3)]


def test_scopes_and_kinds_do_not_mix(ledger):
    scope = DocumentScope(site_at("one"), "documents/qa")
    kb = ledger.documents(scope=scope, source="dag.ask", run=RUN)
    with opened(ledger, "one") as one, opened(ledger, "other") as other, kb:
        settle(one, "a")
        assert list(other.accepted()) == []
        other.withdraw(["a"], "no reason")
        assert len(list(one.accepted())) == 1
        assert (other.entries(["a"]), kb.entries(["a"])) == ({}, {})


@pytest.mark.parametrize("state", ["failed", "lost"])
def test_what_failed_or_was_lost_is_asked_anew_without_doubt(ledger, state):
    with opened(ledger) as memory:
        settle(memory, "a")
        settle(memory, "b")
        memory.record_ends({"r-a": RequestEnd(state, ENDED, "s")})
        assert states(memory, "ab") == {"a": "none", "b": "created"}
        assert [one.key for one in memory.accepted()] == ["b"]
    with opened(ledger) as memory:
        settle(memory, "a", created_id="second")
        assert {one.key: one.request_id for one in memory.accepted()} == {"a": "second", "b": "r-b"}
        assert memory.entries(["a"])["a"].superseded is None
        assert list(memory.documents_of_earlier_tries()) == []


def test_what_is_withdrawn_with_doubt_is_listed_by_every_later_try(ledger):
    with opened(ledger) as memory:
        settle(memory, "a")
        memory.withdraw(["a"], "its answer was lost")
        assert states(memory, "a") == {"a": "ambiguous"}
        assert list(memory.documents_of_earlier_tries()) == []
        entry = memory.find("a")
        assert (entry.outcome, entry.error, entry.request_id) == ("ambiguous", "its answer was lost", "r-a")
        memory.withdraw(["nobody"], "no reason")
        assert memory.entries(["nobody"]) == {}
        settle(memory, "a")
    with opened(ledger) as later:
        assert [(one.label, one.created_id, one.ambiguous) for one in later.documents_of_earlier_tries()] == [
            ("label a", "r-a", 1)
        ]


def late(key, at=MOMENT):
    return AcceptedQuestion(key, f"h-{key}", f"r-{key}", at, 1)


def test_an_effect_that_was_saved_elsewhere_is_recorded_late(ledger):
    with opened(ledger) as killed, opened(ledger, "other") as other:
        settle(killed, "c", "failed")
        settle(killed, "d", created_id="first")
        settle(killed, "e", "ambiguous", ambiguous=1)
        killed.commit_and_claim((), [Claim(key, key, killed.entries([key]).get(key)) for key in "abe"])
        other.commit_and_claim((), [Claim("a", "a", None)])
    with opened(ledger) as later, opened(ledger, "other") as other:
        later.record_late([late(key) for key in "acdex"])
        found = {one.key: one for one in later.accepted()}
        assert found == {
            "a": late("a"),
            "d": AcceptedQuestion("d", "h-d", "first", MOMENT, 1),
            "e": late("e")._replace(attempts=2),
        }
        assert states(later, "bcx") == {"b": "ambiguous", "c": "none"}
        assert [one.label for one in later.documents_of_earlier_tries()] == ["label e"]
        assert states(other, "a") == {"a": "ambiguous"}
        later.record_late([])


def test_an_effect_older_than_the_claim_is_not_recorded(ledger):
    with opened(ledger) as killed:
        killed.commit_and_claim((), [Claim("a", "a", None)])
    with opened(ledger) as later:
        later.record_late([late("a", MOMENT - timedelta(seconds=2))])
        assert states(later, "a") == {"a": "ambiguous"}


@pytest.mark.parametrize("is_own", [True, False])
def test_claims_of_a_living_task_get_no_late_outcome(ledger, is_own):
    with opened(ledger) as one, opened(ledger, run=RunRef("dag", "other", "ask", -1)) as other:
        claiming = one if is_own else other
        claiming.commit_and_claim((), [Claim("a", "a", None)])
        one.record_late([late("a")])
        assert states(one, "a") == {"a": "leased"}


def test_a_key_that_is_claimed_again_meanwhile_gets_no_late_outcome(ledger, monkeypatch):
    with opened(ledger) as killed:
        killed.commit_and_claim((), [Claim("a", "a", None)])
    with opened(ledger) as later, opened(ledger, run=RunRef("dag", "other", "ask", -1)) as other:
        seen = later.entries(["a"])
        assert other.commit_and_claim((), [Claim("a", "a", seen["a"])]) == {"a"}
        monkeypatch.setattr(later, "entries", lambda _: seen)
        later.record_late([late("a")])
        assert list(later.accepted()) == []


def ends_of(ledger):
    """Return the recorded ends of questions by key."""
    c = chat_requests.c
    query = sa.select(c.key, c.request_id, c.state, c.completed_at, c.session_id)
    with ledger.engine.connect() as connection:
        return {key: tuple(row) for key, *row in connection.execute(query)}


def test_ends_are_kept_for_the_requests_that_stand(ledger):
    with opened(ledger) as memory, opened(ledger, "other") as other:
        for key in "abc":
            settle(memory, key)
        settle(other, "z", created_id="r-a")
        memory.commit_and_claim((), [Claim("d", "d", None)])
        before = list(memory.accepted())
        memory.record_ends(
            {
                "r-a": RequestEnd("complete", ENDED, "s-a"),
                "r-b": RequestEnd("timed_out", None, "s-b"),
                "r-x": RequestEnd("lost", ENDED, "s"),
            }
        )
        # If all values of a statement are None, PostgreSQL cannot infer a type.
        memory.record_ends({"r-b": RequestEnd("timed_out", None, None)})
        memory.record_ends({"r-b": RequestEnd("timed_out", None, "s-b")})
        assert list(memory.accepted()) == before
    found = ends_of(ledger)
    assert found["a"] == ("r-a", "complete", ENDED, "s-a")
    assert found["b"] == ("r-b", "timed_out", None, "s-b")
    assert found["c"][1:] == found["d"][1:] == found["z"][1:] == (None, None, None)


def test_a_later_end_replaces_an_earlier_one(ledger):
    with opened(ledger) as memory:
        settle(memory, "a")
        memory.record_ends({"r-a": RequestEnd("timed_out", None, "s")})
        memory.record_ends({"r-a": RequestEnd("complete", ENDED, "s")})
    assert ends_of(ledger)["a"][1] == "complete"


def test_the_end_of_a_request_is_not_that_of_the_next(ledger):
    with opened(ledger) as memory:
        settle(memory, "a")
        memory.record_ends({"r-a": RequestEnd("failed", ENDED, "s")})
        assert ends_of(ledger)["a"][:2] == ("r-a", "failed")
        settle(memory, "a", created_id="r-2")
        assert ends_of(ledger)["a"] == ("r-2", None, None, None)
        memory.record_ends({"r-a": RequestEnd("failed", ENDED, "s")})
        assert ends_of(ledger)["a"] == ("r-2", None, None, None)


def test_an_end_of_a_request_that_was_replaced_or_removed_is_ignored(ledger):
    with opened(ledger) as memory:
        settle(memory, "a")
        settle(memory, "a", created_id="r-2")
        memory.record_ends({"r-a": RequestEnd("complete", ENDED, "s")})
        assert ends_of(ledger)["a"] == ("r-2", None, None, None)
        with ledger.engine.begin() as connection:
            connection.execute(sa.text("DELETE FROM assistant_chat_requests"))
        memory.record_ends({"r-2": RequestEnd("complete", ENDED, "s")})
        assert states(memory, "a") == {}


def test_ends_are_recorded_in_few_statements(ledger):
    with opened(ledger) as memory:
        claims = [Claim(f"{number:05}", "", None) for number in range(2 * PARAMETERS)]
        memory.commit_and_claim((), claims)
        memory.commit_and_claim([ClaimOutcome(claim, "created", "h", claim.key) for claim in claims], ())
        statements = []
        sa.event.listen(ledger.engine, "before_cursor_execute", lambda *facts: statements.append(facts[2]))
        memory.record_ends({claim.key: RequestEnd("complete", ENDED, "s") for claim in claims})
        assert len(statements) < len(claims) / 40
    assert {end[1] for end in ends_of(ledger).values()} == {"complete"}


@pytest.fixture
def executed(ledger):
    """What SQLite executes, including the statements that its driver adds."""
    found = []
    sa.event.listen(
        ledger.engine,
        "checkout",
        lambda driver, *_: driver.set_trace_callback(lambda text: found.append(text.split()[0])),
    )
    return found


@SQLITE
@pytest.mark.parametrize("count", [2, PARAMETERS])
def test_a_group_that_fits_into_one_statement_is_its_own_transaction(count, ledger, executed):
    with opened(ledger) as memory:
        claims = [Claim(f"{number:05}", "label", None) for number in range(2 * count)]
        assert len(memory.commit_and_claim((), claims[:count])) == count
        executed.clear()
        outcomes = [ClaimOutcome(claim, "created", "h", claim.key) for claim in claims[:count]]
        assert memory.commit_and_claim(outcomes, claims[count:]) == {claim.key for claim in claims[count:]}
        assert set(executed) == ({"INSERT"} if count == 2 else {"BEGIN", "INSERT", "COMMIT"})


def test_a_group_of_several_statements_is_rolled_back_after_one_of_a_single_statement(ledger):
    with opened(ledger) as memory:
        settle(memory, "a", "failed")
        claims = [Claim("b", "label", None), Claim("a", "label", memory.entries(["a"])["a"])]
        with away(ledger.engine, "UPDATE", code=READ_ONLY), pytest.raises(AssistantLedgerError):
            memory.commit_and_claim((), claims)
        assert states(memory, "ab") == {"a": "none"}


def test_a_key_that_a_changed_source_repeats_is_recorded_and_claimed_apart(ledger):
    with opened(ledger) as memory:
        twice = [Claim("a", "label", None)] * 2
        assert memory.commit_and_claim((), twice) == {"a"}
        assert memory.commit_and_claim([ClaimOutcome(twice[0], "created", "h", "r")], twice) == set()
        assert states(memory, "a") == {"a": "created"}


@pytest.mark.parametrize("count", [0, PARAMETERS - 6, 2 * PARAMETERS])
def test_any_number_is_withdrawn(count, ledger):
    keys = [f"{number:05}" for number in range(count)]
    with opened(ledger) as memory:
        settle(memory, "other")
        claims = [Claim(key, key, None) for key in keys]
        memory.commit_and_claim((), claims)
        memory.commit_and_claim([ClaimOutcome(claim, "created", "h", claim.key) for claim in claims], ())
        assert len(list(memory.accepted())) == count + 1
        memory.withdraw(keys, "no reason")
        assert [one.key for one in memory.accepted()] == ["other"]
