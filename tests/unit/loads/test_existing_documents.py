"""A 409 after a lost create means that the document exists; a 409 to a first create rejects the row."""

from __future__ import annotations

import itertools
import json
import logging

import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.exceptions import (
    AssistantIncompleteError,
    AssistantInputError,
)
from airflow_provider_assistant.ledger import Claim, Ledger, RunRef, Scope
from airflow_provider_assistant.loading import load as engine
from airflow_provider_assistant.operators.documents import (
    AssistantLoadQAOperator,
    AssistantLoadTextOperator,
    AssistantUploadFilesOperator,
)
from tests.servers import LocalServer, body_of, send
from tests.task_runs.context import task_context

# Bodies of a 409, and the id that they name for the document with the number 1.
CONFLICTS = [
    (b'{"error": "document may already exist"}', None),
    (b'{"error": {"code": "duplicate", "document_id": "doc-1"}}', "doc-1"),
    (b'{"id": "err-7", "detail": "exists", "document": {"id": "doc-1"}}', "doc-1"),
    (b'{"id": "err-7", "status": "error", "existing_id": "doc-1"}', "doc-1"),
    (b"", None),
    (b"<html>conflict</html>", None),
]
KINDS = ["qa", "text", "file"]


class Service(LocalServer):
    """
    Store each document, lose some of the replies, and refuse to store a document again.

    :param lost: What happens to the replies of the first documents: ``drop`` or a status.
    """

    def __init__(self, lost, conflict):
        super().__init__()
        self.lost = list(lost)
        self.conflict = conflict
        self.documents = []
        self.conflicts = 0

    def answer(self, request):
        content = body_of(request)
        if request.command == "GET":
            send(request, 404, b"{}", {})
            return
        if request.headers["Content-Type"].startswith("multipart"):
            # The boundary differs from request to request.
            boundary = request.headers["Content-Type"].rpartition("=")[2].strip('"').encode()
            content = content.replace(boundary, b"")
        with self._lock:
            is_stored = content in self.documents
            if is_stored:
                self.conflicts += 1
            else:
                self.documents.append(content)
            number = len(self.documents)
            lost = self.lost.pop(0) if self.lost and not is_stored else None
        if lost == "drop":
            request.close_connection = True
            request.connection.close()
        elif lost:
            send(request, lost, b"", {})
        elif is_stored:
            send(request, 409, self.conflict, {"Content-Type": "application/json"})
        else:
            send(request, 201, b'{"document_id": "new-%d"}' % number, {})


@pytest.fixture
def connect_to(monkeypatch, ledger_home):
    def connected(service, retries):
        extra = {"site_id": "s1", "retries": retries, "max_concurrency": 2}
        url = f"http://{service.host}/api/v1"
        fields = {"conn_type": "assistant", "host": url, "password": "key-of-a-test"}
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", json.dumps({**fields, "extra": extra}))

    monkeypatch.setattr("airflow_provider_assistant.client.throttle.LEAST_JITTER", 0.0)
    return connected


def operator_of(kind, count, folder, content="c", **options):
    options = {"task_id": "load", **options}
    if kind == "file":
        for number in range(count):
            (folder / f"guide-{number}.txt").write_text(f"{content} {number}")
        return AssistantUploadFilesOperator(files=str(folder / "*.txt"), **options)
    titles = [f"t{number}" for number in range(count)]
    if kind == "qa":
        source = [{"title": title, "question": "q", "answer": content} for title in titles]
        return AssistantLoadQAOperator(source=source, key_columns=["title"], **options)
    source = [{"title": title, "content": content} for title in titles]
    return AssistantLoadTextOperator(source=source, key_columns=["title"], **options)


def ids_in_ledger():
    with Ledger.open() as ledger, ledger.engine.connect() as connection:
        query = "SELECT state, remote_id, error FROM assistant_attempts ORDER BY key, number"
        return [tuple(row) for row in connection.exec_driver_sql(query)]


