"""The routes of the tab of a task instance: what the task did, and its findings."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from tempfile import SpooledTemporaryFile
from typing import IO, Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import PlainTextResponse, StreamingResponse

from airflow_provider_assistant.asking.answers import STATUSES
from airflow_provider_assistant.ledger import RunRef
from airflow_provider_assistant.ledger.queries import MOST, tries_of
from airflow_provider_assistant.operators.links import PAGES, browser_url
from airflow_provider_assistant.operators.runs import findings_file
from airflow_provider_assistant.ui.access import Rights, RightsDep, may_see_task
from airflow_provider_assistant.ui.files import UnreadableError, within
from airflow_provider_assistant.ui.findings import FindingsReader, answers_of
from airflow_provider_assistant.ui.ledger import read
from airflow_provider_assistant.ui.models import Load, Problem, Task, model_of
from airflow_provider_assistant.ui.page import PageDep, Position
from airflow_provider_assistant.ui.parquet_reader import ParquetReader, read_parquet
from airflow_provider_assistant.ui.plugin import KINDS
from airflow_provider_assistant.ui.rows import loads_of
from airflow_provider_assistant.ui.task_models import (
    Bin,
    ChatBatch,
    Finding,
    Findings,
    FindingsKind,
    TaskKind,
    TaskReply,
    Written,
)
from airflow_provider_assistant.ui.task_results import (
    TASK_PATH,
    TaskFacts,
    TaskKey,
    TaskKeyDep,
    facts_of,
    result_of,
)
from airflow_provider_assistant.ui.trend_models import Evaluation

router = APIRouter(prefix="/api/tasks", dependencies=[Depends(may_see_task)])

# Items of a result that only tasks of a kind return: users may derive operators of their own.
_RESULTS: dict[TaskKind, set[str]] = {
    "load": {"created", "unchanged", "possibly_duplicated", "source"},
    "chat_batch": {"complete", "timed_out", "output_path"},
    "evaluation": {"verdict", "report_path", "pass_rate"},
}
# Kinds of tasks about which only the result says something, and the states in which they should have one.
# Figures of an evaluation that its result has.
_FIGURES = ("name", "verdict", "questions", "answered", "coverage", "pass_rate", "means")
_KINDS_OF_RESULTS, ENDED = ("chat_batch", "evaluation", "export"), ("success", "failed")
# Items of results that are paths.
_PATHS = ("paths", "path", "raw_path", "output_path", "scores_path", "lake_path")
# Maximum number of files of a task that are listed.
MOST_WRITTEN = 100
# Seconds to make a CSV file, its bytes that are kept in memory, and those that are sent at once.
CSV_SECONDS, MOST_IN_MEMORY, PART = 60.0, 8_000_000, 100_000
_NOT_OURS = Problem(code="unreadable", text="The result of this task in XCom is not that of a task of its kind.")
KindQuery = Annotated[str | None, Query(max_length=50)]


@router.get(TASK_PATH)
def task(key: TaskKeyDep, rights: RightsDep) -> TaskReply:
    """Return what a task instance did."""
    facts, read_result = facts_of(key), result_of(key)
    result = read_result.items
    kind = _kind(facts, result)
    tries: list[Load] = []
    problem: Problem | None = None
    if kind == "load" and not facts.is_mapped:
        tries, problem = _tries(key, rights)
    batch = None
    if kind == "chat_batch" and not facts.is_mapped:
        batch = _batch(key, facts, result)
    task_model = _task_model(key)
    evaluation = None
    if kind == "evaluation" and result:
        evaluation = _evaluation(key, facts, result, task_model)
    written = _written(result)
    # The tries of a load say all that is in its result.
    has_nothing = not (batch or evaluation or written)
    if kind in _KINDS_OF_RESULTS and facts.state in ENDED and has_nothing:
        problem = read_result.problem or _NOT_OURS
    return TaskReply(
        kind=kind,
        operator=facts.operator,
        state=facts.state,
        is_mapped_summary=facts.is_mapped,
        task=task_model,
        tries=tries,
        problem=problem,
        batch=batch,
        evaluation=evaluation,
        written=written,
        has_findings=kind in {"load", "chat_batch", "ratings"} or "findings" in result,
        may_settle=rights.may_settle(key.dag_id),
    )


def _task_model(key: TaskKey) -> Task:
    region = None
    if key.region:
        region = str(key.region)
    return Task(
        dag_id=key.dag_id,
        run_id=key.run_id,
        task_id=key.task_id,
        map_index=key.map_index,
        region=region,
        path=key.path,
    )


@router.get(f"{TASK_PATH}/findings")
def findings(key: TaskKeyDep, page: PageDep, kind: KindQuery = None) -> Findings:
    """Return a page of the findings of a task instance."""
    path = findings_path(key)
    if path is None:
        return _no_findings(page, path=None, problem=None)

    def read(file: ParquetReader) -> tuple[list[FindingsKind], list[Finding]]:
        findings = FindingsReader(file, key.dag_id)
        return findings.kinds(), findings.page(kind, page.limit, page.offset)

    try:
        kinds, rows = read_parquet(key.dag_id, path, "findings", read)
    except UnreadableError as error:
        return _no_findings(page, path=path, problem=error.problem)
    total = sum(counted.count for counted in kinds if kind is None or counted.kind == kind)
    return Findings(
        total=min(total, MOST),
        is_capped=total > MOST,
        limit=page.limit,
        offset=page.offset,
        problem=None,
        path=path,
        kinds=kinds,
        rows=rows,
    )


def _no_findings(page: Position, *, path: str | None, problem: Problem | None) -> Findings:
    return Findings(
        total=0,
        is_capped=False,
        limit=page.limit,
        offset=page.offset,
        problem=problem,
        path=path,
        kinds=[],
        rows=[],
    )


@router.get(f"{TASK_PATH}/findings.csv")
def findings_csv(key: TaskKeyDep, kind: KindQuery = None) -> Response:
    """Return the findings of a task instance as a CSV file."""
    path = findings_path(key)
    if path is None:
        return PlainTextResponse("This task has no findings.\n", status_code=404)
    # The browser may take as long as it likes to download it.
    content = SpooledTemporaryFile(max_size=MOST_IN_MEMORY)  # noqa: SIM115 (it is closed when it has been sent)

    def read(file: ParquetReader) -> None:
        for text in FindingsReader(file, key.dag_id).csv(kind):
            content.write(text.encode("utf-8", "backslashreplace"))

    try:
        read_parquet(key.dag_id, path, "findings", read, seconds=CSV_SECONDS)
    except UnreadableError as error:
        content.close()
        return PlainTextResponse(f"{error}\n", status_code=404)
    name = quote(f"findings-{key.dag_id}-{key.task_id}.csv", safe="")
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
    return StreamingResponse(_parts(content), media_type="text/csv; charset=utf-8", headers=headers)


def _parts(content: IO[bytes]) -> Iterator[bytes]:
    with content:
        content.seek(0)
        while part := content.read(PART):
            yield part


def findings_path(key: TaskKey) -> str | None:
    """
    Return the path of the findings of a task instance, or None if it has none.

    A task that failed has no result: its findings are at its ``findings_path``, or at the default place.
    """
    result = result_of(key).items
    if "findings" in result:
        path = result["findings"]
        if isinstance(path, str):
            return path
        return None
    facts = facts_of(key)
    if facts.operator is None or facts.is_mapped:
        return None
    configured_path = (facts.rendered or {}).get("findings_path")
    if isinstance(configured_path, str) and configured_path:
        return configured_path
    # The region of an iteration of a loop has another form in the name of the file.
    default_file = findings_file(RunRef(key.dag_id, key.run_id, key.task_id, key.map_index))
    try:
        exists = within(key.dag_id, default_file.is_file, what=str(default_file))
    except Exception:  # noqa: BLE001 (storages raise any exception)
        # The storage may be unreachable. Opening the file explains this to the user.
        exists = True
    if not exists:
        return None
    return str(default_file)


def _kind(facts: TaskFacts, result: Mapping[str, Any]) -> TaskKind:
    """Return the kind of a task: by the name of its operator, otherwise by the items of its result."""
    if facts.operator is None:
        return "unknown"
    if facts.operator in KINDS:
        return KINDS[facts.operator]
    for kind, names in _RESULTS.items():
        if names <= result.keys():
            return kind
    return "other"


def _tries(key: TaskKey, rights: Rights) -> tuple[list[Load], Problem | None]:
    """Return the tries of a load, and why they cannot be read."""
    run = {"dag_id": key.dag_id, "run_id": key.run_id, "task_id": key.task_id, "map_index": key.map_index}
    rows, problem = read(lambda connection: tries_of(connection, run))
    if rows is None:
        rows = []
    if key.region is not None:
        region = str(key.region)
        # The ledger has "<index of the iteration>.<id of the region>", the key only the id.
        rows = [row for row in rows if row["region"] and region in row["region"]]
    return loads_of(rows, rights), problem


def _batch(key: TaskKey, facts: TaskFacts, result: Mapping[str, Any]) -> ChatBatch | None:
    """Return the result of a chat batch, or None if neither the result nor the file has all counts."""
    path = result.get("output_path") or (facts.rendered or {}).get("output_path")
    if not isinstance(path, str):
        path = None
    problem: Problem | None = None
    bins: list[Bin] = []
    counts_in_file: dict[str, int] = {}
    if path:
        try:
            bins, counts_in_file = read_parquet(key.dag_id, path, "answers", lambda file: answers_of(file, key.dag_id))
        except UnreadableError as error:
            problem = error.problem
    counts = {name: result.get(name, counts_in_file.get(name)) for name in ("rows", *STATUSES)}
    return model_of(
        ChatBatch,
        **counts,
        rejected=result.get("rejected"),
        submitted=result.get("submitted"),
        reused=result.get("reused"),
        possibly_duplicated=result.get("possibly_duplicated"),
        p50=result.get("seconds_p50"),
        p95=result.get("seconds_p95"),
        p99=result.get("seconds_p99"),
        measured=result.get("seconds_measured"),
        low_confidence=result.get("low_confidence"),
        histogram=bins,
        output_path=path,
        problem=problem,
    )


def _evaluation(key: TaskKey, facts: TaskFacts, result: Mapping[str, Any], task_model: Task) -> Evaluation | None:
    """Return the evaluation that a result describes, or None if it describes none."""
    if not _RESULTS["evaluation"] <= result.keys() or facts.ended_at is None:
        return None
    report = None
    if result["report_path"]:
        task_parts = (key.dag_id, key.run_id, key.task_id, key.map_index)
        quoted_key = "/".join(quote(str(part), safe="") for part in task_parts)
        report = f"{PAGES}/reports/{quoted_key}"
        if key.region:
            report = f"{report}?region={key.region}"
    return model_of(
        Evaluation,
        **{name: result.get(name) for name in _FIGURES},
        at=facts.ended_at,
        worse=result.get("worse") or [],
        failed_rules=result.get("failed_rules") or [],
        newly_failing=result.get("newly_failing") or [],
        report=report,
        task=task_model,
    )


def _written(result: Mapping[str, Any]) -> list[Written]:
    """Return the files that the result names, and the datasets of a warehouse."""
    rows_by_path: dict[str, Any] = {}
    for name in _PATHS:
        paths = result.get(name)
        if not isinstance(paths, list):
            paths = [paths]
        rows = None
        # With several paths, the rows are those of all of them.
        if name in {"path", "output_path"} and "paths" not in result:
            rows = result.get("rows")
        for path in paths[:MOST_WRITTEN]:
            if isinstance(path, str) and path:
                rows_by_path.setdefault(path, rows)
    written = [_written_file(path, rows) for path, rows in rows_by_path.items()]
    datasets = result.get("datasets")
    if isinstance(datasets, dict):
        for name, rows in datasets.items():
            written.append(model_of(Written, name=name, path=name, rows=rows, url=None))
    return [one for one in written if one is not None][:MOST_WRITTEN]


def _written_file(path: str, rows: Any) -> Written | None:
    url: str | None = None
    with contextlib.suppress(Exception):  # it may be no path at all
        url = browser_url(path)
    # Browsers open no other URLs from a page.
    if url and not url.startswith("http"):
        url = None
    return model_of(Written, name=_name_of(path), path=path, rows=rows, url=url)


def _name_of(path: str) -> str:
    """Return the name of the dataset of a path with a partition, otherwise the name of the file."""
    # Without a partition, ``dataset_path`` is the whole path.
    dataset_path, _separator, _day = path.partition("/date=")
    return dataset_path.rstrip("/").rpartition("/")[2]
