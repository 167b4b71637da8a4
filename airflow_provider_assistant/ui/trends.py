"""The routes of the page that read the lake."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query

from airflow_provider_assistant.lake.limits import LIMIT_WORDS, USED_WORDS
from airflow_provider_assistant.ledger.scopes import SITE_COLUMNS
from airflow_provider_assistant.ui.access import Rights, RightsDep, may_see_pages
from airflow_provider_assistant.ui.lake import evaluations, files_of, tables_of
from airflow_provider_assistant.ui.models import UnavailableError
from airflow_provider_assistant.ui.selected import SelectedSite, SiteDep
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
    site: SiteDep,
    name: Annotated[str | None, Query(max_length=500)] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 30,
) -> Evaluations:
    """Return the last evaluations."""
    try:
        rows = evaluations(rights, limit, name, site.has)
    except UnavailableError as error:
        return Evaluations(problem=error.problem, names=[], rows=[])
    names = {evaluation.name for evaluation in rows}
    return Evaluations(problem=None, names=sorted(names), rows=rows)


@router.get("/statistics")
def statistics(rights: RightsDep, site: SiteDep, metric: MetricQuery = None) -> Statistics:
    """Return trends of statistics and feedback."""
    try:
        metrics = _metrics(rights, site)
        drawn_metrics = [name for name in metric or () if name in metrics]
        if not drawn_metrics:
            drawn_metrics = metrics[:DEFAULT_METRICS]
        series = _series(rights, site, drawn_metrics)
        feedback = _feedback(rights, site)
        gaps = _gaps(rights, "statistics", site.has)
    except UnavailableError as error:
        return Statistics(problem=error.problem, metrics=[], series=[], feedback=[], gaps=[])
    return Statistics(problem=None, metrics=metrics, series=series, feedback=feedback, gaps=gaps)


@router.get("/limits")
def limits(rights: RightsDep, site: SiteDep) -> Limits:
    """Return the latest limits of each tenant, or of that of the selected site."""
    columns = ("service", "tenant_id", "captured_at", "metric", "value", "text")
    # The rows of the latest capture of each tenant, by metric.
    latest_rows: dict[tuple[str, str | None], dict[str, dict[str, Any]]] = {}
    captured_at_by_tenant: dict[tuple[str, str | None], datetime] = {}
    try:
        for row in _rows(rights, "limits", LIMIT_DAYS, columns):
            if not site.has_tenant(row):
                continue
            tenant, captured_at = (row["service"], row["tenant_id"]), row["captured_at"]
            if tenant not in captured_at_by_tenant or captured_at > captured_at_by_tenant[tenant]:
                captured_at_by_tenant[tenant] = captured_at
                latest_rows[tenant] = {}
            if captured_at == captured_at_by_tenant[tenant]:
                latest_rows[tenant].setdefault(row["metric"], row)
        gaps = _gaps(rights, "limits", site.has_tenant)
    except UnavailableError as error:
        return Limits(problem=error.problem, rows=[], gaps=[])
    tenant_limits = []
    for row_by_metric in latest_rows.values():
        for metric in row_by_metric:
            limit = _limit(row_by_metric, metric)
            if limit:
                tenant_limits.append(limit)
    tenant_limits.sort(key=_fullest_first)
    return Limits(problem=None, rows=tenant_limits[:MOST_LIMITS], gaps=gaps)


def _fullest_first(limit: Limit) -> tuple[bool, float, str]:
    """Return the sort key of a limit: the largest share comes first, and unknown shares last."""
    if limit.share is None:
        return True, 0.0, limit.name
    return False, -limit.share, limit.name


def _limit(row_by_metric: Mapping[str, dict[str, Any]], metric: str) -> Limit | None:
    """
    Return the limit that a metric holds, or None if it holds none.

    :param metric: Such as ``limits.documents.limit`` or ``documents_limit``: their last part is the field.
    """
    row = row_by_metric[metric]
    value = row["value"]
    if value is None:
        return None
    for separator in (".", "_"):
        name, found_separator, field = metric.rpartition(separator)
        if not found_separator or field not in LIMIT_WORDS:
            continue
        prefix = name + separator
        used = _first(row_by_metric, prefix, USED_WORDS).get("value")
        share = None
        if used is not None and value > 0:
            share = used / value
        resets_at = _first(row_by_metric, prefix, ("resets_at", "reset_at")).get("text")
        if resets_at == "null":
            resets_at = None
        return Limit(
            tenant_id=row["tenant_id"],
            name=name,
            used=used,
            limit=value,
            share=share,
            resets_at=resets_at,
            captured_at=row["captured_at"],
        )
    return None


def _first(row_by_metric: Mapping[str, dict[str, Any]], prefix: str, fields: Sequence[str]) -> dict[str, Any]:
    """Return the row of the first metric that exists; empty if there is none."""
    for field in fields:
        if prefix + field in row_by_metric:
            return row_by_metric[prefix + field]
    return {}


def _metrics(rights: Rights, site: SelectedSite) -> list[str]:
    """
    Return the numeric metrics of the latest partition, in the order of the reply.

    A metric with a date in its name, such as ``daily.2026-11-14.chats``, is of that day only and has no trend.
    """
    # A dict, because a set does not keep the order.
    metrics: dict[str, None] = {}
    for row in _rows(rights, "statistics", 1, (*SITE_COLUMNS, "metric", "value")):
        if site.has(row) and row["value"] is not None and not DATE.search(row["metric"]):
            metrics[row["metric"]] = None
    return list(metrics)[:MOST_METRICS]


def _series(rights: Rights, site: SelectedSite, metrics: Sequence[str]) -> list[Series]:
    """Return the values of metrics over time: a series per metric and site."""
    import pyarrow as pa
    import pyarrow.compute as pc

    # The row of the latest capture of each day, by metric, service and site.
    row_by_day_of: dict[tuple[str, str, str], dict[date, dict[str, Any]]] = {}
    columns = ("captured_at", *SITE_COLUMNS, "metric", "value")
    for file, table in tables_of(files_of("statistics", DAYS), columns, rights):
        has_metric = pc.is_in(table["metric"], value_set=pa.array(metrics, pa.string()))
        for row in table.filter(has_metric).to_pylist():
            if row["value"] is None or not site.has(row):
                continue
            row_by_day = row_by_day_of.setdefault((row["metric"], row["service"], row["site_id"]), {})
            earlier = row_by_day.get(file.day)
            if earlier is None or earlier["captured_at"] < row["captured_at"]:
                row_by_day[file.day] = row
    sites = sorted({(service, site_id) for _metric, service, site_id in row_by_day_of})
    has_one_service = len({service for service, _ in sites}) < 2
    series = []
    for metric in metrics:
        for service, site_id in sites[:MOST_SITES]:
            row_by_day = row_by_day_of.get((metric, service, site_id), {})
            points = [Point(day=day, value=row_by_day[day]["value"]) for day in sorted(row_by_day)]
            if points:
                label = site_id if has_one_service else f"{site_id} on {service}"
                series.append(Series(name=metric, site_id=label, points=points))
    return series


def _feedback(rights: Rights, site: SelectedSite) -> list[FeedbackDay]:
    """Return the number of answers by rating, for each day."""
    counts_by_day: dict[date, Counter[str]] = {}
    for file, table in tables_of(files_of("feedback", DAYS), (*SITE_COLUMNS, "rating"), rights):
        counts = counts_by_day.setdefault(file.day, Counter())
        counts.update(row["rating"] for row in table.to_pylist() if site.has(row))
    return [FeedbackDay(day=day, ratings=dict(counts_by_day[day])) for day in sorted(counts_by_day)]


def _gaps(rights: Rights, dataset: str, is_selected: Callable[[Mapping[str, Any]], bool]) -> list[date]:
    """Return the days without a capture among the last 30, between the first and the last capture."""
    days = set()
    for file, table in tables_of(files_of(dataset, DAYS), SITE_COLUMNS, rights):
        sites = table.group_by(list(SITE_COLUMNS)).aggregate([]).to_pylist()
        if any(is_selected(site) for site in sites):
            days.add(file.day)
    if not days:
        return []
    last = max(days)
    first = max(min(days), last - timedelta(days=DAYS - 1))
    between = [first + timedelta(days=number) for number in range((last - first).days)]
    return [day for day in between if day not in days]


def _rows(rights: Rights, dataset: str, partitions: int, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows of the latest partitions of a dataset."""
    for _file, table in tables_of(files_of(dataset, partitions), columns, rights):
        yield from table.to_pylist()
