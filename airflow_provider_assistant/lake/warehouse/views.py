"""Create the views of the warehouse from the SQL files in this package."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING

from airflow_provider_assistant.texts import escaped

if TYPE_CHECKING:
    from airflow_provider_assistant.lake.warehouse.stores import WarehouseTransaction

log = logging.getLogger(__name__)

VIEWS = ("statistics_daily", "statistics_history", "feedback_weekly", "latency_daily")
KEYS = ("date", "tenant_id", "site_id", "captured_at")
# PostgreSQL truncates longer names, and allows at most 1,664 columns in a query.
NAME_BYTES = 63
MAX_METRICS = 1500
# Metrics with a date in their path, such as daily.2026-11-21.documents.total: values of that day, not of the capture's.
DATED = r"^(.+)\.([12][0-9]{3})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])\.(.+)$"


def create_views(store: WarehouseTransaction, schema: str) -> None:
    """Create or replace the views."""
    for view in VIEWS:
        sql_file = files(__package__).joinpath("views", f"{view}.sql")
        template = Template(sql_file.read_text("utf-8"))
        metrics = ""
        if view == "statistics_daily":
            metrics = _metric_columns(store, schema)
        # A placeholder that a template does not have is ignored.
        statement = template.substitute(
            schema=quoted(schema),
            metrics=metrics,
            dated=literal(DATED),
        )
        store.run(statement)


def quoted(name: str) -> str:
    """Return a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a quoted SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def _metric_columns(store: WarehouseTransaction, schema: str) -> str:
    """Return the SQL of the metric columns of ``statistics_daily``: one per metric that was ever a number."""
    rows = store.run(
        # Metrics with a date would add columns every day; statistics_history has them as rows instead.
        f"SELECT metric, min(date) FROM {quoted(schema)}.statistics "  # noqa: S608
        f"WHERE type = 'number' AND NOT metric ~ {literal(DATED)} GROUP BY metric"
    )
    # Older metrics first, so that a new metric does not take the column name of an older one.
    dates_and_metrics = sorted((first_date, metric) for metric, first_date in rows)
    metric_by_column = columns_of(metric for _, metric in dates_and_metrics)
    # Keep the order of existing columns: PostgreSQL only allows new columns at the end when it replaces a view.
    view_columns = store.run(
        "SELECT column_name FROM information_schema.columns WHERE table_catalog = current_database() "  # noqa: S608
        f"AND table_schema = {literal(schema)} AND table_name = 'statistics_daily' ORDER BY ordinal_position"
    )
    columns = [column for (column,) in view_columns if column not in KEYS]
    columns += [column for column in metric_by_column if column not in columns]
    left_out = columns[MAX_METRICS:]
    if left_out:
        log.warning(
            "statistics_daily is limited to %d metrics and leaves out: %s", MAX_METRICS, escaped(", ".join(left_out))
        )
    expressions = [_column_sql(column, metric_by_column) for column in columns[:MAX_METRICS]]
    # Each comes after a column of the template, so each begins with a comma.
    return "".join(f",\n    {expression}" for expression in expressions)


def columns_of(metrics: Iterable[str]) -> dict[str, str]:
    """
    Return the column names of metrics: the metric's own name, or a name with a hash if it is too long or taken.

    Names that differ only in case count as taken, because DuckDB ignores case.

    :param metrics: Metrics in a stable order: the first metric with a name gets it.
    :return: Metric by column name.
    """
    taken_names = {key.casefold() for key in KEYS}
    metric_by_column: dict[str, str] = {}
    for metric in metrics:
        name = metric
        if len(name.encode()) > NAME_BYTES or name.casefold() in taken_names:
            name = _name_with_hash(metric)
        taken_names.add(name.casefold())
        metric_by_column[name] = metric
    return metric_by_column


def _name_with_hash(metric: str) -> str:
    suffix = "_" + hashlib.blake2b(metric.encode(), digest_size=4).hexdigest()
    beginning = metric.encode()[: NAME_BYTES - len(suffix)]
    # The cut may have split a character of several bytes; its rest is dropped.
    return beginning.decode(errors="ignore") + suffix


def _column_sql(column: str, metric_by_column: Mapping[str, str]) -> str:
    if column not in metric_by_column:
        # The view has the column, but its metric is not in the table any more.
        return f"CAST(NULL AS FLOAT8) AS {quoted(column)}"
    metric = metric_by_column[column]
    return f"max(value) FILTER (WHERE metric = {literal(metric)}) AS {quoted(column)}"
