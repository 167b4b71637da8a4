"""Nights with known faults, and with exact results: each is a line of docs/internals/figures.md, or once went wrong."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import airflow.configuration
import pyarrow.parquet as pq
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSensorTimeout, AirflowTaskTimeout

from airflow_provider_assistant.exceptions import (
    AssistantAuthenticationError,
    AssistantIncompleteError,
    AssistantLedgerError,
    AssistantRateLimitError,
    AssistantRequestFailedError,
    AssistantRequestLostError,
    AssistantRequestTimeoutError,
)
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.operators.chat import AssistantChatOperator
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator, AssistantUploadFilesOperator
from airflow_provider_assistant.operators.feedback import AssistantFeedbackOperator
from airflow_provider_assistant.operators.submit_chat import AssistantSubmitChatOperator
from airflow_provider_assistant.sandbox import Settings
from airflow_provider_assistant.sandbox.store import Chat, Document
from airflow_provider_assistant.sensors.chat import AssistantChatRequestSensor
from tests.simulate.replies import WELL, Answer
from tests.simulate.transport import CHATS, CREATES
from tests.simulate.world import CALM, DAY, End, Ended, LedgerAway, Try, World

HOUR, MINUTE = 3_600.0, 60.0
COUNT, CONCURRENCY = 60, 16


def rows(numbers: Any, **cells: Any) -> list[dict[str, Any]]:
    """Return rows of a load."""
    return [{"id": n, "title": f"T{n}", "question": "Q", "answer": f"A{n}", "category": "c", **cells} for n in numbers]


class Case:
    """A world, and the tasks of one test in it."""

    def __init__(self, **options: Any) -> None:
        settings = Settings(**{"processing_seconds": 30.0, "allow_duplicates": True, **options.pop("settings", {})})
        self.world = World(settings, **{"max_concurrency": CONCURRENCY, "retries": 5, **options})
        self.world.most = 1e5

    def load(self, attempt: Try = CALM, source: Any = None, *, run: str = "run", **options: Any) -> Ended:
        """Load rows; by default, COUNT of them."""
        return self.load_at_once(attempt, source, (run,), **options)[0]

    def load_at_once(self, attempt: Try, source: Any, runs: tuple[str, ...], **options: Any) -> list[Ended]:
        """Load rows in several runs at the same time."""
        source = rows(range(COUNT)) if source is None else source
        options = {"max_rejected": 10**6, "source_name": "source", **options}

        def make() -> Any:
            return AssistantLoadQAOperator(task_id="task", source=source, key_columns="id", **options)

        return self.world.all_tried(attempt, lambda context: self.world.run(make, context), runs=runs)

    def ask(self, attempt: Try = CALM, count: int = 20, **options: Any) -> Ended:
        """Ask a batch of questions."""
        source = [{"id": number, "message": f"Question {number}?"} for number in range(count)]
        path = str(self.world.folder / "answers.parquet")
        options = {"poll_interval": 5.0, "timeout": 600.0, "deferrable": False, **options}

        def make() -> Any:
            return AssistantChatBatchOperator(
                task_id="task", source=source, key_columns="id", output_path=path, **options
            )

        return self.world.tried(attempt, lambda context: self.world.run(make, context))

    def run(self, make: Any, attempt: Try = CALM, number: int = 1) -> Ended:
        """Run a task."""
        return self.world.tried(attempt, lambda context: self.world.run(make, context), number=number)

    def stored(self) -> Counter[str]:
        """Return how often the site has each row."""
        return Counter(one.title for one in self.world.stored(Document))

    def twice(self) -> set[str]:
        """Return the rows that exist twice."""
        return {title for title, times in self.stored().items() if times > 1}

    def listed(self, *kinds: str, pattern: str = "assistant_loads/**/*.parquet") -> set[str]:
        """Return the rows that findings list."""
        return {f"T{one['key']}" for one in self.world.findings(pattern) if one["kind"] in kinds}

    def recorded(self, *states: str) -> set[str]:
        """Return the rows with an attempt of one of these states."""
        found = self.world.query("SELECT label, state FROM assistant_attempts")
        return {f"T{label}" for label, state in found if state in states}

    def statuses(self) -> Counter[str]:
        """Return how many questions of the output have each status."""
        rows = pq.ParquetFile(self.world.folder / "answers.parquet").read().to_pylist()
        return Counter(row["status"] for row in rows)


@pytest.fixture
def night() -> Iterator[Any]:
    """Return a function that enters the world of a case."""
    entered = []

    def enter(**options: Any) -> Case:
        case = Case(**options)
        entered.append(case.world.entered())
        entered[-1].__enter__()
        return case

    yield enter
    for one in reversed(entered):
        one.__exit__(None, None, None)


EVERY_ROW = {f"T{number}" for number in range(COUNT)}


class TestAKilledLoad:
    @pytest.mark.promise(
        "loads", "A load that is killed leaves at most max_concurrency rows of which nobody knows whether they exist."
    )
    @pytest.mark.parametrize("on_ambiguous", ["retry", "skip"])
    @pytest.mark.parametrize("how", ["killed", "killed before"])
    def test_only_what_was_in_flight_is_ambiguous(self, how: Any, on_ambiguous: str, night: Any) -> None:
        case = night()
        case.load(Try(end=End(30, how)), on_ambiguous=on_ambiguous)
        claimed, stored = case.recorded("claimed"), set(case.stored())
        assert 0 < len(claimed) <= CONCURRENCY
        assert case.recorded("created") <= stored <= case.recorded("created") | claimed
        ended = case.load(on_ambiguous=on_ambiguous)
        assert ended.result["unchanged"] == COUNT - ended.result["created"] - ended.result["ambiguous"]
        if on_ambiguous == "retry":
            assert set(case.stored()) == EVERY_ROW
            assert case.twice() == claimed & stored
            assert case.listed("possibly_duplicated") == claimed
        else:
            assert not case.twice()
            assert EVERY_ROW - set(case.stored()) <= case.listed("ambiguous") == claimed

    def test_four_kills_in_a_row_list_all_duplicates(self, night: Any) -> None:
        case = night()
        for _ in range(4):
            case.load(Try(end=End(20)))
        case.load()
        assert set(case.stored()) == EVERY_ROW
        assert case.twice() <= case.listed("possibly_duplicated")
        assert (case.stored() - Counter(EVERY_ROW)).total() <= 4 * CONCURRENCY

    @pytest.mark.promise("loads", "A duplicate that a killed try has found is listed by the next try.")
    def test_what_a_killed_try_has_created_twice_is_listed(self, night: Any) -> None:
        case = night()
        broken = tuple(Answer(status=502, stores=number % 5 == 2) if number % 5 == 2 else WELL for number in range(40))
        case.load(Try(broken, end=End(50)))
        case.load()
        assert case.twice()
        assert case.twice() <= case.listed("possibly_duplicated")

    @pytest.mark.promise("loads", "A load that is ended by SIGTERM waits for the answers to what it has sent.")
    @pytest.mark.parametrize("on_ambiguous", ["retry", "skip"])
    def test_a_terminated_load_records_what_it_has_sent(self, on_ambiguous: str, night: Any) -> None:
        case = night()
        ended = case.load(Try(then=Answer(latency=1.5), end=End(30, "terminated")), on_ambiguous=on_ambiguous)
        assert isinstance(ended.error, AssistantIncompleteError)
        assert "a retry goes on" in str(ended.error)
        assert case.recorded("created") == set(case.stored()) < EVERY_ROW
        case.load(on_ambiguous=on_ambiguous)
        assert case.stored() == Counter(EVERY_ROW)

    def test_a_terminated_load_waits_two_seconds_for_an_answer(self, night: Any) -> None:
        case = night()
        ended = case.load(Try((*[WELL] * 28, *[Answer(latency=100.0)] * 3), end=End(33, "terminated"), then=WELL))
        assert isinstance(ended.error, AssistantIncompleteError)
        assert ended.seconds < 5.0
        assert len(case.listed("ambiguous")) == 3
        case.load()
        assert case.twice() == case.listed("possibly_duplicated")
        assert len(case.twice()) == 3

    @pytest.mark.parametrize("at", [3, 17, 30, 40])
    def test_execution_timeout_is_never_lost(self, at: int, night: Any) -> None:
        case = night()
        ended = case.load(Try(end=End(at, "timed out")))
        assert isinstance(ended.error, AirflowTaskTimeout)
        assert len(case.recorded("claimed", "ambiguous")) <= CONCURRENCY
        assert len(case.stored()) < COUNT
        case.load()
        assert set(case.stored()) == EVERY_ROW
        assert case.twice() <= case.listed("possibly_duplicated")

    @pytest.mark.promise("loads", "A killed load judges groups of rows as if it had not been killed.")
    def test_stale_rows_of_groups_are_those_of_an_undisturbed_load(self, night: Any) -> None:
        case = night()
        options: dict[str, Any] = {"group_columns": ["page"], "missing_in": "groups"}

        def pages(numbers: Any) -> list[dict[str, Any]]:
            return [{**row, "page": f"page {row['id'] // 10}"} for row in rows(numbers)]

        case.load(source=pages(range(COUNT)), run="first", **options)
        gone = {3, 14, 15, 29}
        source = pages([number for number in range(30) if number not in gone]) + [
            {**row, "page": "page 1"} for row in rows(range(100, 140))
        ]
        case.load(Try(end=End(25)), source, **options)
        assert not case.listed("stale")
        ended = case.load(source=source, **options)
        assert case.listed("stale") == {f"T{number}" for number in gone}
        assert ended.result["stale"] == len(gone)
        assert case.load(source=source, run="next", **options).result["stale"] == len(gone)

    def test_a_retry_at_once_finds_what_the_killed_try_has_created(self, night: Any) -> None:
        case = night(manage_documents=True)
        case.load(Try(end=End(30)))
        case.load()
        assert case.stored() == Counter(EVERY_ROW)

    @pytest.mark.parametrize("status", [404, 405, 501])
    def test_a_service_without_a_list_is_loaded_as_before(self, status: int, night: Any) -> None:
        case = night(manage_documents=True)
        case.world.service.faults.add(f"status:{status}", method="GET", path="documents$", times=None)
        case.load(Try(end=End(30)))
        ended = case.load()
        assert set(case.stored()) == EVERY_ROW
        assert case.twice()
        assert case.twice() <= case.listed("possibly_duplicated")
        assert ended.result["possibly_duplicated"] <= CONCURRENCY
        warnings = [line for line in case.world.logged if "list of documents cannot be read" in line]
        assert len(warnings) == 1
        assert str(status) in warnings[0]


class TestAServiceThatFails:
    @pytest.mark.promise(
        "loads", "A document whose acknowledgement was lost is sent again and listed, or left and listed."
    )
    @pytest.mark.parametrize("on_ambiguous", ["retry", "skip"])
    @pytest.mark.parametrize("action", ["store-then-drop", "store-then-status:502", "truncate", "drop", "status:502"])
    def test_a_tenth_of_all_acknowledgements_is_lost(self, action: str, on_ambiguous: str, night: Any) -> None:
        case = night()
        case.world.service.faults.add(action, method="POST", share=0.1, times=None)
        result = case.load(on_ambiguous=on_ambiguous).result
        stores = action.startswith("store") or action == "truncate"
        if on_ambiguous == "retry":
            assert set(case.stored()) == EVERY_ROW
            assert bool(case.twice()) == stores
            assert case.twice() <= case.listed("possibly_duplicated")
            assert result["possibly_duplicated"] == len(case.listed("possibly_duplicated"))
            return
        assert not case.twice()
        missing = EVERY_ROW - set(case.stored())
        assert bool(missing) != stores
        assert missing <= case.listed("ambiguous")
        assert result["ambiguous"] == len(case.listed("ambiguous")) == COUNT - result["created"] > 0
        assert case.load(on_ambiguous="skip").result["ambiguous"] == result["ambiguous"]

    def test_a_change_that_failed_at_first_replaces_the_document(self, night: Any) -> None:
        case = night(manage_documents=True, retries=0)
        case.load(source=rows(range(3)))
        changed = [{**row, "answer": "New"} for row in rows(range(3))]
        case.load(Try(then=Answer(status=502)), changed, on_change="replace", allow_mass_change=True)
        result = case.load(source=changed, on_change="replace", allow_mass_change=True).result
        assert result["deleted"] == 3
        assert {(one.title, one.content) for one in case.world.stored(Document)} == {
            (f"T{number}", "New") for number in range(3)
        }

    def test_a_file_that_vanishes_costs_only_itself(self, night: Any) -> None:
        case = night(max_concurrency=1)
        folder = case.world.folder / "files"
        folder.mkdir()
        for name in "abc":
            (folder / f"{name}.txt").write_text(name)
        case.world.on_request = lambda _: (folder / "b.txt").unlink(missing_ok=True)
        make = lambda: AssistantUploadFilesOperator(task_id="task", files=str(folder), max_rejected=1)  # noqa: E731
        result = case.run(make).result
        assert (result["created"], result["rejected"]) == (2, 1)

    def test_an_answer_without_a_body_is_an_answer(self, night: Any) -> None:
        case = night()
        case.world.service.faults.add("empty", method="POST", share=0.1, times=None)
        assert case.load().result["created"] == COUNT
        assert case.stored() == Counter(EVERY_ROW)

    @pytest.mark.promise("loads", "A service that answers only 502 stops a load after few requests.")
    def test_a_storm_of_502_stops_the_load(self, night: Any) -> None:
        case = night()
        case.world.service.faults.add("status:502", skip=20, times=None)
        ended = case.load()
        assert "502" in str(ended.error)
        assert len(ended.to(*CREATES)) <= 20 + 3 * max(25, CONCURRENCY)
        assert {one["kind"] for one in case.world.findings()} <= {"ambiguous", "failed"}
        case.world.service.faults.replace([])
        case.load()
        assert set(case.stored()) == EVERY_ROW


class TestALedgerThatFails:
    def ends_with_what_it_has(self, case: Case, ended: Ended) -> None:
        """Check that all that was created is in the ledger or in the findings, and complete the load."""
        assert isinstance(ended.error, AssistantLedgerError)
        assert "the ledger cannot be" in str(ended.error)
        stored, created = set(case.stored()), case.recorded("created")
        assert created <= stored < EVERY_ROW
        unrecorded = stored - created
        assert unrecorded <= case.listed("ambiguous")
        assert len(unrecorded) <= CONCURRENCY
        case.world.pragmas.clear()
        case.load()
        assert set(case.stored()) == EVERY_ROW
        assert case.twice() <= unrecorded

    @pytest.mark.promise("ledger", "A load ends when its ledger cannot be written, and lists what it could not record.")
    @pytest.mark.parametrize("at", [18, 24, 31])
    def test_a_ledger_that_is_locked_for_long_ends_the_load(self, at: int, night: Any) -> None:
        case = night()
        self.ends_with_what_it_has(case, case.load(Try(ledger_away=LedgerAway(at))))

    def test_a_full_disk_ends_the_load(self, night: Any) -> None:
        case = night()
        (pages,) = case.world.query("PRAGMA page_count")[0]
        case.world.pragmas.append(f"PRAGMA max_page_count = {pages + 4}")
        ended = case.load()
        assert "full" in str(ended.error)
        self.ends_with_what_it_has(case, ended)

    def test_a_ledger_that_is_locked_for_a_while_delays_the_load(self, night: Any) -> None:
        case = night()
        ended = case.load(Try(ledger_away=LedgerAway(20, 2)))
        assert ended.result["created"] == COUNT
        assert case.stored() == Counter(EVERY_ROW)

    @pytest.mark.promise("ledger", "Nothing is sent without a ledger that can be written.")
    def test_a_ledger_that_is_away_from_the_start_sends_nothing(self, night: Any) -> None:
        case = night()
        ended = case.load(Try(ledger_away=LedgerAway(0)))
        assert isinstance(ended.error, AssistantLedgerError)
        assert not ended.to(*CREATES)

    def test_a_ledger_whose_folder_is_missing_is_an_error_for_a_person(self, night: Any) -> None:
        case = night()
        # Undone before the night ends, which has set it, too.
        with mock.patch.object(airflow.configuration, "AIRFLOW_HOME", str(case.world.folder / "not" / "mounted")):
            ended = case.load(findings_path=str(case.world.folder / "findings.parquet"))
        assert isinstance(ended.error, AssistantLedgerError)
        assert not ended.error.retryable
        assert "Nothing was sent" in str(ended.error)
        assert not ended.sent

    def test_a_ledger_that_is_read_only_is_an_error_for_a_person(self, night: Any) -> None:
        case = night()
        case.world.pragmas.append("PRAGMA query_only = ON")
        ended = case.load()
        assert isinstance(ended.error, AssistantLedgerError)
        assert not ended.error.retryable
        assert "readonly" in str(ended.error)
        assert not ended.to(*CREATES)


class TestTwoRunsAtOnce:
    @pytest.mark.promise("loads", "Two runs that load the same rows at the same time create no row twice.")
    def test_no_row_is_created_twice(self, night: Any) -> None:
        case = night()
        ends = case.load_at_once(CALM, None, ("one", "other"))
        assert case.stored() == Counter(EVERY_ROW)
        counts = [ended.task._load.counts for ended in ends]
        assert sum(one.created for one in counts) == COUNT
        assert all(one.created + one.skipped + one.unchanged == COUNT for one in counts)
        assert all(one.created for one in counts), "they take turns"
        # A load that left rows to the other one is a success only if that one has loaded them.
        assert all(bool(one.skipped) == (ended.error is not None) for one, ended in zip(counts, ends, strict=True))

    def test_one_of_them_is_killed(self, night: Any) -> None:
        case = night()
        ends = case.load_at_once(Try(end=End(40)), None, ("one", "other"))
        assert [ended.is_killed for ended in ends].count(True) == 1
        case.load(run=("one", "other")[ends[1].is_killed])
        assert set(case.stored()) == EVERY_ROW
        assert case.twice() <= case.listed("possibly_duplicated")
        assert len(case.twice()) <= CONCURRENCY

    @pytest.mark.promise("loads", "Another run takes over the rows of a killed one when its lease expires, not before.")
    def test_another_run_takes_over_after_the_lease(self, night: Any) -> None:
        case = night()
        case.load(Try(end=End(30)), run="killed")
        claimed = case.recorded("claimed")
        soon = case.load(run="other")
        assert claimed
        assert f"{len(claimed)} rows were left to another task" in str(soon.error)
        case.world.sleep(DAY)
        later = case.load(run="other")
        assert later.result["skipped"] == 0
        assert set(case.stored()) == EVERY_ROW
        assert case.listed("possibly_duplicated") == claimed

    def test_a_run_that_is_stopped_for_longer_than_its_lease(self, night: Any) -> None:
        """As on a suspended machine: its late outcomes do not replace those of the run that has taken over its rows."""
        case = night()
        ends = case.load_at_once(Try(end=End(0, "stopped", DAY)), None, ("one", "other"))
        assert [ended.error for ended in ends] == [None, None]
        assert set(case.stored()) == EVERY_ROW
        assert case.twice() <= case.listed("possibly_duplicated")
        assert case.recorded("created") == EVERY_ROW


class TestAChatBatch:
    def asked(self, case: Case) -> Counter[str]:
        """Return how often the service has got each question."""
        return Counter(one.message for one in case.world.stored(Chat))

    @pytest.mark.promise("chat", "A chat batch that is killed while it polls asks nothing again.")
    @pytest.mark.parametrize("how", ["killed", "terminated", "timed out"])
    def test_a_batch_that_ends_while_it_polls_asks_nothing_again(self, how: Any, night: Any) -> None:
        case = night()
        ended = case.ask(Try(end=End(50, how)))
        assert ended.error is not None
        polled = Counter(one.item for one in ended.to("chat.request"))
        assert len(self.asked(case)) == 20
        if how == "terminated":
            assert "a retry takes up the requests that are open" in str(ended.error)
        retry = case.ask()
        assert not retry.to(*CHATS)
        assert (retry.result["submitted"], retry.result["reused"]) == (0, 20)
        assert retry.result["complete"] == 20
        assert polled

    @pytest.mark.promise("chat", "A question that may have been asked twice is counted by every later try.")
    def test_what_a_killed_try_has_asked_twice_is_counted_by_a_later_one(self, night: Any) -> None:
        case = night()
        # The first try is killed while questions are under way; the second one, after it has asked these again.
        assert case.ask(Try(end=End(9, "killed"))).error is not None
        assert case.ask(Try(end=End(60, "killed"))).error is not None
        twice = {question for question, times in self.asked(case).items() if times > 1}
        assert twice
        ended = case.ask()
        assert not ended.to(*CHATS)
        assert ended.result["complete"] == 20
        assert len(twice) <= ended.result["possibly_duplicated"] <= CONCURRENCY
        assert ended.result["findings"]

    def test_answers_of_a_terminated_batch_are_not_polled_again(self, night: Any) -> None:
        case = night(settings={"processing_seconds": 8.0})
        ended = case.ask(Try(then=Answer(latency=1.0), end=End(78, "terminated")))
        # Polls that are under way are given up.
        answered = {one.item for one in ended.sent if one.answered and one.until < ended.sent[78].at}
        assert answered
        retry = case.ask()
        assert retry.result["complete"] == 20
        assert not {one.item for one in retry.to("chat.request")} & answered

    @pytest.mark.parametrize("mode", ["async", "sync"])
    def test_a_terminated_batch_waits_for_what_it_has_sent(self, mode: str, night: Any) -> None:
        case = night()
        ended = case.ask(Try(then=Answer(latency=1.5), end=End(10, "terminated")), 40, mode=mode)
        assert isinstance(ended.error, AssistantIncompleteError)
        assert "a retry takes up the requests that are open" in str(ended.error)
        retry = case.ask(CALM, 40, mode=mode)
        assert retry.result["complete"] == 40
        assert set(self.asked(case).values()) == {1}

    def test_lost_requests_are_asked_again_and_no_others(self, night: Any) -> None:
        case = night()
        ended = case.ask(Try((*[WELL] * 12, Answer(forgets=True)), then=WELL))
        assert isinstance(ended.error, AssistantRequestLostError)
        lost = self.asked(case).total() - case.statuses()["complete"]
        retry = case.ask()
        assert retry.result["complete"] == 20
        assert retry.result["submitted"] == lost > 0

    @pytest.mark.promise(
        "chat", "A chat batch whose requests fail keeps the other answers, and a retry asks only these."
    )
    def test_failed_requests_are_asked_again_and_no_others(self, night: Any) -> None:
        case = night(settings={"fail_messages": r"Question 1\d"})
        ended = case.ask()
        assert isinstance(ended.error, AssistantRequestFailedError)
        assert "10 failed" in str(ended.error)
        assert case.statuses() == {"complete": 10, "failed": 10}
        assert case.ask(max_failed=10).result["failed"] == 10
        case.world.service.update(fail_messages=None)
        assert case.ask().result["submitted"] == 10
        assert case.statuses() == {"complete": 20}

    def test_a_service_that_never_finishes_times_the_batch_out(self, night: Any) -> None:
        case = night(settings={"processing_seconds": DAY})
        ended = case.ask(timeout=60.0)
        assert isinstance(ended.error, AssistantRequestTimeoutError)
        assert "A retry keeps the answers and waits for those that are open." in str(ended.error)
        assert case.statuses() == {"timed_out": 20}
        case.world.service.update(processing_seconds=0.0)
        retry = case.ask()
        assert (retry.result["submitted"], retry.result["complete"]) == (0, 20)

    def test_a_word_for_the_end_that_only_the_connection_knows(self, night: Any) -> None:
        case = night(settings={"processing_seconds": 1.0})
        odd = Try(then=Answer(is_odd=False))
        case.world.wire.words["completed"] = "finito"
        ended = case.ask(odd, timeout=60.0)
        assert isinstance(ended.error, AssistantRequestTimeoutError)
        case.world.move(case.world.connection["host"], complete_words=["finito"])
        retry = case.ask()
        assert (retry.result["submitted"], retry.result["complete"]) == (0, 20)

    def test_a_key_that_is_revoked_stops_the_polls(self, night: Any) -> None:
        case = night()
        ended = case.ask(Try((*[WELL] * 30,), then=Answer(status=401)))
        assert isinstance(ended.error, AssistantAuthenticationError)
        assert len([one for one in ended.sent if one.status == 401]) <= CONCURRENCY
        assert case.ask().result["submitted"] == 0

    def test_the_most_frequent_reason_names_the_error(self, night: Any) -> None:
        case = night(settings={"fail_messages": r"Question [12]\?"})
        case.world.service.faults.add("status:503", method="GET", share=0.8, times=None)
        ended = case.ask(Try((*[WELL] * 4, Answer(forgets=True)), then=WELL), timeout=50.0)
        assert isinstance(ended.error, AssistantRequestTimeoutError | AssistantRequestLostError)
        statuses = case.statuses()
        for status, text in (
            ("lost", "asks those again that were lost"),
            ("timed_out", "waits for those that are open"),
        ):
            assert (text in str(ended.error)) == bool(statuses[status])


# -- nights that once went wrong -----------------------------------------------------------------

NO_PAUSE = ("0", "0.0", "-1", "Thu, 01 Jan 1970 00:00:00 GMT")


def submit(**options: Any) -> Any:
    """Return an operator that submits a chat."""
    return AssistantSubmitChatOperator(task_id="task", session_id="s", message="Anything?", **options)


def waiting(**options: Any) -> Any:
    """Return a sensor that waits for a long time."""
    options = {"poke_interval": 1.0, "timeout": 100 * HOUR, "deferrable": True, **options}
    return AssistantChatRequestSensor(task_id="task", request_id="r1", **options)


def with_request(case: Case) -> Case:
    """Give the site a chat request."""
    now = case.world.service.clock()
    case.world.service.store.save(Chat("r1", "docs", "s", "async", "Anything?", None, None, now))
    return case


class TestALongTimeAfterA429:
    """What is learned from a 429 must not grow with the time since the last request."""

    @pytest.mark.parametrize("interval", [300.0, 1e4])
    def test_a_deferred_sensor_polls_on(self, interval: float, night: Any) -> None:
        case = with_request(night(settings={"processing_seconds": 4 * interval}))
        polls = (WELL, Answer(status=429, retry_after="1"), WELL)
        ended = case.run(lambda: waiting(poke_interval=interval), Try(polls))
        assert ended.error is None, ended.error
        assert ended.result["state"] == "complete"

    def test_a_load_with_slow_responses_goes_on(self, night: Any) -> None:
        case = night(timeout=2 * HOUR, max_concurrency=1)
        answers = (Answer(status=429, retry_after="1"), Answer(latency=300.0), Answer(latency=HOUR))
        assert case.load(Try(answers), rows(range(5))).result["created"] == 5

    def test_a_429_after_a_day_of_polls_does_not_block_the_event_loop(self, night: Any) -> None:
        polls = 144
        case = with_request(night(settings={"processing_seconds": 2 * DAY}))
        refused = Answer(status=429, retry_after="1")
        # The rate is fitted at the second 429 after a time with requests.
        answers = (WELL, refused, *[WELL] * polls, refused, *[WELL] * polls, refused)
        began = time.process_time()
        ended = case.run(lambda: waiting(poke_interval=600.0), Try(answers))
        assert ended.error is None, ended.error
        assert ended.seconds >= 2 * DAY - 600
        assert time.process_time() - began < 60.0


class TestA429WithoutAPause:
    """A 429 whose Retry-After is 0 or over is repeated with a backoff, and not for ever."""

    @pytest.mark.parametrize("retry_after", NO_PAUSE)
    @pytest.mark.parametrize(
        "make",
        [
            lambda: AssistantChatOperator(task_id="task", session_id="s", message="Anything?"),
            lambda: AssistantFeedbackOperator(task_id="task", session_id="s", request_id="r", feedback="good"),
            submit,
            lambda: SimpleNamespace(execute=lambda _context: AssistantHook().get_limits()),
        ],
        ids=["chat", "rating", "submission", "hook"],
    )
    def test_a_call_ends_soon_and_says_why(self, make: Any, retry_after: str, night: Any) -> None:
        case = night(retries=2)
        ended = case.run(make, Try(then=Answer(status=429, retry_after=retry_after)))
        assert isinstance(ended.error, AssistantRateLimitError), ended.error
        assert not isinstance(ended.error, AirflowFailException)
        assert len(ended.sent) < 100
        assert 10 < ended.seconds < 200

    @pytest.mark.parametrize("retry_after", NO_PAUSE[::3])
    def test_a_sensor_waits_until_its_timeout_and_polls_rarely(self, retry_after: str, night: Any) -> None:
        case = with_request(night(retries=2))
        make = lambda: waiting(poke_interval=60.0, timeout=600.0)  # noqa: E731
        ended = case.run(make, Try(then=Answer(status=429, retry_after=retry_after)))
        assert isinstance(ended.error, AssistantRequestTimeoutError | AirflowSensorTimeout), ended.error
        assert len(ended.sent) < 150
        assert 500 < ended.seconds < 900

    @pytest.mark.parametrize("retry_after", NO_PAUSE)
    def test_a_load_ends_soon_and_a_retry_creates_every_row(self, retry_after: str, night: Any) -> None:
        case = night(retries=2)
        ended = case.load(Try(then=Answer(status=429, retry_after=retry_after)), rows(range(3)))
        assert isinstance(ended.error, AssistantRateLimitError), ended.error
        assert len(ended.sent) < 1_000
        assert case.load(source=rows(range(3))).result["created"] == 3
        assert set(case.stored().values()) == {1}


TEXTS = ["x" * 251, "Ω" * 300, "x" * 9_990, "a\x00b", "\ud800", "\ud800\x00" + "y" * 300]


class TestIdsOfAnyText:
    """Ids of the service and keys of rows are recorded, whatever their characters; PostgreSQL in integration."""

    @pytest.mark.parametrize("text", [text for text in TEXTS if "\ud800" not in text])
    def test_a_request_is_submitted_once(self, text: str, night: Any) -> None:
        case = night()
        ends = [case.run(submit, Try(then=Answer(identifier=text)), number) for number in (1, 2)]
        assert [ended.error for ended in ends] == [None, None]
        assert len(case.world.stored(Chat)) == 1
        # A reply has no NUL after it is read.
        assert ends[1].result["request_id"] == text.replace("\0", "\N{REPLACEMENT CHARACTER}") + "0"

    @pytest.mark.parametrize("text", TEXTS)
    def test_a_document_with_such_an_id_is_created_once(self, text: str, night: Any) -> None:
        case = night()
        ends = [case.load(Try(then=Answer(identifier=text)), rows(range(3))) for _ in range(2)]
        assert [ended.result["created"] for ended in ends] == [3, 0], [ended.error for ended in ends]

    @pytest.mark.parametrize("text", TEXTS)
    def test_a_row_with_such_a_key_is_created_once(self, text: str, night: Any) -> None:
        case = night()
        source = [{**row, "id": f"{text}{row['id']}"} for row in rows(range(3))]
        ends = [case.load(source=source) for _ in range(2)]
        assert [ended.result["created"] for ended in ends] == [3, 0], [ended.error for ended in ends]


@pytest.mark.promise("loads", "A row that waits out a long pause belongs to its load, however long the pause is.")
@pytest.mark.parametrize(("after", "is_loaded"), [(90.0, False), (200.0, False), (250.0, True)])
def test_another_run_does_not_send_a_row_that_waits(after: float, is_loaded: bool, night: Any) -> None:
    case = night(max_concurrency=2)
    # Longer than the lease.
    pause = Answer(status=429, retry_after="280")
    source = rows(range(2))
    began = False

    def later() -> list[dict[str, Any]]:
        # The second run reads its source later.
        nonlocal began
        if began:
            case.world.sleep(after)
        began = True
        return source

    # The first request reads the limits.
    first, other = case.load_at_once(Try((WELL, pause)), later, ("run", "next"))
    assert first.result["created"] == 2
    # The second run waits for a minute.
    if is_loaded:
        assert other.result["unchanged"] == 2
    else:
        assert isinstance(other.error, AssistantIncompleteError)
        assert "2 rows were left to another task" in str(other.error)
    assert not other.sent
    assert set(case.stored().values()) == {1}
