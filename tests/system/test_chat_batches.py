"""Chat batches on a real Airflow with failures of workers, triggerer and service."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.asking.state import BatchState
from tests.live.airflow import LiveAirflow
from tests.live.process import WAIT, wait_for
from tests.live.service import AssistantService
from tests.system.runs import Runs
from tests.system.search import places

pytestmark = pytest.mark.system

NEVER, SOON = 3600, 0.2
COUNT, CONCURRENCY = 40, 8
# Matches half of all requests. Their polls fail until the test lets them finish.
HALF = re.compile(r"req_[0-7]")
LABS = "globex-labs/chat/async"


def rule(action: str, path: str, times: int | None = None, skip: int = 0) -> dict[str, Any]:
    return {"action": action, "path": path, "times": times, "skip": skip}


class Batches(Runs):
    """One run of each DAG of ``chat_batches.py``, and its questions."""

    def __init__(self, airflow: LiveAirflow, service: AssistantService, lake: Path) -> None:
        super().__init__(airflow)
        self.service = service
        self.folder = lake / "chat_batches"
        self.notes: dict[str, Any] = {}

    def posts(self, path: str) -> int:
        return len(self.service.journal(method="POST", path=path))

    def rows(self, dag_id: str) -> list[dict[str, Any]]:
        output = self.folder / dag_id / "questions.parquet"
        assert output.exists(), self.log(dag_id, "questions")
        return pq.read_table(output).to_pylist()

    def saved(self, dag_id: str) -> set[str]:
        """Return the requests whose answers are in the batch state of a task."""
        folders = (self.folder / dag_id).glob(".questions.parquet.*")
        answers = [answer for folder in folders for answer in BatchState(str(folder)).read().values()]
        return {answer.request_id or "" for answer in answers if answer.status == "complete"}

    def submitted(self, message: str) -> dict[str, int]:
        """Return the requests with a message, each with the number of its question."""
        messages = {row["id"]: row["message"] for row in self.service.chats()}
        return {
            request_id: int(text.removeprefix(message).strip(" ?"))
            for request_id, text in messages.items()
            if text.startswith(message)
        }

    def polled(self, since: int = 0) -> Counter[str]:
        """Return the number of polls of each request, from a given entry of the service's journal on."""
        entries = self.service.journal(method="GET", path="chat/requests/")
        return Counter(entry["path"].rpartition("/")[2] for entry in entries[since:])


