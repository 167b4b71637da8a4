"""The routes of the tab of a task instance: what the task did, and its findings."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Annotated, Any
from urllib.parse import quote

from airflow.providers.common.compat.sdk import BaseHook
from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import PlainTextResponse, StreamingResponse

from airflow_provider_assistant.chat_batch.answers import STATUSES
from airflow_provider_assistant.evaluation.excerpts import Figures
from airflow_provider_assistant.ledger import RunRef
from airflow_provider_assistant.ledger.load_queries import tries_of
from airflow_provider_assistant.ledger.selection import MOST
from airflow_provider_assistant.operators.links import PAGES, browser_url
from airflow_provider_assistant.operators.runs import findings_file
from airflow_provider_assistant.ui import findings as files
from airflow_provider_assistant.ui.access import Rights, RightsDep, may_see_task
from airflow_provider_assistant.ui.ledgers import known_ledgers, read
from airflow_provider_assistant.ui.models import LedgerRef, Load, Problem, Task
from airflow_provider_assistant.ui.page import PageDep
from airflow_provider_assistant.ui.rows import loads_of
from airflow_provider_assistant.ui.task_models import Bin, ChatBatch, Findings, TaskKind, TaskLink, TaskReply, Written
from airflow_provider_assistant.ui.task_results import TASK_PATH, TaskFacts, TaskKey, TaskKeyDep, facts_of, result_of
from airflow_provider_assistant.ui.trend_models import Evaluation

router = APIRouter(prefix="/api/tasks", dependencies=[Depends(may_see_task)])

KINDS: dict[str, TaskKind] = {
    **dict.fromkeys(("AssistantLoadQAOperator", "_LoadQADecoratedOperator"), "load"),
    **dict.fromkeys(("AssistantLoadTextOperator", "AssistantUploadFilesOperator"), "load"),
    **dict.fromkeys(("AssistantChatBatchOperator", "_ChatBatchDecoratedOperator"), "chat_batch"),
    "AssistantEvaluateOperator": "evaluation",
    **dict.fromkeys(("AssistantStatisticsToParquetOperator", "AssistantLimitsToParquetOperator"), "export"),
    **dict.fromkeys(("AssistantFeedbackToParquetOperator", "AssistantRequestsToParquetOperator"), "export"),
    **dict.fromkeys(("AssistantLoadsToParquetOperator", "AssistantParquetToWarehouseOperator"), "export"),
}
# Items of a result that only tasks of a kind return: users may derive operators of their own.
_RESULTS: dict[TaskKind, set[str]] = {
    "load": {"created", "unchanged", "possibly_duplicated", "source"},
    "chat_batch": {"complete", "timed_out", "output_path"},
    "evaluation": {"verdict", "report_path", "pass_rate"},
}
# Items of results that are paths.
_PATHS = ("paths", "path", "raw_path", "output_path", "scores_path", "lake_path")
KindQuery = Annotated[str | None, Query(max_length=50)]


@router.get(TASK_PATH)
def task(key: TaskKeyDep, rights: RightsDep) -> TaskReply:
    """Return what a task instance did."""
    facts, result = facts_of(key), result_of(key)
    kind = _kind(facts, result)
    ledger = _ledger(facts.rendered or {})
    tries: list[Load] = []
    problem: Problem | None = None
    if kind == "load" and not facts.is_mapped:
        tries, problem = _tries(key, ledger, rights)
    known = ledger.id in {ref.id for ref in known_ledgers()}
    where = Task(
        **{name: getattr(key, name) for name in ("dag_id", "run_id", "task_id", "map_index")},
        region=str(key.region) if key.region else None,
        path=key.path,
    )
    evaluation = _evaluation(key, facts, result, where) if kind == "evaluation" and result else None
    return TaskReply(
        kind=kind,
        operator=facts.operator,
        state=facts.state,
        is_mapped_summary=facts.is_mapped,
        task=where,
        ledger=ledger.id,
        tries=tries,
        problem=problem,
        batch=_batch(facts, result) if kind == "chat_batch" and not facts.is_mapped else None,
        evaluation=evaluation,
        written=_written(result),
        links=[TaskLink(name="Evaluation report", href=evaluation.report)] if evaluation and evaluation.report else [],
        has_findings=kind in {"load", "chat_batch"} or "findings" in result,
        may_settle=known and rights.may_settle(key.dag_id),
    )


@router.get(f"{TASK_PATH}/findings")
def findings(key: TaskKeyDep, page: PageDep, kind: KindQuery = None) -> Findings:
    """Return a page of the findings of a task instance."""
    position: dict[str, Any] = {"total": 0, "is_capped": False, "limit": page.limit, "offset": page.offset}
    empty: dict[str, Any] = {**position, "kinds": [], "rows": []}
    path = findings_path(key)
    if path is None:
        return Findings(**empty, problem=None, path=None)
    try:
        with _opened(path) as file:
            kinds = files.kinds_of(file)
            rows = files.page_of_findings(file, kind, page.limit, page.offset)
    except files.UnreadableError as error:
        return Findings(**empty, problem=error.problem, path=path)
    total = sum(one.count for one in kinds if kind in {None, one.kind})
    capped = {"total": min(total, MOST), "is_capped": total > MOST}
    return Findings(**{**position, **capped}, problem=None, path=path, kinds=kinds, rows=rows)


@router.get(f"{TASK_PATH}/findings.csv")
def findings_csv(key: TaskKeyDep, kind: KindQuery = None) -> Response:
    """Return the findings of a task instance as a CSV file."""
    path = findings_path(key)
    if path is None:
        return PlainTextResponse("This task has no findings.\n", status_code=404)
    try:
        content = files.csv_of(files.open_findings(path), kind)
    except files.UnreadableError as error:
        return PlainTextResponse(f"{error}\n", status_code=404)
    name = quote(f"findings-{key.dag_id}-{key.task_id}.csv", safe="")
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
    return StreamingResponse(content, media_type="text/csv; charset=utf-8", headers=headers)


def findings_path(key: TaskKey) -> str | None:
    """
    Return the path of the findings of a task instance, or None if it has none.

    A task that failed has no result: its findings are at its ``findings_path``, or at the default place.
    """
    result = result_of(key)
    if "findings" in result:
        return result["findings"] if isinstance(result["findings"], str) else None
    facts = facts_of(key)
    if facts.operator is None or facts.is_mapped:
        return None
    given = (facts.rendered or {}).get("findings_path")
    if isinstance(given, str) and given:
        return given
    # The region of an iteration of a loop has another form in the name of the file.
    file = findings_file(RunRef(key.dag_id, key.run_id, key.task_id, key.map_index))
    with contextlib.suppress(Exception):  # the storage may be unreachable
        return str(file) if file.is_file() else None
    return str(file)


@contextlib.contextmanager
def _opened(path: str) -> Iterator[Any]:
    file = files.open_findings(path)
    try:
        yield file
    finally:
        file.close(force=True)


def _kind(facts: TaskFacts, result: Mapping[str, Any]) -> TaskKind:
    if facts.operator is None:
        return "unknown"
    other: TaskKind = "other"
    inferred = next((kind for kind, names in _RESULTS.items() if names <= result.keys()), other)
    return KINDS.get(facts.operator, inferred)


def _ledger(rendered: Mapping[str, Any]) -> LedgerRef:
    """Return the ledger that the task uses: its own, that of its connection, or the default one."""
    own = rendered.get("ledger_conn_id")
    connection = rendered.get("assistant_conn_id")
    if not own and isinstance(connection, str):
        with contextlib.suppress(Exception):  # this API server may not have the connection
            own = BaseHook.get_connection(connection).extra_dejson.get("ledger_conn_id")
    if isinstance(own, str) and own.strip():
        return LedgerRef(id=own.strip(), name=own.strip())
    return known_ledgers()[0]


def _tries(key: TaskKey, ledger: LedgerRef, rights: Rights) -> tuple[list[Load], Problem | None]:
    run = {"dag_id": key.dag_id, "run_id": key.run_id, "task_id": key.task_id, "map_index": key.map_index}
    rows, problem = read(ledger, lambda opened: tries_of(opened.connection, run))
    mine = [row for row in rows or [] if key.region is None or str(key.region) in (row.region or "")]
    return loads_of(mine, rights), problem


def _batch(facts: TaskFacts, result: Mapping[str, Any]) -> ChatBatch | None:
    path = result.get("output_path") or (facts.rendered or {}).get("output_path")
    problem: Problem | None = None
    bins: list[Bin] = []
    counted: dict[str, int] = {}
    if isinstance(path, str) and path:
        try:
            bins, counted = files.answers_of(path)
        except files.UnreadableError as error:
            problem = error.problem
    counts = {name: result.get(name, counted.get(name)) for name in ("rows", *STATUSES)}
    if any(not isinstance(count, int) for count in counts.values()):
        return None
    more = ("rejected", "submitted", "reused", "possibly_duplicated")
    return ChatBatch(
        **counts,
        **{name: result.get(name) for name in more},
        **{f"p{percent}": result.get(f"seconds_p{percent}") for percent in (50, 95, 99)},
        histogram=bins,
        output_path=path if isinstance(path, str) else None,
        problem=problem,
    )


def _evaluation(key: TaskKey, facts: TaskFacts, result: Mapping[str, Any], where: Task) -> Evaluation | None:
    if not _RESULTS["evaluation"] <= result.keys() or facts.ended_at is None:
        return None
    parts = "/".join(quote(str(part), safe="") for part in (key.dag_id, key.run_id, key.task_id, key.map_index))
    region = f"?region={key.region}" if key.region else ""
    return Evaluation(
        **{figure.name: result.get(figure.name) for figure in fields(Figures)},
        tag=None,
        at=facts.ended_at,
        worse=[],
        failed_rules=[f"{one['rule']}: {one['reason']}" for one in result.get("failed_rules") or []],
        report=f"{PAGES}/reports/{parts}{region}" if result["report_path"] else None,
        task=where,
    )


def _written(result: Mapping[str, Any]) -> list[Written]:
    """Return the files that the result names, and the datasets of a warehouse."""
    found: dict[str, Written] = {}
    for name in _PATHS:
        values = result.get(name)
        # With several paths, the rows are those of all of them.
        is_whole = name in {"path", "output_path"} and "paths" not in result
        rows = result.get("rows") if is_whole else None
        for path in values if isinstance(values, list) else [values]:
            if isinstance(path, str) and path and path not in found:
                url = browser_url(path)
                is_page = url.startswith("http")
                found[path] = Written(name=_name_of(path), path=path, rows=rows, url=url if is_page else None)
    written = list(found.values())
    datasets = result.get("datasets")
    if isinstance(datasets, dict):
        for name, rows in datasets.items():
            written.append(Written(name=str(name), path=str(name), rows=rows, url=None))
    return written


def _name_of(path: str) -> str:
    """Return the name of the dataset of a path with a partition, otherwise the name of the file."""
    folder, partition, _ = path.partition("/date=")
    return (folder if partition else path).rstrip("/").rpartition("/")[2]
