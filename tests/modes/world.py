"""
What exists before each run of a task: documents, a chat request, answers, a ledger and a lake.

It is made once and restored before each run, with the same ids, so that two runs of a task can be compared request by
request.
"""

from __future__ import annotations

import itertools
import json
import re
import secrets
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from airflow.sdk import DAG

from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.operators.chat_batch import AssistantChatBatchOperator
from airflow_provider_assistant.operators.documents import AssistantLoadTextOperator
from airflow_provider_assistant.operators.evaluation import AssistantEvaluateOperator
from airflow_provider_assistant.operators.feedback import AssistantFeedbackOperator
from airflow_provider_assistant.sandbox import chats, documents
from airflow_provider_assistant.sandbox.messages import Key
from airflow_provider_assistant.sandbox.store import Chat, Document, Session
from airflow_provider_assistant.transfers.statistics_to_parquet import AssistantStatisticsToParquetOperator
from tests.conftest import RunningService
from tests.task_runs.in_memory import MemoryRun, run_in_memory

# Ids and names look like numbers, because templates with native objects turn such text into numbers.
TENANT, SITE, CONNECTION, LEDGER = "1.10", "42", "2024", "007"
OTHER_SITE = "42.5"
SESSION, SOURCE, NAME = "1e3", "2.0", "0x10"
KINDS = (Document, Chat, Session)
NOW = datetime.now(UTC)
# Fields whose value depends on the moment, on the number of polls, or on the run.
VARYING = {
    "bytes", "dag_id", "logical_date", "map_index", "polls", "rows_per_second", "run_id", "seconds",
    "task_id",
}  # fmt: skip
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
MOMENTS = re.compile(r"_at$|_p\d\d$")


@dataclass
class Effects:
    """
    What a run has done, without what differs from run to run.

    :param requests: Method, path and digest of the body of each request, without repeated polls.
    :param files: Folder, kind and rows of each file that is new.
    :param stored: Number of rows in each table of the service.
    :param result: What the task returned.
    :param run: The run, which is not compared.
    """

    requests: list[tuple[str, str, str]]
    files: list[tuple[str, str, Any]]
    stored: dict[str, int]
    result: Any
    run: MemoryRun

    def differences(self, other: Effects, *names: str) -> list[str]:
        """
        Return what differs from another run, as lines.

        :param names: What to compare. Default: all.
        """
        if self.run.state != "success":
            return [f"{self.run.state}: {self.run.errors}"]
        lines = []
        for name in names or ("requests", "files", "stored", "result"):
            mine, others = getattr(self, name), getattr(other, name)
            if mine != others:
                lines.append(f"{name}: {_first_difference(mine, others)}")
        return lines

    @property
    def posts(self) -> int:
        return sum(method == "POST" for method, _, _ in self.requests)


def _first_difference(mine: Any, others: Any) -> str:
    """Return where two values differ first."""
    if isinstance(mine, dict) and isinstance(others, dict) and mine.keys() == others.keys():
        return next(f"{key}: {_first_difference(mine[key], others[key])}" for key in mine if mine[key] != others[key])
    are_sequences = isinstance(mine, list | tuple) and isinstance(others, list | tuple)
    if are_sequences and len(mine) == len(others):
        pairs = enumerate(zip(mine, others, strict=True))
        return next(f"[{n}] {_first_difference(one, other)}" for n, (one, other) in pairs if one != other)
    return f"{mine!r} instead of {others!r}"


