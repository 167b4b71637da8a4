"""Lists of attempts are conditions over them: what needs a person, and what a person says of it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.ledger import Filter, Outcome, RunRef, Scope, Site, hash_of, queries
from airflow_provider_assistant.ledger.settle import NEEDS_ID, NOT_ALLOWED, UNDER_WAY, prune, rename, settle
from tests.unit.ledger.attempts import attempt, claim, created, labels, states
from tests.unit.ledger.conftest import START

SITE = Site("service", "help")


def settled(ledger, selected, outcome, **options):
    """Settle what a list shows, as a person does who confirms it."""
    seen = settle(ledger, selected, outcome, **options)
    return settle(ledger, selected, outcome, confirmation=seen.confirmation, **options)


class TestLists:
    def test_an_attempt_without_outcome_is_unresolved_until_a_later_one(self, scoped, ledger):
        attempts = scoped()
        attempt(attempts, "sent", "claimed")
        attempt(attempts, "lost", "ambiguous")
        attempt(attempts, "lost again", "ambiguous")
        attempt(attempts, "lost again", "ambiguous", 2)
        attempt(attempts, "lost, then refused", "ambiguous")
        attempt(attempts, "lost, then refused", "rejected", 2)
        attempt(attempts, "lost, then created", "ambiguous")
        created(attempts, "lost, then created", 2)
        created(attempts, "fine")
        assert labels(ledger, "unresolved") == ["lost", "lost again", "lost, then refused", "sent"]
        assert labels(ledger, "doubled") == ["lost, then created"]
        assert labels(ledger, "rejected") == ["lost, then refused"]

    @pytest.mark.promise("loads", "A clean replacement of a row that may exist twice is not listed as duplicated.")
    def test_a_doubt_belongs_to_the_document_that_followed_it(self, scoped, ledger):
        attempts = scoped()
        attempt(attempts, "a", "ambiguous")
        created(attempts, "a", 2)
        created(attempts, "a", 3, "v2")
        page = ledger.read(queries.entries, ledger.clock, Filter(which="doubled"))
        assert [(row["label"], row["number"]) for row in page.rows] == [("a", 2)]

    def test_requests_of_one_attempt_may_have_created_two(self, scoped, ledger):
        created(scoped(), "a", ambiguous=1)
        assert labels(ledger, "doubled") == ["a"]

    def test_two_documents_of_one_content_are_doubled(self, scoped, ledger):
        attempts = scoped()
        created(attempts, "a", remote_id="1")
        created(attempts, "a", 2, remote_id="2")
        assert labels(ledger, "doubled") == ["a"]
        assert labels(ledger, "superseded") == []

    def test_an_older_document_with_other_content_is_superseded(self, scoped, ledger):
        attempts = scoped()
        for number, content in enumerate(("v1", "v2", "v3"), start=1):
            created(attempts, "a", number, content)
        created(attempts, "b")
        page = ledger.read(queries.entries, ledger.clock, Filter(which="superseded"))
        assert sorted(row["remote_id"] for row in page.rows) == ["a-v1", "a-v2"]
        attempts.renumber([(hash_of("a"), 1, 4)])
        page = ledger.read(queries.entries, ledger.clock, Filter(which="superseded"))
        assert sorted(row["remote_id"] for row in page.rows) == ["a-v2", "a-v3"]

    @pytest.mark.promise("loads", "A document that another row or source needs is not listed as outdated.")
    def test_a_document_that_another_row_needs_is_not_outdated(self, scoped, ledger):
        ours, theirs = scoped(), scoped("shop.other", "tuesday")
        created(ours, "a", remote_id="1")
        theirs.share([Outcome(claim("a", 2), "created", remote_id="1")])
        ours.mark_gone([hash_of("a")])
        assert labels(ledger, "stale") == []
        theirs.mark_gone([hash_of("a")])
        assert labels(ledger, "stale") == ["a", "a"]
        created(ours, "b", remote_id="2")
        ours.share([Outcome(claim("c", 1), "created", remote_id="2")])
        created(ours, "b", 2, "v2")
        assert labels(ledger, "superseded") == []
        created(ours, "c", 2, "v3")
        assert labels(ledger, "superseded") == ["b", "c"]

    def test_drafts_are_those_that_the_service_does_not_use(self, scoped, ledger):
        attempts = scoped()
        for status in ("draft", "In Review", "failed", "odd-word", "active", "Processing", None):
            created(attempts, str(status), status=status)
        assert labels(ledger, "draft") == ["In Review", "draft", "failed", "odd-word"]
        attempts.set_documents(["draft-v1"], status="active")
        assert "draft" not in labels(ledger, "draft")

    def test_filters(self, scoped, ledger):
        created(scoped(), "Orders of August")
        created(scoped("shop.other", site="shop"), "returns")
        attempt(scoped(kind="chat", namespace="night"), "hello", "created", remote_id="r1")
        expected = {
            "Orders of August": Filter(label_part="of AUG"),
            "returns": Filter(site_id="shop"),
            "hello": Filter(kinds=("chat",)),
        }
        for label, selected in expected.items():
            assert [row["label"] for row in ledger.read(queries.entries, ledger.clock, selected).rows] == [label]
        assert ledger.read(queries.entries, ledger.clock, Filter(source="shop.other")).total == 1
        assert ledger.read(queries.entries, ledger.clock, Filter(dag_ids=frozenset())).total == 0
        assert ledger.read(queries.entries, ledger.clock, Filter(run=RunRef("shop", "monday", "faq", -1))).total == 3
        assert ledger.read(queries.entries, ledger.clock, Filter(remote_ids=("r1", "r2"))).total == 1

    def test_a_count_stops_at_a_limit(self, scoped, ledger, monkeypatch):
        monkeypatch.setattr(queries, "MOST", 3)
        for number in range(5):
            attempt(scoped(), f"{number}", "ambiguous")
        page = ledger.read(queries.entries, ledger.clock, Filter(which="unresolved"), limit=2, offset=2)
        assert (page.total, page.is_capped, len(page.rows)) == (3, True, 2)
        assert ledger.read(queries.counts, Filter(), ("unresolved", "stale")) == {"unresolved": 3, "stale": 0}


class TestSettle:
    def test_as_created(self, scoped, ledger):
        attempt(scoped(), "a", "ambiguous")
        settled(ledger, Filter(which="unresolved"), "created", remote_id="7")
        ((found,),) = scoped().known([hash_of("a")]).values()
        assert (found.state, found.remote_id, found.content_hash) == ("created", "7", hash_of("v1"))

    def test_as_not_created_an_earlier_document_remains(self, scoped, ledger):
        attempts = scoped()
        created(attempts, "a")
        attempt(attempts, "a", "ambiguous", 2, "v2")
        assert settled(ledger, Filter(which="unresolved"), "not-created").settled == 1
        assert states(ledger, "a") == [(1, "created"), (2, "failed")]

    def test_as_not_created_the_attempts_before_are_settled_back_to_a_document(self, scoped, ledger):
        attempts, others = scoped(), scoped("other")
        attempt(attempts, "a", "ambiguous")
        created(attempts, "a", 2)
        attempt(attempts, "a", "ambiguous", 3, "v2")
        attempt(others, "a", "ambiguous", 4)
        attempt(attempts, "a", "ambiguous", 5, "v2")
        settled(ledger, Filter(which="unresolved", source=attempts.source), "not-created")
        assert [state for _, state in states(ledger, "a")] == ["ambiguous", "created", "failed", "ambiguous", "failed"]

    def test_a_doubt_about_a_second_document_is_settled_with_the_first(self, scoped, ledger):
        attempts = scoped()
        for label in ("a", "b"):
            attempt(attempts, label, "ambiguous")
            created(attempts, label, 2, ambiguous=1)
        settled(ledger, Filter(which="doubled"), "not-created")
        for label in ("a", "b"):
            assert states(ledger, label) == [(1, "failed"), (2, "created")]
        assert labels(ledger, "doubled") == []

    @pytest.mark.promise("ledger", "Only the documents that a person names are taken for removed.")
    @pytest.mark.parametrize("unknown", ["abcdef", "123456", "", hash_of("a")[:8]])
    def test_an_unknown_id_is_no_part_of_a_key(self, scoped, ledger, unknown):
        created(scoped(), "a")
        assert settle(ledger, Filter(remote_ids=(unknown,)), "removed").settled == 0
        assert settled(ledger, Filter(remote_ids=("a-v1", unknown)), "removed").settled == 1
        assert states(ledger, "a") == [(1, "removed")]

    def test_what_a_task_is_sending_stays(self, scoped, ledger):
        scoped().commit([], [claim("a")])
        report = settled(ledger, Filter(which="unresolved"), "not-created")
        assert (report.settled, dict(report.kept)) == (0, {UNDER_WAY: 1})

    def test_attempts_of_other_dags_stay(self, scoped, ledger):
        attempt(scoped(), "a", "ambiguous")
        report = settled(ledger, Filter(), "not-created", may_change=lambda dag: dag == "other")
        assert (report.settled, dict(report.kept)) == (0, {NOT_ALLOWED: 1})

    def test_a_chat_request_needs_its_id(self, scoped, ledger):
        attempt(scoped(kind="chat"), "hello", "ambiguous")
        assert dict(settled(ledger, Filter(), "created").kept) == {NEEDS_ID: 1}
        assert settled(ledger, Filter(), "created", remote_id="r1").settled == 1

    def test_another_list_than_the_confirmed_one_is_refused(self, scoped, ledger):
        attempts = scoped()
        attempt(attempts, "a", "ambiguous")
        seen = settle(ledger, Filter(which="unresolved"), "not-created")
        attempt(attempts, "b", "ambiguous")
        with pytest.raises(AssistantInputError, match="2 entries match now"):
            settle(ledger, Filter(which="unresolved"), "not-created", confirmation=seen.confirmation)
        assert labels(ledger, "unresolved") == ["a", "b"]

    def test_thousands_at_once(self, scoped, ledger):
        attempts = scoped()
        claims = [claim(f"{number}") for number in range(2300)]
        attempts.commit([], claims)
        attempts.commit([Outcome(one, "ambiguous") for one in claims], [])
        assert settled(ledger, Filter(which="unresolved"), "created").settled == 2300
        assert labels(ledger, "unresolved") == []


class TestUpkeep:
    def test_a_service_gets_another_name(self, scoped, ledger):
        created(scoped(), "a")
        created(scoped(site="shop", kind="chat", namespace="x"), "b")
        assert rename(ledger, "service", "new", dry_run=True) == 2
        assert rename(ledger, "service", "new", site_id="help") == 1
        assert scoped(service="new").known([hash_of("a")])
        assert not scoped().known([hash_of("a")])
        assert rename(ledger, "service", "new") == 1
        assert scoped(service="new", site="shop", kind="chat", namespace="x").known([hash_of("b")])

    def test_names_with_the_same_rows_are_not_joined(self, scoped, ledger):
        created(scoped(), "a")
        created(scoped(service="new"), "a")
        with pytest.raises(AssistantInputError, match="such as 'a'"):
            rename(ledger, "service", "new")
        assert scoped().known([hash_of("a")])

    def test_what_a_task_is_sending_keeps_its_name_until_it_has_ended(self, scoped, ledger, clock):
        attempt(scoped(), "a", "claimed")
        with pytest.raises(AssistantInputError, match="may be sending entries of this name right now"):
            rename(ledger, "service", "new")
        clock.advance(61)
        assert rename(ledger, "service", "new") == 1

    def test_only_what_nobody_needs_is_pruned(self, scoped, ledger, clock):
        attempts = scoped()
        for state in ("created", "ambiguous", "rejected", "failed"):
            attempt(attempts, state, state)
        attempts.commit([], [claim("claimed")])
        created(attempts, "removed")
        attempts.set_documents(["removed-v1"], state="removed")
        attempt(scoped(kind="chat"), "asked", "created")
        attempt(scoped(kind="rating"), "rated", "created")
        clock.advance(3600)
        attempt(attempts, "new", "failed")
        before = START + timedelta(minutes=30)
        expected = {"qa": 3, "chat": 1, "tries": 0}
        assert prune(ledger, before, dry_run=True) == expected
        assert prune(ledger, before) == expected
        left = ledger.read(queries.entries, ledger.clock, Filter())
        # A rating loses its label.
        assert {row["label"] for row in left.rows} == {"created", "ambiguous", "claimed", "", "new"}
        assert ledger.read(queries.pruned_before) == before
        prune(ledger, before - timedelta(days=1))
        assert ledger.read(queries.pruned_before) == before

    def test_what_other_names_of_the_service_have(self, scoped, ledger):
        created(scoped(service="old"), "a")
        created(scoped("shop.other", service="old"), "b")
        assert ledger.read(queries.other_services, Scope(SITE, "qa"), "shop.faq") == {"old": 1}
        assert ledger.read(queries.documents_of, Scope(SITE, "qa"), "shop.faq") == 0
