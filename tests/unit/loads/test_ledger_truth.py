"""A load whose ledger fails says what exists, what is recorded, and what the next run sends again."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections import Counter
from random import Random

import pandas as pd
import pytest
import sqlalchemy as sa

from airflow_provider_assistant.exceptions import AssistantError, AssistantLedgerError
from airflow_provider_assistant.ledger import Ledger
from airflow_provider_assistant.loading.findings import FindingsFile, read_findings
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator
from airflow_provider_assistant.sending import sender
from tests.full_disk import FullDisk
from tests.task_runs.context import task_context
from tests.unit.cli.conftest import _as_before, cli  # noqa: F401 (fixtures)
from tests.unit.ledger.outage import BUSY, FULL, READ_ONLY, away
from tests.unit.loads.loads import in_flight

WRITES = ("INSERT", "UPDATE", "DELETE")
NUMBERS = re.compile(r"This try created (\d+) of (\d+) rows?\. (.*)")
KINDS = ("full", "locked", "read-only", "dropped", "deleted")
ON_AMBIGUOUS = ("retry", "skip")


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _: None)
    # The requests in flight are answered, however slow the machine is.
    monkeypatch.setattr(sender, "GRACE", 60.0)


def rows_of(count):
    return [
        {"id": f"k{number}", "title": f"T{number}", "question": "Q?", "answer": "A.", "category": "c"}
        for number in range(count)
    ]


def known(home):
    """Return the outcomes in the ledger by key; none if it has no table."""
    with contextlib.closing(sqlite3.connect(home / "assistant_ledger.db")) as raw:
        try:
            return dict(raw.execute("SELECT label, state FROM assistant_attempts ORDER BY number").fetchall())
        except sqlite3.OperationalError:
            return {}


def said_of(text):
    """Return the numbers of a message: created, recorded (None if not said), not recorded."""
    created, _, rest = NUMBERS.search(text).groups()
    recorded = re.search(r"has recorded (all|none|\d+) of them", rest)
    unrecorded = re.search(r"(\d+) documents? (?:is|are) at the service but not recorded", rest)
    number = None
    if recorded:
        words = {"all": int(created), "none": 0}
        number = words[recorded[1]] if recorded[1] in words else int(recorded[1])
    return int(created), number, int(unrecorded[1]) if unrecorded else 0


class Fault:
    """The ledger cannot be written any more after some requests."""

    def __init__(self, kind, random, service, home):
        self.kind = kind
        self.rows, self.concurrency = random.randint(12, 30), random.choice([1, 3, 8])
        self.first = random.randint(1, self.rows // 2)
        self.service, self.home = service, home
        self.is_done = False

    def begins(self):
        if self.service.posts() < self.first:
            return False
        if self.kind not in {"dropped", "deleted"}:
            return True
        if not self.is_done:
            self.is_done = self.lose(self.home / "assistant_ledger.db")
        return False

    def lose(self, path):
        """Delete the file or its table. Return whether it is done: not while a transaction is open."""
        if self.kind == "deleted":
            path.unlink()
            return True
        with contextlib.closing(sqlite3.connect(path, timeout=0)) as raw:
            try:
                raw.execute("DROP TABLE assistant_attempts")
            except sqlite3.OperationalError:
                return False
        return True

    def __call__(self):
        code = {"full": FULL, "read-only": READ_ONLY}.get(self.kind, BUSY)
        return away(sa.Engine, *WRITES, when=self.begins, code=code)


@pytest.mark.promise("loads", "A load whose ledger fails says how many documents it created and recorded.")
@pytest.mark.parametrize("seed", [0, 1])
def test_the_numbers_of_a_load_are_those_of_the_ledger(seed, service, connection, ledger_home):
    random = Random(seed)
    for number, kind in enumerate(KINDS):
        service.reset()
        for file in ledger_home.glob("assistant_ledger*"):
            file.unlink()
        service.behave(allow_duplicates=True)
        Ledger.open().close()
        fault = Fault(kind, random, service, ledger_home)
        findings = ledger_home / f"findings-{number}.parquet"
        options = {
            "source": rows_of(fault.rows), "key_columns": "id",
            "findings_path": str(findings), "on_ambiguous": ON_AMBIGUOUS[(number + seed) % 2],
        }  # fmt: skip
        with in_flight(fault.concurrency), fault(), pytest.raises(AssistantLedgerError) as failed:
            AssistantLoadQAOperator(task_id="load", **options).execute(task_context("load"))
        created = {document["title"].replace("T", "k") for document in service.documents("acme-docs")}
        recorded = {key for key, outcome in known(ledger_home).items() if outcome == "created"}
        said = said_of(failed.value.safe)
        listed = {finding["key"] for finding in read_findings(findings) if finding["kind"] == "ambiguous"}
        assert said[0] == len(created), fault.kind
        if fault.kind in {"dropped", "deleted"}:
            assert "cannot be read now" in failed.value.safe
            continue
        assert said == (len(created), len(recorded), len(created - recorded)), fault.kind
        assert listed == created - recorded
        # The next run does what the message says.
        told = failed.value.safe
        result = AssistantLoadQAOperator(task_id="load", **{**options, "max_rejected": 0}).execute(task_context("load"))
        copies = Counter(document["title"] for document in service.documents("acme-docs"))
        doubled = sum(count - 1 for count in copies.values())
        assert result["failed"] == 0
        others = re.search(r"the outcome of (\d+) other row", told)
        claimed = said[2] + (int(others[1]) if others else 0)
        is_sent = options["on_ambiguous"] == "retry"
        assert doubled == (said[2] if is_sent else 0)
        assert (result["possibly_duplicated"], result["ambiguous"]) == ((claimed, 0) if is_sent else (0, claimed))


def test_a_load_with_a_lost_list_says_so(service, connection, ledger_home, caplog, monkeypatch):
    service.behave(allow_duplicates=True)
    source = [*rows_of(5), {**rows_of(1)[0], "id": "bad", "answer": ""}]
    options = {"source": source, "key_columns": "id"}
    # The list cannot be written: the result of the load is said first, and its keys are in the log.
    full = FullDisk(ledger_home / "full.parquet", 0)
    monkeypatch.setattr("airflow_provider_assistant.operators.loads.findings_file", lambda _: full)
    with pytest.raises(AssistantError, match="1 row was rejected") as failed:
        AssistantLoadQAOperator(task_id="load", **options).execute(task_context("load"))
    assert "Findings that are in no file, 1 rejected: bad." in caplog.text
    assert f"cannot be written to '{full}'" in caplog.text
    assert "The ledger has recorded all of them" in failed.value.safe
    with pytest.raises(AssistantError, match="the findings cannot be written"):
        AssistantLoadQAOperator(task_id="load", max_rejected=1, **options).execute(task_context("load"))


def test_the_command_says_the_same(service, connection, ledger_home, cli, tmp_path, monkeypatch):  # noqa: F811
    path = tmp_path / "faq.csv"
    pd.DataFrame(rows_of(30)).to_csv(path, index=False)
    Ledger.open().close()
    full = FullDisk(tmp_path / "full.parquet", 0)
    with monkeypatch.context() as patch:
        patch.setattr("airflow_provider_assistant.cli.load._findings", lambda *_: FindingsFile(full, always=False))
        with away(sa.Engine, "INSERT", "UPDATE", when=lambda: service.posts() >= 5, code=FULL):
            ran = cli("load", path, "--key", "id")
    created = {document["title"].replace("T", "k") for document in service.documents("acme-docs")}
    recorded = {key for key, outcome in known(ledger_home).items() if outcome == "created"}
    assert ran.code == 2
    assert said_of(ran.err) == (len(created), len(recorded), len(created - recorded))
    assert "Traceback" not in ran.err
    assert "INSERT" not in ran.err
    assert "the findings cannot be written" in ran.err
    assert f"{len(created)} created" in ran.out


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_a_batch_asks_no_question_again_whose_answer_is_saved(mode, service, connection, ledger_home, caplog, tmp_path):
    """The ledger fails while questions are sent, so that a retry helps or, if it is read-only, does not."""
    for code in (FULL, READ_ONLY):
        service.reset()
        rows = [{"id": f"{mode}{code}{number}", "message": f"Q{number}?"} for number in range(12)]
        batch = AssistantChatBatchOperator(
            task_id=f"ask{code}", source=rows, key_columns=["id"], output_path=str(tmp_path / f"{code}.parquet"),
            mode=mode, max_concurrency=1, poll_interval=0.05, timeout=60,
        )  # fmt: skip
        # With several workers, a question may be claimed and not sent, which the ledger cannot know.
        Ledger.open().close()
        outage = away(sa.Engine, *WRITES, when=lambda: service.posts() >= 5, code=code)
        with outage, pytest.raises(AssistantError):
            batch.execute(task_context(f"ask{code}"))
        done = batch.execute(task_context(f"ask{code}"))
        assert done["complete"] == 12
        assert service.posts("chat") - service.posts("session/close") == 12
        assert done["possibly_duplicated"] == 0