class World:
    """The service and the files of the tests of this package."""

    def __init__(self, service: RunningService, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self._service, self._folder, self._patch = service, folder, patch
        self._counting = pytest.MonkeyPatch()
        self._ids = 0
        self._runs = 0
        key = Key("dev-numbers", "numbers", TENANT, (SITE, OTHER_SITE))
        patch.setitem(service.server.service.keys, key.value, key)
        for module in (chats, documents):
            patch.setattr(module, "secrets", SimpleNamespace(token_hex=self._next_id))
        # The site and tenant of a task are those of its parameters, not these.
        extra = {"tenant_id": "other", "site_id": "other", "retries": 0, "manage_documents": True}
        connection = service.server.conn_json(key="dev-numbers", **{"service_name": None, **extra})
        patch.setenv(f"AIRFLOW_CONN_{CONNECTION}", connection)
        patch.setenv("AIRFLOW__ASSISTANT__LEDGER_CONN_ID", LEDGER)
        patch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", connection.replace("dev-numbers", secrets.token_hex()))
        self._prepare()

    def _next_id(self, _: int) -> str:
        self._ids += 1
        return f"{self._ids:032x}"

    def _prepare(self) -> None:
        """Make what exists before each run, and remember it."""
        self.template = self._folder / "template"
        self._settle_in(self.template)
        common = {"assistant_conn_id": CONNECTION, "site_id": SITE}
        files = self.template / "files"
        files.mkdir()
        for name in ("1.txt", "2.txt"):
            (files / name).write_text(f"Text of {name}")
        (self.template / "rows.csv").write_text("id;title;content\n1;1.10;Ten\n2;007;Agent\n")
        texts = [
            {"id": str(number), "title": "Shoes", "content": f"Shoes number {number} cost 1.10."} for number in (1, 2)
        ]
        self._run_alone(AssistantLoadTextOperator, source=texts, key_columns="id", source_name=SOURCE, **common)
        hook = AssistantHook(CONNECTION, site_id=SITE)
        self.request_id = str(hook.chat(session_id=SESSION, message="What do shoes cost?").request_id)
        rated = hook.chat(session_id=SESSION, message="And what else?").request_id
        rating = {"session_id": SESSION, "request_id": rated, "feedback": "bad"}
        self._run_alone(AssistantFeedbackOperator, **rating, **common)
        self._run_alone(
            AssistantChatBatchOperator,
            source=[{"id": name, "message": f"What costs {name}?", "expected": name} for name in ("1.10", "shoes")],
            key_columns="id", output_path=str(self.template / "answers.parquet"), poll_interval=0.05, **common,
        )  # fmt: skip
        self._run_alone(
            AssistantEvaluateOperator, answers=str(self.template / "answers.parquet"), scorers=["token_f1"],
            output_path=str(self.template / "evaluations"), name=NAME,
        )  # fmt: skip
        lake = str(self.template / "lake")
        self._run_alone(AssistantStatisticsToParquetOperator, output_path=lake, **common)
        store = self._service.server.service.store
        self._records = [record for kind in KINDS for record in store.all(kind)]
        self._first_id = self._ids

    def _run_alone(self, kind: Any, **arguments: Any) -> None:
        with DAG("before", schedule=None) as dag:
            kind(task_id=kind.__name__, multiple_outputs=False, **arguments)
        run = run_in_memory(dag, run_id="before", logical_date=NOW, run_after=NOW - timedelta(days=1))
        assert run.state == "success", run.errors

    def _settle_in(self, folder: Path) -> None:
        """Use a folder as home of Airflow, with the ledger in it."""
        import airflow.configuration

        folder.mkdir(exist_ok=True)
        self._patch.setattr(airflow.configuration, "AIRFLOW_HOME", str(folder))
        ledger = {"conn_type": "sqlite", "host": str(folder / "ledger.db")}
        self._patch.setenv(f"AIRFLOW_CONN_{LEDGER}", json.dumps(ledger))

    def restore(self) -> Path:
        """Restore the service and the files, and return the folder of the next run."""
        self._counting.undo()
        service = self._service.server.service
        service.reset()
        # The second instance of a mapped task may load the same rows.
        service.update(allow_duplicates=True)
        for record in self._records:
            service.store.save(record)
        self._ids = self._first_id
        self._runs += 1
        folder = self._folder / f"run-{self._runs}"
        shutil.copytree(self.template, folder)
        self._settle_in(folder)
        return folder

    def plain(self, value: Any, folder: Path) -> Any:
        """Return a value without what differs from run to run."""
        return _plain(value, folder)

    def contents(self, folder: Path) -> Mapping[Path, int]:
        """Return a stamp of each file, which changes when the file is written."""
        return _files(folder)

    def take_two_looks(self) -> None:
        """Let chat requests and documents be unfinished until the second look at them."""
        service = self._service.server.service
        service.update(processing_seconds=3600, document_seconds=1e6)
        add, looks = service.journal.add, itertools.count(1)

        def counted(at: float, request: Any, *others: Any) -> Any:
            is_look = request.method == "GET" and re.search("/(documents|chat/requests/[^/]+)$", request.path)
            if is_look and next(looks) == 2:
                service.update(processing_seconds=0, document_seconds=0)
            return add(at, request, *others)

        self._counting.setattr(service.journal, "add", counted)

    def break_request(self, action: str, **match: Any) -> None:
        """Let a request of the next run fail."""
        self._service.answer(action, **match)

    def observe(
        self, folder: Path, act: Callable[[], MemoryRun], task_id: str = "task", map_index: int = -1
    ) -> Effects:
        """
        Run something, and return what it has done.

        :param folder: Folder of the run.
        :param act: The run.
        :param task_id: Id of the task whose result is returned.
        """
        before = _files(folder)
        self._service.server.service.journal.clear()
        run = act()
        files = []
        for path, changed in _files(folder).items():
            if before.get(path) != changed:
                files.append(_described(path, folder))
        result = run.xcoms().get((task_id, map_index, "return_value"))
        store = self._service.server.service.store
        stored = {kind.__name__: len(store.all(kind)) for kind in KINDS}
        stored["ratings"] = sum(chat.rating is not None for chat in store.all(Chat))
        return Effects(self._requests(), sorted(files, key=repr), stored, _plain(result, folder), run)

    def _requests(self) -> list[tuple[str, str, str]]:
        """Return the requests since the last observation began, in a fixed order."""
        counted: Counter[tuple[str, str, str]] = Counter()
        for entry in self._service.journal():
            # The boundary between the parts of an upload is random.
            digest = "" if entry.path.endswith("/documents") else entry.digest
            counted[entry.method, entry.path, digest] += 1
        requests = []
        for request, count in counted.items():
            requests += [request] * (1 if request[0] == "GET" else count)
        return sorted(requests)


def _is_reply(name: str, value: Any) -> bool:
    """Return whether a column has replies as JSON, with their times."""
    return name == "raw" and isinstance(value, str)


def _files(folder: Path) -> Mapping[Path, int]:
    ignored = ("ledger.db", ".duckdb", "catalog.db")
    return {
        path: path.stat().st_mtime_ns
        for path in folder.rglob("*")
        if path.is_file() and not any(mark in path.name for mark in ignored)
    }


def _described(path: Path, folder: Path) -> tuple[str, str, Any]:
    """Return the folder below the folder of the run, the kind of file, and its rows."""
    place = path.parent.relative_to(folder)
    # Days and runs have a folder of their own.
    place = Path(*(part.partition("=")[0] if "=" in part else part for part in place.parts[:2]))
    rows = None
    if path.suffix == ".parquet":
        rows = [_plain(row, folder) for row in pq.ParquetFile(path).read().to_pylist()]
    return str(place), path.suffix, rows


def _plain(value: Any, folder: Path) -> Any:
    """Return a value without what differs from run to run."""
    if isinstance(value, Mapping):
        names = [name for name in value if str(name) not in VARYING and not MOMENTS.search(str(name))]
        return {name: _plain(value[name], folder) for name in names if not _is_reply(name, value[name])}
    if isinstance(value, list | tuple):
        return [_plain(item, folder) for item in value]
    if isinstance(value, datetime):
        return "<time>"
    if isinstance(value, str):
        value = MOMENT.sub("<time>", value).replace("7.inner.task", "task")
    if isinstance(value, str) and str(folder) in value:
        return "<path>"
    return value
