"""A load that is killed and retried, at a site whose list of documents can be read."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections import Counter
from pathlib import Path

import airflow.configuration
import pytest

from tests.document_site import PAGINGS, DocumentSite, Names
from tests.integration.faults.attempts import CONCURRENCY, AttemptProcess
from tests.integration.faults.loads import LoadAttempt, listed
from tests.live.process import wait_for
from tests.unit.loading.test_settling import hide_contents

ROWS = range(60)
SEEDS = range(int(os.environ.get("ASSISTANT_FAULT_SEEDS", "1")))


class KilledLoad:
    """
    A load whose process is killed after the site has carried out a number of creates.

    :param kill_after: Number of creates. The answers to the last of them never arrive.
    """

    def __init__(self, site: DocumentSite, attempt: LoadAttempt, kill_after: int) -> None:
        self.site, self.attempt = site, attempt
        self._left = kill_after
        self._process: AttemptProcess | None = None

    def run(self) -> None:
        self.site.after = self._after
        self._process = AttemptProcess(self.attempt)
        assert self._process.wait().exitcode == -signal.SIGKILL
        # The site may still carry out what the process has sent.
        wait_for("the last request", lambda: not self._is_answering(), timeout=60)
        self.site.after = lambda *_: True

    def _after(self, _number: int, method: str, _path: str) -> bool:
        if method == "POST":
            self._left -= 1
        if self._left > 0:
            return True
        assert self._process
        self._process.kill()
        return False

    @staticmethod
    def _is_answering() -> bool:
        return any("process_request_thread" in thread.name for thread in threading.enumerate())


def attempt_at(site: DocumentSite, home: Path, **options) -> LoadAttempt:
    connection = site.connection(retries=2)
    return LoadAttempt(home=home, connection=connection, numbers=ROWS, options=options)


@pytest.fixture
def _own_home(monkeypatch):
    """Restore what an attempt in this process changes."""
    monkeypatch.setattr(airflow.configuration, "AIRFLOW_HOME", airflow.configuration.AIRFLOW_HOME)
    monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", "")


@pytest.mark.usefixtures("_own_home")
@pytest.mark.parametrize("seed", SEEDS)
def test_no_document_is_doubled(seed, tmp_path, monkeypatch):
    rng = random.Random(seed)
    names = Names.random(rng) if rng.random() < 0.7 else Names()
    site = DocumentSite(
        names,
        paging=rng.choice(PAGINGS),
        page_size=rng.randint(1, 25),
        draft=rng.random() < 0.3,
        processing=rng.choice([0, 0, 3]),
    )
    if rng.random() < 0.5:
        hide_contents(site, monkeypatch)
    with site:
        # Documents of people, one of them with the title of a row.
        for number in range(rng.randint(0, 5)):
            site.store(f"By hand {number}", "Text")
        on_ambiguous = rng.choice(["retry", "skip"])
        attempt = attempt_at(site, tmp_path, on_ambiguous=on_ambiguous)
        by_hand = len(site.documents)
        KilledLoad(site, attempt, kill_after=rng.randint(1, len(ROWS) - CONCURRENCY)).run()
        there = len(site.documents) - by_hand
        result = attempt.execute()
        questions = Counter(stored.question for stored in site.documents.values() if stored.question)
    assert set(questions.values()) == {1}
    assert result["unchanged"] == there
    # Claimed rows that were not sent are not on the site, and on_ambiguous decides about them.
    assert result["ambiguous" if on_ambiguous == "retry" else "possibly_duplicated"] == 0
    assert result["ambiguous"] + result["possibly_duplicated"] <= CONCURRENCY
    assert len(questions) == len(ROWS) - result["ambiguous"]


@pytest.mark.usefixtures("_own_home")
@pytest.mark.parametrize("status", [404, 405, 501])
def test_a_service_without_a_list_is_as_before(status, tmp_path, caplog):
    with DocumentSite(missing={"list": status}) as site:
        attempt = attempt_at(site, tmp_path)
        KilledLoad(site, attempt, kill_after=20).run()
        result = attempt.execute()
        questions = Counter(stored.question for stored in site.documents.values())
    assert set(questions) == {f"question {number}" for number in ROWS}
    doubled = {int(question.split()[1]) for question, count in questions.items() if count > 1}
    assert doubled
    assert doubled <= listed(attempt.findings_path, "possibly_duplicated")
    assert result["possibly_duplicated"] <= CONCURRENCY
    warnings = [record.getMessage() for record in caplog.records if "not looked up" in record.getMessage()]
    assert len(warnings) == 1
    assert f"status {status}" in warnings[0] or str(status) in warnings[0]
