"""Record the tries of tasks in the ledger, which the pages in Airflow's UI show."""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar, cast

from airflow.providers.common.compat.sdk import AirflowSkipException, Context

from airflow_provider_assistant.exceptions import AssistantLedgerError
from airflow_provider_assistant.hooks.task_parameters import check_rendered
from airflow_provider_assistant.names import task_name
from airflow_provider_assistant.texts import shortened, storable

if TYPE_CHECKING:
    from airflow_provider_assistant.ledger import Site, Try
    from airflow_provider_assistant.operators.base import AssistantBaseOperator

P = ParamSpec("P")
Task = TypeVar("Task", bound="AssistantBaseOperator")
Execute: TypeAlias = Callable[Concatenate[Task, Context, P], dict[str, Any]]

# Items of a list or mapping in the counts of a try, levels of them, and characters of a text.
MOST_ITEMS, LEVELS, TEXT_LENGTH = 100, 3, 1000
# Items of a result that have columns of their own.
_COLUMNS = {"findings", "report_path"}

log = logging.getLogger(__name__)


def recorded_as(task_kind: str) -> Callable[[Execute[Task, P]], Execute[Task, P]]:
    """
    Return a decorator for the ``execute`` of a task that can do without the ledger. It records the try.

    A task that fails after it has counted calls :func:`note_result` before it raises.

    :param task_kind: What the task does, such as ``export``.
    """

    def decorate(execute: Execute[Task, P]) -> Execute[Task, P]:
        @functools.wraps(execute)
        def run(task: Task, context: Context, *args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
            check_rendered(task, context)
            with _recorded_try(task, context, task_kind):
                try:
                    result = execute(task, context, *args, **kwargs)
                except AirflowSkipException as error:
                    # Airflow skips tasks by these exceptions. The try has succeeded.
                    skipped = error
                else:
                    note_result(task, result)
                    return result
            raise skipped

        return cast("Execute[Task, P]", run)

    return decorate


def note_result(task: AssistantBaseOperator, result: Mapping[str, Any]) -> None:
    """Keep the result of a task for the record of its try."""
    this_try = task.this_try
    if this_try is None:
        return
    this_try.counts = {name: _plain(value) for name, value in result.items() if name not in _COLUMNS}
    this_try.findings = result.get("findings")
    this_try.report = result.get("report_path")
    this_try.needs_person = bool(this_try.findings) or result.get("verdict") == "failed"


@contextlib.contextmanager
def _recorded_try(task: AssistantBaseOperator, context: Context, task_kind: str) -> Iterator[None]:
    """Record a try for a ``with`` block. If the ledger cannot be used, log a warning and go on without."""
    from airflow_provider_assistant.ledger import Ledger, RunRef, Try
    from airflow_provider_assistant.ledger.tries import recorded

    run = RunRef.of(context)
    token = uuid.uuid4().hex
    source = task.source_of_try(context) or task_name(run.dag_id, run.task_id)
    with contextlib.ExitStack() as stack:
        this_try = Try(token)
        try:
            ledger = stack.enter_context(Ledger.open())
            manager = recorded(ledger.engine, token, task_kind, _site(task), source, run)
            this_try = stack.enter_context(manager)
        except AssistantLedgerError as error:
            log.warning("This try is not recorded, so the page Assistant does not show it: %s", error)
        task.this_try = this_try
        try:
            yield
        finally:
            if this_try.findings:
                _read_findings(this_try)


def _site(task: AssistantBaseOperator) -> Site:
    """Return the site of a task; one without a name if it has none or its connection is invalid."""
    from airflow_provider_assistant.ledger import Site

    # The task itself raises what is wrong with its connection.
    with contextlib.suppress(Exception):
        site = task.site_of_try()
        if site is not None:
            return site
    return Site("", "")


def _read_findings(this_try: Try) -> None:
    """Read the first findings from the file that the task has written."""
    from airflow_provider_assistant.loading.findings import first_findings
    from airflow_provider_assistant.storage.opening import storage_path

    try:
        this_try.first_findings = first_findings(storage_path(this_try.findings))
    except Exception as error:  # noqa: BLE001 (storages raise any exception)
        log.warning("The page Assistant does not show the findings of this try: %s", type(error).__name__)


def _plain(value: Any, level: int = 0) -> Any:
    """Return a value of a result as JSON that a page can show: numbers are finite, and texts and lists short."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping) and level < LEVELS:
        items = list(value.items())[:MOST_ITEMS]
        return {storable(str(name)): _plain(item, level + 1) for name, item in items}
    if isinstance(value, list | tuple) and level < LEVELS:
        return [_plain(item, level + 1) for item in value[:MOST_ITEMS]]
    return shortened(storable(str(value)), TEXT_LENGTH)
