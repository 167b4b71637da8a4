"""Keep the table ``metrics``: the meaning of each path that was ever a number."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.lake.limits import limit_of
from airflow_provider_assistant.lake.warehouse.metrics import (
    column_of,
    dated,
    is_numbered,
)
from airflow_provider_assistant.lake.warehouse.names import literal
from airflow_provider_assistant.lake.warehouse.tables import METRICS
from airflow_provider_assistant.texts import counted, escaped, shortened

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_assistant.lake.warehouse.tables import Warehouse

log = logging.getLogger(__name__)

# Datasets whose metrics have a meaning for the views.
DATASETS = ("statistics", "limits", "reads")
# PostgreSQL allows at most 1,664 columns in a query. Metrics with ids in their path may be many;
# they leave room for the others.
MAX_METRICS = 1500
MAX_NUMBERED = 1000
# Characters of the metrics that a log line lists.
LISTED = 2000


class MetricNames:
    """Collect the metrics of loaded rows, and save those that are new."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._table = warehouse.name_of("metrics")
        self._found: dict[str, set[str]] = {dataset: set() for dataset in DATASETS}

    def add(self, dataset: str, rows: pa.Table) -> None:
        """Collect the metrics of rows that are numbers; for limits, also of texts that are."""
        import pyarrow.compute as pc

        if dataset not in self._found:
            return
        is_number = pc.is_valid(rows["value"])
        if dataset == "statistics":
            # A text such as "2026" may as well be an id or a period.
            is_number = pc.equal(rows["type"], "number")
        self._found[dataset].update(rows.filter(is_number)["metric"].unique().to_pylist())

    def save(self, now: datetime) -> None:
        """Save the metrics that the table does not have yet."""
        import pyarrow as pa

        known: dict[str, set[str]] = {dataset: set() for dataset in DATASETS}
        columns: list[str] = []
        for dataset, metric, column in self._warehouse.store.run(
            f"SELECT dataset, metric, column_name FROM {self._table}"  # noqa: S608
        ):
            known.setdefault(dataset, set()).add(metric)
            if column is not None:
                columns.append(metric)
        records: list[dict[str, Any]] = []
        left_out = []
        numbered = sum(map(is_numbered, columns))
        for dataset, found in self._found.items():
            for metric in sorted(found - known[dataset], key=lambda name: (is_numbered(name), name)):
                record = _record(dataset, metric, now)
                if dataset == "statistics" and "series" not in record:
                    has_room = not is_numbered(metric) or numbered < MAX_NUMBERED
                    if has_room and len(columns) < MAX_METRICS:
                        columns.append(metric)
                        numbered += is_numbered(metric)
                        record["column_name"] = column_of(metric)
                        record["position"] = len(columns)
                    else:
                        left_out.append(metric)
                records.append(record)
        if left_out:
            log.warning(
                "statistics_daily is limited to %s, %d of them with numbers in their path. It leaves out: %s",
                counted(MAX_METRICS, "metric"),
                MAX_NUMBERED,
                escaped(shortened(", ".join(left_out), LISTED)),
            )
        if records:
            table = pa.Table.from_pylist(records, METRICS.schema())
            self._warehouse.store.insert(self._table, table)

    def columns(self) -> dict[str, str]:
        """Return the metrics of ``statistics_daily`` by column, in their order."""
        rows = self._warehouse.store.run(
            f"SELECT column_name, metric FROM {self._table} "  # noqa: S608
            f"WHERE dataset = {literal('statistics')} AND column_name IS NOT NULL ORDER BY position"
        )
        return dict(rows)


def _record(dataset: str, metric: str, now: datetime) -> dict[str, Any]:
    record: dict[str, Any] = {"dataset": dataset, "metric": metric, "loaded_at": now}
    if dataset == "statistics":
        found = dated(metric)
        if found is not None:
            record["series"] = found.series
            record["date"] = found.date
            record["period"] = found.period
            record["series_metric"] = found.metric
    else:
        limit = limit_of(metric)
        if limit is not None:
            record["limit_name"], record["limit_part"] = limit
    return record
