"""Tries of tasks, chat requests and ratings: what the pages show and the exports write."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred

from airflow_provider_assistant.erasure.erase import Places, erase
from airflow_provider_assistant.erasure.person import Person
from airflow_provider_assistant.exceptions import AssistantInputError, AssistantLedgerError
from airflow_provider_assistant.ledger import Outcome, RunRef, Site, chats, exports, hash_of, queries, tries
from airflow_provider_assistant.ledger.chats import RequestEnd
from airflow_provider_assistant.ledger.settle import prune
from airflow_provider_assistant.loading.findings import Finding
from tests.unit.ledger.attempts import attempt, claim, labels, states
from tests.unit.ledger.conftest import START
from tests.unit.ledger.outage import away

SITE = Site("service", "help", url="http://service/m2m/sites/help")
RUN = RunRef("shop", "monday", "faq", -1)


def recorded(ledger, clock, token="1", source="shop.faq", site=SITE, **options):
    return tries.recorded(ledger.engine, token, "load", site, source, RUN, kind="qa", now=clock, **options)


def all_tries(ledger):
    return ledger.read(queries.page_of_tries).rows


class TestTries:
    def test_a_try_is_a_row_with_its_counts(self, ledger, clock):
        with recorded(ledger, clock) as this:
            assert [row["outcome"] for row in all_tries(ledger)] == ["unfinished"]
            this.counts = {"rows": 2, "created": 1, "rejected": 1}
            this.findings, this.documents = "findings.parquet", 7
            clock.advance(5)
        (row,) = all_tries(ledger)
        assert (row["outcome"], row["seconds"], row["counts"], row["documents"], row["findings"]) == (
            "succeeded", 5.0, {"rows": 2, "created": 1, "rejected": 1}, 7, "findings.parquet",
        )  # fmt: skip
        assert (row["started_at"], row["dag_id"], row["source"], row["kind"]) == (START, "shop", "shop.faq", "qa")

    @pytest.mark.parametrize(
        ("error", "outcome"),
        [
            (AssistantInputError("no rows"), "failed"),
            (KeyboardInterrupt(), "failed"),
            (TaskDeferred(trigger=None, method_name="execute"), "deferred"),
        ],
    )
    def test_how_a_try_ended(self, ledger, clock, error, outcome):
        with pytest.raises(type(error)), recorded(ledger, clock):
            raise error
        assert all_tries(ledger)[0]["outcome"] == outcome

    @pytest.mark.promise("ledger", "A load that left something for a person is not shown as a plain success.")
    def test_a_success_that_left_something_says_so(self, ledger, clock):
        with recorded(ledger, clock) as this:
            this.needs_person = True
        assert all_tries(ledger)[0]["outcome"] == "succeeded with findings"
        with recorded(ledger, clock, "2") as this:
            this.error = AssistantInputError("2 rows were rejected")
        assert [row["error"] for row in all_tries(ledger) if row["token"] == "2"] == ["2 rows were rejected"]

    def test_nothing_is_done_if_the_start_cannot_be_written(self, ledger, clock, no_waits):
        with away(ledger.engine, "INSERT"), pytest.raises(AssistantLedgerError), recorded(ledger, clock):
            pytest.fail("the load has begun")

    def test_an_end_that_cannot_be_written_hides_no_error(self, ledger, clock, no_waits, caplog):
        started = []

        def fail():
            with recorded(ledger, clock):
                started.append(True)
                raise ZeroDivisionError

        with away(ledger.engine, "UPDATE", when=lambda: started), pytest.raises(ZeroDivisionError):
            fail()
        assert "is not recorded" in caplog.text

    @pytest.mark.promise("ledger", "Two names of one service are noticed at the first use of the second one.")
    def test_another_name_for_the_same_address_is_noticed(self, ledger, clock, caplog):
        with recorded(ledger, clock):
            pass
        other = Site("assistant.example.com", "help", url=SITE.url)
        with recorded(ledger, clock, "2", site=other):
            pass
        assert "is also in the ledger as 'service'" in caplog.text
        assert "ledger rename" in caplog.text

    def test_the_latest_of_a_task_and_of_a_time(self, ledger, clock):
        for number in range(4):
            with recorded(ledger, clock, str(number), source=f"source {number % 2}"):
                clock.advance(60)
        assert [row["token"] for row in ledger.read(queries.tries_of, RUN.columns(), 2)] == ["2", "3"]
        assert [row["token"] for row in all_tries(ledger)] == ["3", "2", "1", "0"]
        minute = timedelta(minutes=1)
        found = ledger.read(exports.tries_between, START + minute, START + 3 * minute)
        assert [row["token"] for row in found] == ["1", "2"]
        assert ledger.read(queries.page_of_tries, source="source 1", outcome="succeeded").total == 2
        assert [row["source"] for row in ledger.read(queries.sources, START)] == ["source 1", "source 0"]

    def test_the_first_findings_of_a_try_go_with_it(self, ledger, clock):
        found = [Finding("rejected", f"key {number}", "empty", number) for number in range(3)]
        for token in ("old", "new"):
            with recorded(ledger, clock, token) as this:
                this.first_findings = found
            clock.advance(100)
        assert ledger.read(queries.findings_of, "old", "rejected", limit=1, offset=1) == (
            {"rejected": 3},
            [{"kind": "rejected", "row": 1, "key": "key 1", "reason": "empty", "document_ids": []}],
        )
        prune(ledger, START + timedelta(seconds=50))
        assert [ledger.read(queries.findings_of, token)[0] for token in ("old", "new")] == [{}, {"rejected": 3}]

    @pytest.mark.promise("ledger", "Documents over time fall when documents are removed, whatever is pruned.")
    def test_documents_by_day(self, ledger, clock):
        for number, (source, documents) in enumerate([("a", 100), ("b", 10), ("a", 40), ("b", 12)]):
            with recorded(ledger, clock, str(number), source=source) as this:
                this.documents = documents
            clock.advance(86_400)
        assert ledger.read(queries.documents_by_day, date(2026, 11, 22)) == {
            date(2026, 11, 22): 110, date(2026, 11, 23): 50, date(2026, 11, 24): 52,
        }  # fmt: skip
        assert ledger.read(queries.documents_by_day, date(2026, 11, 1), source="a") == {
            date(2026, 11, 21): 100, date(2026, 11, 23): 40,
        }  # fmt: skip


class TestChats:
    def asked(self, scoped, name, request_id="r1", **facts):
        attempts = scoped(kind="chat", **facts.pop("scope", {}))
        made = claim(name, facts.pop("number", 1), mode=facts.pop("mode", "async"), session_id=None)
        attempts.commit([], [made])
        attempts.commit([Outcome(made, "created", remote_id=request_id, requests=1, **facts)], [])
        return attempts

    def end(self, ledger, state, request_id="r1", moment=START):
        chats.record_ends(ledger.engine, SITE, {request_id: RequestEnd(state, moment, "session")})

    @pytest.mark.parametrize("state", ["failed", "lost"])
    def test_a_request_without_an_answer_is_asked_again(self, scoped, ledger, state):
        self.asked(scoped, "a")
        self.end(ledger, state)
        assert states(ledger, "a") == [(1, "failed")]
        assert labels(ledger, "open") == []

    def test_the_first_end_counts_except_that_a_request_may_be_lost_later(self, scoped, ledger):
        self.asked(scoped, "a")
        self.end(ledger, "timed_out", moment=None)
        self.end(ledger, "complete")
        self.end(ledger, "failed")
        assert states(ledger, "a") == [(1, "created")]
        self.end(ledger, "lost")
        assert states(ledger, "a") == [(1, "failed")]

    def test_open_requests_and_when_they_were_accepted(self, scoped, ledger):
        attempts = self.asked(scoped, "a")
        assert labels(ledger, "open") == ["a"]
        assert chats.submitted_at(ledger, SITE, "r1") == START
        assert chats.submitted_at(ledger, SITE, "other") is None
        (sent,) = chats.sent(ledger, attempts.scope)
        assert sent == chats.Sent(hash_of("a"), 1, None, START, 1, 0)

    def test_what_a_killed_try_left_is_corrected_if_it_is_as_it_was(self, scoped, ledger):
        attempts = scoped(kind="chat")
        attempts.commit([], [claim("a")])
        late = chats.Correction(hash_of("a"), 1, "claimed", "created", request_id="r1", ended_at=START.timestamp())
        chats.correct(ledger, attempts.scope, [late._replace(number=2), late._replace(before="failed")])
        assert states(ledger, "a") == [(1, "claimed")]
        chats.correct(ledger, attempts.scope, [late])
        assert states(ledger, "a") == [(1, "created")]
        assert chats.submitted_at(ledger, SITE, "r1") == START
        lost = chats.Correction(hash_of("a"), 1, "created", "ambiguous", error="its answer was lost")
        chats.correct(ledger, attempts.scope, [lost])
        assert states(ledger, "a") == [(1, "ambiguous")]


def test_findings_that_name_a_request_of_a_person_are_erased(scoped, ledger, clock):
    attempts = scoped(kind="chat")
    asked = claim("a", mode="async", session_id="mine")
    attempts.commit([], [asked])
    attempts.commit([Outcome(asked, "created", remote_id='r"1', requests=1)], [])
    with recorded(ledger, clock) as this:
        ids = (["x", 'r"1'], ["r"], [])
        this.first_findings = [Finding("possibly_duplicated", "Why?", "asked twice", 1, named) for named in ids]
    erased, left = erase(Person(["mine"]), Places(ledger=ledger))
    assert (erased.counts["ledger"], left.total) == ({"entries": 1, "findings": 1}, 0)
    _kinds, rows = ledger.read(queries.findings_of, "1")
    assert [row["document_ids"] for row in rows] == [["r"], []]


class TestExports:
    def test_requests_have_their_state_and_their_seconds(self, scoped, ledger, clock):
        chat = TestChats()
        chat.asked(scoped, "answered", "r1")
        chat.asked(scoped, "open", "r2", scope={"namespace": "batch"})
        chat.asked(scoped, "lost", "r3")
        chat.asked(scoped, "sync", "r4", mode="sync")
        attempts = scoped(kind="chat")
        for name, state in (("unclear", "ambiguous"), ("refused", "rejected")):
            made = claim(name, mode="async")
            attempts.commit([], [made])
            attempts.commit([Outcome(made, state, requests=1, ambiguous=1)], [])
        chat.end(ledger, "complete", "r1", START + timedelta(seconds=7))
        chat.end(ledger, "lost", "r3", START)
        # A chat that is asked again stays one row, on the day of the last request that was accepted.
        chat.asked(scoped, "again", "r5")
        chat.end(ledger, "failed", "r5", START)
        chat.asked(scoped, "again", "r6", number=2)
        refused = claim("again", 3, mode="async")
        attempts.commit([], [refused])
        attempts.commit([Outcome(refused, "rejected", requests=1)], [])
        # One that is settled later stays on its day.
        unclear = claim("settled", mode="async")
        attempts.commit([], [unclear])
        clock.advance(86_400)
        attempts.commit([Outcome(unclear, "created", remote_id="r7", requests=1)], [])
        rows = ledger.read(exports.requests_between, START, START + timedelta(seconds=1))
        found = {row["request_id"]: (row["state"], row["seconds"], row["is_batch"]) for row in rows}
        assert found == {
            "r1": ("complete", 7.0, False), "r2": ("open", None, True), "r3": ("lost", 0.0, False),
            None: ("ambiguous", None, False), "r6": ("open", None, False), "r7": ("open", None, False),
        }  # fmt: skip
        assert len(rows) == len(found)
        assert not ledger.read(exports.requests_between, START - timedelta(1), START)

    def test_feedback_has_the_seconds_that_its_answer_took(self, scoped, ledger, clock):
        chat = TestChats()
        chat.asked(scoped, "a", "r1")
        chat.end(ledger, "complete", "r1", START + timedelta(seconds=7))
        clock.advance(60)
        ratings = scoped(kind="rating")
        for name, request_id, state in (("a", "r1", "created"), ("b", "r2", "created"), ("c", "r3", "failed")):
            made = claim(name, session_id="s", remote_id=request_id, rating="good")
            ratings.commit([], [made])
            ratings.commit([Outcome(made, state, requests=2)], [])
        rows = ledger.read(exports.feedback_between, START, datetime(2026, 11, 23, tzinfo=UTC))
        assert [(row["request_id"], row["rating"], row["attempts"], row["answer_seconds"]) for row in rows] == [
            ("r1", "good", 2, 7.0), ("r2", "good", 2, None),
        ]  # fmt: skip

    def test_a_request_that_was_asked_twice_is_rated_once(self, scoped, ledger):
        chat = TestChats()
        attempts = chat.asked(scoped, "a", "r1")
        attempt(attempts, "a", "created", 2, remote_id="r1")
        ratings = scoped(kind="rating")
        made = claim("a", session_id="s", remote_id="r1", rating="bad")
        ratings.commit([], [made])
        ratings.commit([Outcome(made, "created")], [])
        assert len(ledger.read(exports.feedback_between, START, START + timedelta(1))) == 1