@pytest.fixture(scope="module")
def runs(airflow: LiveAirflow, service: AssistantService, lake: Path, home: Path) -> Batches:
    """All runs, started at the same time and finished before the tests check them."""
    runs = Batches(airflow, service, lake)
    service.reset("journal", "faults")
    rules = [
        rule("status:425", f"chat/requests/{HALF.pattern}"),
        rule("hold", LABS, CONCURRENCY, COUNT // 2),
    ]
    service.faults(processing_seconds=SOON, rules=rules)
    runs.start("batch_of_a_killed_worker", "batch_through_restarts", "batch_cleared")

    wait_for("half of them, and more under way", lambda: runs.posts(LABS) == COUNT // 2 + CONCURRENCY, timeout=WAIT)
    runs.kill("batch_of_a_killed_worker", "questions")

    runs.wait_task("batch_through_restarts", "questions", "deferred")
    answered = {request_id for request_id in runs.submitted("Through restarts") if not HALF.match(request_id)}
    wait_for("saved answers", lambda: runs.saved("batch_through_restarts") >= answered, timeout=WAIT)
    dag_id, first = "batch_through_restarts", "Waiting for "
    # The triggerer sends its log lines to another process, which may be late.
    wait_for("the first line of the log", lambda: first in runs.log(dag_id, "questions"), timeout=WAIT)
    airflow.components["triggerer"].stop(kill=True)
    runs.notes["answered"] = answered
    before = runs.polled().total()
    airflow.components["triggerer"].start()

    runs.wait_task("batch_cleared", "questions", "deferred")
    runs.clear("batch_cleared", "questions")
    runs.wait_task("batch_cleared", "questions", "deferred", 2)
    runs.wait_task("batch_of_a_killed_worker", "questions", "deferred", 2)
    waiting = runs.submitted("Through restarts").keys() - answered

    def polled_twice() -> bool:
        polls = runs.polled(before)
        return all(polls[request_id] > 1 for request_id in waiting)

    wait_for("a whole round of polls", polled_twice, timeout=WAIT)
    runs.notes["polled"] = runs.polled(before)
    runs.notes["state_files"] = set(runs.folder.rglob("*.jsonl"))
    runs.notes["keys"] = places(home, service.api_key, "dev-globex-full", database=airflow.database.url)

    service.reset("faults")
    service.faults(processing_seconds=SOON)
    runs.wait("batch_of_a_killed_worker", "batch_through_restarts", "batch_cleared")
    return runs


def complete(runs: Batches, dag_id: str, message: str) -> None:
    """Check that every question has the answer of the service, in the order of the source."""
    requests = {row["id"]: row for row in runs.service.chats()}
    rows = runs.rows(dag_id)
    assert [row["id"] for row in rows] == list(range(COUNT))
    assert {row["status"] for row in rows} == {"complete"}
    for row in rows:
        request = requests[row["request_id"]]
        assert row["message"] == request["message"] == f"{message} {row['id']}?"
        assert row["answer"] == request["answer"]


@pytest.mark.promise("chat", "A batch whose triggerer is killed asks no question twice and keeps its answers.")
def test_a_killed_triggerer_asks_nothing_twice_and_polls_on(runs: Batches) -> None:
    dag_id, message = "batch_through_restarts", "Through restarts"
    assert runs.task(dag_id, "questions") == ("success", 1)
    complete(runs, dag_id, message)
    asked = runs.submitted(message)
    assert len(asked) == COUNT

    answered = runs.notes["answered"]
    assert 0 < len(answered) < COUNT
    again = runs.notes["polled"].keys() & asked.keys()
    assert again == asked.keys() - answered, "what was noted down is not polled again"
    log = runs.log(dag_id, "questions")
    assert f"Waiting for {COUNT - len(answered)} requests" in log
    result = runs.xcom(dag_id, "questions")
    assert (result["submitted"], result["reused"], result["complete"]) == (COUNT, 0, COUNT)
    assert not list((runs.folder / dag_id).glob(".*")), "neither a journal nor findings"


@pytest.mark.promise(
    "chat", "A batch whose worker is killed asks the rest; what may have been asked twice is listed in its findings."
)
def test_a_killed_worker_asks_the_rest_and_lists_what_was_under_way(runs: Batches) -> None:
    dag_id = "batch_of_a_killed_worker"
    assert runs.task(dag_id, "questions") == ("success", 2)
    complete(runs, dag_id, "Killed")
    # The service continues to process requests even if no task waits for them.
    wait_for("late ones", lambda: len(runs.submitted("Killed")) == COUNT + CONCURRENCY, timeout=WAIT)
    twice = {number for number, times in Counter(runs.submitted("Killed").values()).items() if times > 1}
    assert len(twice) == CONCURRENCY
    result = runs.xcom(dag_id, "questions")
    findings = pq.read_table(result["findings"]).to_pylist()
    assert {int(found["key"]) for found in findings if found["kind"] == "possibly_duplicated"} == twice
    assert (result["submitted"], result["reused"]) == (COUNT // 2, COUNT // 2)
    assert result["possibly_duplicated"] == CONCURRENCY


def test_a_task_cleared_while_deferred_takes_up_its_requests(runs: Batches) -> None:
    dag_id, message = "batch_cleared", "Taken up"
    assert runs.task(dag_id, "questions") == ("success", 2)
    complete(runs, dag_id, message)
    assert len(runs.submitted(message)) == COUNT
    result = runs.xcom(dag_id, "questions")
    assert (result["submitted"], result["reused"], result["possibly_duplicated"]) == (0, COUNT, 0)


def test_no_key_is_in_a_batch_state_a_ledger_a_log_or_the_output(runs: Batches, home: Path) -> None:
    assert runs.notes["state_files"], "the search came while there was something to find"
    assert runs.notes["keys"] == set()
    assert places(runs.folder, "Through restarts 7?")
