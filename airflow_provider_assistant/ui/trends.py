"""The routes of the page that read the lake."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query

from airflow_provider_assistant.loading.limits import LIMIT_FIELDS, USED_FIELDS
from airflow_provider_assistant.ui.access import Rights, RightsDep, may_see_pages
from airflow_provider_assistant.ui.lake import evaluations, files_of, tables_of
from airflow_provider_assistant.ui.models import UnavailableError
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
    except UnavailableError as error:
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
    except UnavailableError as error:
        return Statistics(problem=error.problem, metrics=[], series=[], feedback=[])
    return Statistics(problem=None, metrics=metrics, series=series, feedback=feedback)


@router.get("/limits")
def limits(rights: RightsDep) -> Limits:
    """Return the latest limits of each tenant."""
    columns = ("tenant_id", "captured_at", "metric", "value", "text")
    # The rows of the latest capture of each tenant, by metric.
    latest: dict[str | None, dict[str, dict[str, Any]]] = {}
    captured: dict[str | None, datetime] = {}
    try:
        for row in _rows(rights, "limits", LIMIT_DAYS, columns):
            tenant, moment = row["tenant_id"], row["captured_at"]
            if tenant not in captured or moment > captured[tenant]:
                captured[tenant] = moment
                latest[tenant] = {}
            if moment == captured[tenant]:
                latest[tenant].setdefault(row["metric"], row)
    except UnavailableError as error:
        return Limits(problem=error.problem, rows=[])
    found = []
    for rows in latest.values():
        for metric in rows:
            limit = _limit(rows, metric)
            if limit:
                found.append(limit)
    found.sort(key=lambda limit: (limit.share is None, -(limit.share or 0), limit.name))
    return Limits(problem=None, rows=found[:MOST_LIMITS])


def _limit(rows: Mapping[str, dict[str, Any]], metric: str) -> Limit | None:
    """Return the limit of a metric such as ``limits.documents.limit`` or ``documents_limit``, or None."""
    row = rows[metric]
    for separator in (".", "_"):
        name, found, word = metric.rpartition(separator)
        if found and word in LIMIT_FIELDS and row["value"] is not None:
            used = _first(rows, name + separator, USED_FIELDS).get("value")
            resets_at = _first(rows, name + separator, ("resets_at", "reset_at")).get("text")
            has_share = used is not None and row["value"] > 0
            return Limit(
                tenant_id=row["tenant_id"],
                name=name,
                used=used,
                limit=row["value"],
                share=used / row["value"] if has_share else None,
                resets_at=None if resets_at == "null" else resets_at,
                captured_at=row["captured_at"],
            )
    return None


def _first(rows: Mapping[str, dict[str, Any]], prefix: str, words: Sequence[str]) -> dict[str, Any]:
    """Return the row of the first metric that exists; empty if there is none."""
    for word in words:
        if prefix + word in rows:
            return rows[prefix + word]
    return {}


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

    latest: dict[tuple[str, str], dict[date, dict[str, Any]]] = {}
    columns = ("captured_at", "site_id", "metric", "value")
    for file, table in tables_of(files_of("statistics", DAYS), columns, rights):
        is_drawn = pc.is_in(table["metric"], value_set=pa.array(drawn, pa.string()))
        for row in table.filter(is_drawn).to_pylist():
            if row["value"] is None or site not in {None, row["site_id"]}:
                continue
            days = latest.setdefault((row["metric"], row["site_id"]), {})
            if file.day not in days or days[file.day]["captured_at"] < row["captured_at"]:
                days[file.day] = row
    sites = sorted({site_id for _, site_id in latest})[:MOST_SITES]
    series = []
    for name in drawn:
        for site_id in sites:
            days = latest.get((name, site_id), {})
            points = [Point(day=day, value=row["value"]) for day, row in sorted(days.items())]
            if points:
                series.append(Series(name=name, site_id=site_id, points=points))
    return series


def _feedback(rights: Rights, site: str | None) -> list[FeedbackDay]:
    days: dict[date, Counter[str]] = {}
    for file, table in tables_of(files_of("feedback", DAYS), ("site_id", "rating"), rights):
        rows = zip(table["site_id"].to_pylist(), table["rating"].to_pylist(), strict=True)
        days.setdefault(file.day, Counter()).update(rating for one, rating in rows if site in {None, one})
    return [FeedbackDay(day=day, ratings=dict(days[day])) for day in sorted(days)]


def _rows(rights: Rights, dataset: str, partitions: int, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    for _, table in tables_of(files_of(dataset, partitions), columns, rights):
        yield from table.to_pylist()
