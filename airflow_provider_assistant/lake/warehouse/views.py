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
        text = files(__package__).joinpath("views", f"{view}.sql").read_text("utf-8")
        metrics = _metrics(store, schema) if view == "statistics_daily" else ""
        store.run(Template(text).substitute(schema=quoted(schema), metrics=metrics, dated=literal(DATED)))


def quoted(name: str) -> str:
    """Return a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a quoted SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def _metrics(store: WarehouseTransaction, schema: str) -> str:
    """Return the SQL of the metric columns of ``statistics_daily``: one per metric that was ever a number."""
    found = store.run(
        # Metrics with a date would add columns every day; statistics_history has them as rows instead.
        f"SELECT metric, min(date) FROM {quoted(schema)}.statistics "  # noqa: S608
        f"WHERE type = 'number' AND NOT metric ~ {literal(DATED)} GROUP BY metric"
    )
    named = columns_of(metric for metric, _ in sorted(found, key=lambda row: (row[1], row[0])))
    # Keep the order of existing columns: PostgreSQL only allows new columns at the end when it replaces a view.
    existing = store.run(
        "SELECT column_name FROM information_schema.columns WHERE table_catalog = current_database() "  # noqa: S608
        f"AND table_schema = {literal(schema)} AND table_name = 'statistics_daily' ORDER BY ordinal_position"
    )
    wanted = [column for (column,) in existing if column not in KEYS]
    wanted += [column for column in named if column not in wanted]
    left_out = wanted[MAX_METRICS:]
    if left_out:
        log.warning(
            "statistics_daily is limited to %d metrics and leaves out: %s", MAX_METRICS, escaped(", ".join(left_out))
        )
    return "".join(f",\n    {_column(name, named)}" for name in wanted[:MAX_METRICS])


def columns_of(metrics: Iterable[str]) -> dict[str, str]:
    """
    Return the column names of metrics: the metric's own name, or a name with a hash if it is too long or taken.

    Names that differ only in case count as taken, because DuckDB ignores case.

    :param metrics: Metrics in a stable order: the first metric with a name gets it.
    :return: Metric by column name.
    """
    taken = {key.casefold() for key in KEYS}
    named: dict[str, str] = {}
    for metric in metrics:
        name = metric
        if len(name.encode()) > NAME_BYTES or name.casefold() in taken:
            digest = hashlib.blake2b(metric.encode(), digest_size=4).hexdigest()
            name = metric.encode()[: NAME_BYTES - len(digest) - 1].decode(errors="ignore") + f"_{digest}"
        taken.add(name.casefold())
        named[name] = metric
    return named


def _column(name: str, named: Mapping[str, str]) -> str:
    if name not in named:
        return f"CAST(NULL AS FLOAT8) AS {quoted(name)}"
    return f"max(value) FILTER (WHERE metric = {literal(named[name])}) AS {quoted(name)}"
