"""The routes of the page that read the lake."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query

from airflow_provider_assistant.loading.limits import LIMIT_FIELDS, USED_FIELDS
from airflow_provider_assistant.ui.access import Rights, RightsDep, may_see_pages
from airflow_provider_assistant.ui.lake import LakeUnavailableError, evaluations, files_of, tables_of
from airflow_provider_assistant.ui.page import SiteQuery
from airflow_provider_assistant.ui.trend_models import (
    Evaluations,
    FeedbackDay,
    Limit,
    Limits,
    Point,
    Series,
    Statistics,
)

router = APIRouter(prefix="/api", dependencies=[Depends(may_see_pages)])

# Partitions of trends, and of the latest limits.
DAYS, LIMIT_DAYS = 30, 3
# Metrics that are listed, drawn by default, and drawn at most; sites that are drawn at most.
MOST_METRICS, DEFAULT_METRICS, MOST_DRAWN, MOST_SITES = 500, 4, 6, 20
MOST_LIMITS = 100
DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}")
MetricQuery = Annotated[list[str] | None, Query(max_length=MOST_DRAWN)]


@router.get("/evaluations")
def last_evaluations(
    rights: RightsDep,
    name: Annotated[str | None, Query(max_length=500)] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 30,
) -> Evaluations:
    """Return the last evaluations."""
    try:
        found = evaluations(rights, limit, name)
    except LakeUnavailableError as error:
        return Evaluations(problem=error.problem, names=[], rows=[])
    return Evaluations(problem=None, names=sorted({one.name for one in found}), rows=found)


@router.get("/statistics")
def statistics(rights: RightsDep, site: SiteQuery = None, metric: MetricQuery = None) -> Statistics:
    """Return trends of statistics and feedback."""
    try:
        metrics = _metrics(rights, site)
        drawn = [name for name in metric or () if name in metrics] or metrics[:DEFAULT_METRICS]
        series = _series(rights, site, drawn)
        feedback = _feedback(rights, site)
    except LakeUnavailableError as error:
        return Statistics(problem=error.problem, metrics=[], series=[], feedback=[])
    return Statistics(problem=None, metrics=metrics, series=series, feedback=feedback)


@router.get("/limits")
def limits(rights: RightsDep) -> Limits:
    """Return the latest limits of each tenant."""
    latest: dict[tuple[str | None, str], dict[str, Any]] = {}
    captured: dict[str | None, datetime] = {}
    try:
        for row in _rows(rights, "limits", LIMIT_DAYS, ("tenant_id", "captured_at", "metric", "value", "text")):
            tenant, moment = row["tenant_id"], row["captured_at"]
            if moment > captured.setdefault(tenant, moment):
                captured[tenant] = moment
            if (known := latest.get((tenant, row["metric"]))) is None or moment > known["captured_at"]:
                latest[tenant, row["metric"]] = row
    except LakeUnavailableError as error:
        return Limits(problem=error.problem, rows=[])
    current = {key: row for key, row in latest.items() if row["captured_at"] == captured[key[0]]}
    found = [limit for key in current if (limit := _limit(current, *key))]
    found.sort(key=lambda one: (-(one.share if one.share is not None else -1.0), one.name))
    return Limits(problem=None, rows=found[:MOST_LIMITS])


def _limit(rows: dict[tuple[str | None, str], dict[str, Any]], tenant: str | None, metric: str) -> Limit | None:
    """Return the limit of a metric such as ``limits.documents.limit`` or ``documents_limit``, or None."""
    row = rows[tenant, metric]
    for separator in (".", "_"):
        name, found, word = metric.rpartition(separator)
        if found and word in LIMIT_FIELDS and row["value"] is not None:
            used = _first(rows, tenant, name, separator, USED_FIELDS)
            resets = _first(rows, tenant, name, separator, ("resets_at", "reset_at"))
            amount = used["value"] if used else None
            return Limit(
                tenant_id=tenant,
                name=name,
                used=amount,
                limit=row["value"],
                share=amount / row["value"] if amount is not None and row["value"] > 0 else None,
                resets_at=resets["text"] if resets and resets["text"] != "null" else None,
                captured_at=row["captured_at"],
            )
    return None


def _first(
    rows: dict[tuple[str | None, str], dict[str, Any]],
    tenant: str | None,
    name: str,
    separator: str,
    words: Sequence[str],
) -> dict[str, Any] | None:
    return next((rows[key] for word in words if (key := (tenant, f"{name}{separator}{word}")) in rows), None)


def _metrics(rights: Rights, site: str | None) -> list[str]:
    """
    Return the numeric metrics of the latest partition, in the order of the reply.

    A metric with a date in its name, such as ``daily.2026-11-14.chats``, is of that day only and has no trend.
    """
    found: dict[str, None] = {}
    for row in _rows(rights, "statistics", 1, ("site_id", "metric", "value")):
        if row["value"] is not None and site in {None, row["site_id"]} and not DATE.search(row["metric"]):
            found[row["metric"]] = None
    return list(found)[:MOST_METRICS]


def _series(rights: Rights, site: str | None, drawn: Sequence[str]) -> list[Series]:
    import pyarrow as pa
    import pyarrow.compute as pc

    latest: dict[tuple[str, str], dict[date, tuple[datetime, float]]] = {}
    columns = ("captured_at", "site_id", "metric", "value")
    for file, table in tables_of(files_of("statistics", DAYS), columns, rights):
        is_drawn = pc.is_in(table["metric"], value_set=pa.array(drawn, pa.string()))
        for row in table.filter(is_drawn).to_pylist():
            if row["value"] is None or site not in {None, row["site_id"]}:
                continue
            known = latest.setdefault((row["metric"], row["site_id"]), {})
            if file.day not in known or known[file.day][0] < row["captured_at"]:
                known[file.day] = (row["captured_at"], row["value"])
    sites = sorted({site_id for _, site_id in latest})[:MOST_SITES]
    return [
        Series(name=name, site_id=site_id, points=[Point(day=day, value=days[day][1]) for day in sorted(days)])
        for name in drawn
        for site_id in sites
        if (days := latest.get((name, site_id)))
    ]


def _feedback(rights: Rights, site: str | None) -> list[FeedbackDay]:
    days: dict[date, Counter[str]] = {}
    for file, table in tables_of(files_of("feedback", DAYS), ("site_id", "rating"), rights):
        rows = zip(table["site_id"].to_pylist(), table["rating"].to_pylist(), strict=True)
        days.setdefault(file.day, Counter()).update(rating for one, rating in rows if site in {None, one})
    return [FeedbackDay(day=day, ratings=dict(days[day])) for day in sorted(days)]


def _rows(rights: Rights, dataset: str, partitions: int, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    for _, table in tables_of(files_of(dataset, partitions), columns, rights):
        yield from table.to_pylist()