@pytest.mark.promise("loads", "A 409 to a document that was sent again means that it exists, so it counts as created.")
@pytest.mark.parametrize(
    ("kind", "conflict", "known_id"),
    [(kind, *conflict) for kind, conflict in zip(itertools.cycle(KINDS), CONFLICTS, strict=False)],
)
def test_a_resend_in_the_same_try(kind, conflict, known_id, connect_to, tmp_path, caplog):
    lost = ["drop", 503]
    count = 4
    with Service(lost, conflict) as service, caplog.at_level(logging.INFO, logger=engine.__name__):
        connect_to(service, retries=2)
        result = operator_of(kind, count, tmp_path).execute(task_context())
        again = operator_of(kind, count, tmp_path).execute(task_context())
    assert (result["created"], result["possibly_duplicated"], result["findings"]) == (count, 0, None)
    assert (again["unchanged"], again["possibly_duplicated"], again["findings"]) == (count, 0, None)
    assert (len(service.documents), service.conflicts) == (count, len(lost))
    entries = ids_in_ledger()
    assert {outcome for outcome, _, _ in entries} == {"created"}
    existing = [created_id for _, created_id, _ in entries if not str(created_id).startswith("new-")]
    assert existing == [known_id] * len(lost)
    assert sum("an earlier attempt created it" in line for line in caplog.messages) == len(lost)


@pytest.mark.parametrize(("kind", "lost"), [("qa", ["drop"]), ("text", [503, 500]), ("file", ["drop", 502])])
def test_a_resend_by_the_next_try(kind, lost, connect_to, tmp_path):
    count = len(lost) + 1
    with Service(lost, CONFLICTS[1][0]) as service:
        connect_to(service, retries=0)
        with pytest.raises(AssistantIncompleteError):
            operator_of(kind, count, tmp_path).execute(task_context())
        result = operator_of(kind, count, tmp_path).execute(task_context())
        # A retry of the same task lists no duplicates either.
        again = operator_of(kind, count, tmp_path).execute(task_context())
    assert (result["created"], result["unchanged"]) == (len(lost), 1)
    assert (again["unchanged"], again["findings"]) == (count, None)
    assert {result["possibly_duplicated"], again["possibly_duplicated"]} == {0}
    assert (len(service.documents), service.conflicts) == (count, len(lost))
    assert [entry[0] for entry in ids_in_ledger()].count("created") == count


def test_a_killed_try_is_settled_as_well(connect_to, tmp_path):
    with Service([], CONFLICTS[0][0]) as service:
        connect_to(service, retries=0)
        # The killed try had claimed its row and sent it.
        forgotten(operator_of("text", 1, tmp_path))
        claim_without_outcome(operator_of("text", 1, tmp_path))
        result = operator_of("text", 1, tmp_path).execute(task_context(run_id="next"))
    assert (result["created"], result["possibly_duplicated"], service.conflicts) == (1, 0, 1)


def claim_without_outcome(operator):
    """Claim the row of an operator, as a task that is killed before the reply."""
    (row,) = operator._rows("s1").batches()
    run = RunRef("dag", "next", "task", -1)
    claim = Claim(row.rows[0].key, "t0", 1, row.rows[0].content_hash)
    with (
        Ledger.open() as ledger,
        ledger.of(Scope(operator.hook.site(), operator.kind), "dag.load", run) as attempts,
    ):
        assert attempts.commit([], [claim]) == {claim.key}


def forgotten(operator):
    """Load with a ledger that is lost."""
    operator.execute(task_context())
    with Ledger.open() as ledger, ledger.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM assistant_attempts")


@pytest.mark.parametrize("kind", KINDS)
def test_a_409_to_a_first_create_rejects_the_row(kind, connect_to, tmp_path):
    with Service([], CONFLICTS[0][0]) as service:
        connect_to(service, retries=2)
        forgotten(operator_of(kind, 2, tmp_path))
        with pytest.raises(AssistantInputError) as rejected:
            operator_of(kind, 2, tmp_path).execute(task_context())
    assert "2 rows" in str(rejected.value)
    assert service.conflicts == 2
    (path,) = (tmp_path / "airflow-home" / "assistant_loads").rglob("*.parquet")
    listed = pq.read_table(path).to_pylist()
    assert [row["kind"] for row in listed] == ["rejected"] * 2
    assert all("exists already" in row["reason"] for row in listed)


def test_a_409_after_other_content_was_lost_settles_nothing(connect_to, tmp_path):
    with Service(["drop"], CONFLICTS[1][0]) as service:
        connect_to(service, retries=0)
        with pytest.raises(AssistantIncompleteError):
            operator_of("qa", 1, tmp_path).execute(task_context())
        # Another program creates the new content.
        with Ledger.in_memory() as other, pytest.MonkeyPatch.context() as patch:
            patch.setattr(Ledger, "open", lambda *_: other)
            operator_of("qa", 1, tmp_path, "new content").execute(task_context())
        with pytest.raises(AssistantInputError):
            operator_of("qa", 1, tmp_path, "new content").execute(task_context())
    assert [entry[0] for entry in ids_in_ledger()] == ["ambiguous", "rejected"]
