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
    sqlite_engine,
)
from airflow_provider_assistant.ledger.bulk_sql import PARAMETERS
from tests.sites import site_at
from tests.unit.ledger.outage import READ_ONLY, away

RUN = RunRef("dag", "run", "ask", -1)
MOMENT = datetime(2026, 11, 21, 3, 4, 5, tzinfo=UTC)
ENDED = MOMENT + timedelta(seconds=1, microseconds=5)


@pytest.fixture
def ledger(tmp_path):
    with Ledger(sqlite_engine(tmp_path / "ledger.db"), now=lambda: MOMENT) as ledger:
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


def test_what_was_asked_stands(ledger):
    with opened(ledger) as memory:
        settle(memory, "a", attempts=3)
        settle(memory, "b", "ambiguous", ambiguous=1)
        settle(memory, "c", "failed")
        memory.commit_and_claim((), [Claim("d", "d", None)])
        assert list(memory.accepted()) == [AcceptedQuestion("a", "h-a", "r-a", MOMENT, 3)]


def test_attempts_of_all_tries_are_counted(ledger):
    with opened(ledger) as memory:
        settle(memory, "a", "failed", attempts=2)
        settle(memory, "a", attempts=3)
        assert [one.attempts for one in memory.accepted()] == [5]


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
        settle(memory, "a")
    with opened(ledger) as later:
        assert [(one.label, one.created_id, one.ambiguous) for one in later.documents_of_earlier_tries()] == [
            ("label a", "r-a", 1)
        ]


def test_the_reason_is_kept(ledger):
    with opened(ledger) as memory:
        settle(memory, "a")
        memory.withdraw(["a"], "its answer was lost")
    with ledger.engine.connect() as connection:
        row = connection.execute(sa.text("SELECT outcome, error, request_id FROM assistant_chat_requests")).one()
    assert tuple(row) == ("ambiguous", "its answer was lost", "r-a")


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
    query = sa.text("SELECT key, request_id, state, completed_at, session_id FROM assistant_chat_requests ORDER BY key")
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
        assert list(memory.accepted()) == before
    found = ends_of(ledger)
    assert found["a"] == ("r-a", "complete", "2026-11-21 03:04:06.000005", "s-a")
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


@pytest.mark.parametrize("count", [2, PARAMETERS])
def test_a_group_that_fits_into_one_statement_is_its_own_transaction(count, ledger, executed):
    with opened(ledger) as memory:
        claims = [Claim(f"{number:05}", "label", None) for number in range(2 * count)]
        assert len(memory.commit_and_claim((), claims[:count])) == count
        executed.clear()
        outcomes = [ClaimOutcome(claim, "created", "h", claim.key) for claim in claims[:count]]
        assert memory.commit_and_claim(outcomes, claims[count:]) == {claim.key for claim in claims[count:]}
        assert set(executed) == ({"INSERT"} if count == 2 else {"BEGIN", "INSERT", "COMMIT"})


def test_a_group_of_several_statements_is_rolled_back_after_one_of_a_single_statement(ledger, executed):
    with opened(ledger) as memory:
        settle(memory, "a", "failed")
        claims = [Claim("b", "label", None), Claim("a", "label", memory.entries(["a"])["a"])]
        executed.clear()
        with away(ledger.engine, "UPDATE", code=READ_ONLY), pytest.raises(AssistantLedgerError):
            memory.commit_and_claim((), claims)
        assert executed == ["BEGIN", "INSERT", "ROLLBACK"]
        assert states(memory, "ab") == {"a": "none"}


def test_a_key_that_a_changed_source_repeats_is_recorded_and_claimed_apart(ledger):
    with opened(ledger) as memory:
        twice = [Claim("a", "label", None)] * 2
        assert memory.commit_and_claim((), twice) == {"a"}
        assert memory.commit_and_claim([ClaimOutcome(twice[0], "created", "h", "r")], twice) == set()
        assert states(memory, "a") == {"a": "created"}


@pytest.mark.parametrize("count", [0, 1, PARAMETERS - 6, PARAMETERS, 3 * PARAMETERS])
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


def test_what_is_not_there_is_withdrawn_without_a_trace(ledger):
    with opened(ledger) as memory:
        memory.withdraw(["nobody"], "no reason")
        assert memory.entries(["nobody"]) == {}


def test_a_retry_takes_over_what_a_killed_try_left_open(ledger):
    """A claim of a killed try is ambiguous; a claim of another run may still be in flight."""
    with (
        opened(ledger) as killed,
        opened(ledger) as retry,
        opened(ledger, run=RunRef("dag", "other", "ask", -1)) as other,
    ):
        killed.commit_and_claim((), [Claim("a", "a", None)])
        assert states(retry, "a") == {"a": "ambiguous"}
        assert states(other, "a") == {"a": "leased"}


def test_moments_are_utc(tmp_path):
    from zoneinfo import ZoneInfo

    moment = MOMENT.astimezone(ZoneInfo("Asia/Kathmandu")) + timedelta(microseconds=7)
    with Ledger(sqlite_engine(tmp_path / "ledger.db"), now=lambda: moment) as ledger, opened(ledger) as memory:
        settle(memory, "a")
        (one,) = memory.accepted()
    assert one.recorded_at == moment
    assert one.recorded_at.tzinfo is UTC


def test_a_database_that_is_gone_is_an_error_of_the_ledger(tmp_path):
    with Ledger(sqlite_engine(tmp_path / "ledger.db")) as ledger, opened(ledger) as memory:
        with ledger.engine.begin() as connection:
            connection.execute(sa.text("DROP TABLE assistant_chat_requests"))
        with pytest.raises(AssistantLedgerError, match="cannot be read"):
            list(memory.accepted())
        with pytest.raises(AssistantLedgerError, match="cannot be written"):
            memory.withdraw(["a"], "no reason")
