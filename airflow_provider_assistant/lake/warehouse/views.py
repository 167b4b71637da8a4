"""The views of the warehouse: SQL files beside this one."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING

from airflow_provider_assistant.exceptions import escaped

if TYPE_CHECKING:
    from airflow_provider_assistant.lake.warehouse.stores import Store

log = logging.getLogger(__name__)

VIEWS = ("statistics_daily", "statistics_history", "feedback_weekly", "latency_daily")
KEYS = ("date", "tenant_id", "site_id", "captured_at")
# PostgreSQL cuts longer names off, and has at most 1,664 columns in a query.
NAME_BYTES = 63
MAX_METRICS = 1500
# A metric below a date, such as daily.2026-11-21.documents.total: the value of another day than that of the capture.
DATED = r"^(.+)\.([12][0-9]{3})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])\.(.+)$"


def create_views(store: Store, schema: str) -> None:
    """Create the views, or bring them up to date with the tables."""
    for view in VIEWS:
        text = files(__package__).joinpath("views", f"{view}.sql").read_text("utf-8")
        metrics = _metrics(store, schema) if view == "statistics_daily" else ""
        store.run(Template(text).substitute(schema=quoted(schema), metrics=metrics, dated=literal(DATED)))


def quoted(name: str) -> str:
    """Return a name as SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text as SQL."""
    return "'" + text.replace("'", "''") + "'"


def _metrics(store: Store, schema: str) -> str:
    """Return the columns of ``statistics_daily``: one per metric that was ever a number."""
    found = store.run(
        # Columns for each date would be more every day; these values are rows of statistics_history.
        f"SELECT metric, min(date) FROM {quoted(schema)}.statistics "  # noqa: S608
        f"WHERE type = 'number' AND NOT metric ~ {literal(DATED)} GROUP BY metric"
    )
    metrics = [metric for metric, _ in sorted(found, key=lambda row: (row[1], row[0]))]
    # A view keeps its columns in their order: PostgreSQL lets new ones only follow, for the sake of views on views.
    existing = [
        column
        for (column,) in store.run(
            "SELECT column_name FROM information_schema.columns WHERE table_catalog = current_database() "  # noqa: S608
            f"AND table_schema = {literal(schema)} AND table_name = 'statistics_daily' ORDER BY ordinal_position"
        )
        if column not in KEYS
    ]
    named = columns_of(metrics)
    wanted = list(dict.fromkeys([*existing, *named]))
    if left_out := wanted[MAX_METRICS:]:
        log.warning("statistics_daily has %d metrics, and no room for: %s", MAX_METRICS, escaped(", ".join(left_out)))
    return "".join(f",\n    {_column(name, named)}" for name in wanted[:MAX_METRICS])


def columns_of(metrics: Iterable[str]) -> dict[str, str]:
    """
    Return which column a metric gets: its own name, or one with a digest where that is too long or taken.

    Names that differ only in case are the same to DuckDB.

    :param metrics: In an order that stays: who comes first has the name.
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
