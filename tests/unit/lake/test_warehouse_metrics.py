"""The meaning of the paths of metrics: columns, days and limits."""

from __future__ import annotations

import itertools
import random
from datetime import UTC, date, datetime, timedelta

import pytest

from airflow_provider_assistant.lake.limits import limit_of
from airflow_provider_assistant.lake.warehouse.metrics import (
    KEYS,
    NAME_BYTES,
    column_of,
    dated,
    is_numbered,
)

PLAIN = ["total", "chats.async.latency_ms.p95", "größe", "answered%", 'say "it\'s"', "top.0.n", "日本語"]


def test_every_metric_has_a_column_of_its_own_in_both_databases():
    dice = random.Random(7)
    names = [*PLAIN, *KEYS, *(key.upper() for key in KEYS), "ä" * NAME_BYTES, "ä" * NAME_BYTES + "x"]
    for name in ("total", "avglatency", "ß", "straße", "İi"):
        names += ["".join(dice.choice((str.upper, str.lower))(letter) for letter in name) for _ in range(40)]
    names += [f"{dice.choice(PLAIN)}.{'x' * dice.randrange(80)}{dice.randrange(10**6)}" for _ in range(500)]
    # The column of a metric may be the name of another one.
    names += [column_of(name) for name in names] + [column_of(name).lower() for name in names]
    names = sorted(set(names))
    columns = [column_of(name) for name in names]
    # DuckDB ignores case, PostgreSQL truncates.
    assert len({column.lower() for column in columns} | set(KEYS)) == len(names) + len(KEYS)
    assert max(len(column.encode()) for column in columns) == NAME_BYTES
    assert [column_of(name) for name in PLAIN] == PLAIN


def spellings(day: date) -> dict[str, date]:
    """Return ways to write a day, a time, a week or a month, with the first day that each means."""
    year, week, weekday = day.isocalendar()
    monday = day - timedelta(days=weekday - 1)
    moment = datetime(day.year, day.month, day.day, 13, 5, 9, tzinfo=UTC)
    seconds = int(moment.timestamp())
    texts = {f"{day:{form}}": day for form in ("%Y-%m-%d", "%Y%m%d", "%Y/%m/%d", "%Y_%m_%d", "%Y.%m.%d", "%Y-%j")}
    times = ("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H", "%Y%m%dT%H%M%SZ", "%Y-%m-%dT%H:%M", "%Y%m%d%H")
    texts |= {f"{moment:{form}}": day for form in times}
    texts |= {f"{day}T13:05:09.250Z": day, f"{day}T13:05:09+05:30": day, f"{day}T13:05:09.000000+00:00": day}
    texts |= {f"{day}/{day + timedelta(days=6)}": day, f"{day}#2": day, str(seconds): day, f"{seconds}000": day}
    texts |= {f"{year}-W{week:02}": monday, f"{year}W{week:02}": monday, f"{year}-w{week:02}-{weekday}": day}
    texts |= {f"{day:{form}}": day.replace(day=1) for form in ("%Y-%m", "%Y%m", "%Y.%m", "%Y/%m")}
    quarter = (day.month + 2) // 3
    return texts | {f"{day.year}-Q{quarter}": date(day.year, 3 * quarter - 2, 1)}


def test_a_period_is_found_wherever_it_is_in_the_path():
    dice = random.Random(8)
    for _ in range(20):
        day = date(2016, 1, 1) + timedelta(days=dice.randrange(5000))
        for period, first in spellings(day).items():
            for before, after in itertools.product(("", "daily", "chats.by_day"), ("", "documents.total")):
                path = ".".join(name for name in (before, period, after) if name)
                found = dated(path)
                assert found is not None, path
                assert (found.date, found.period) == (first, period), path
                assert (found.series, found.metric) == (before or "$", after or "$"), path
    nested = dated("months.2026-11.days.2026-11-21.chats")
    assert nested is not None
    assert (nested.series, nested.period, nested.metric) == ("months.*.days", "2026-11-21", "chats")


@pytest.mark.parametrize(
    "metric",
    [
        *PLAIN,
        "tokens.gpt-4o-2024-08-06.total",
        "tokens.claude-20250514.total",
        "daily.2026-02-30.chats",
        "daily.2026-13.chats",
        "weekly.2026-W54.chats",
        "daily.2026-366.chats",
        "by_hour.13:00.chats",
        "errors.404",
        "years.2026",
        "sites.12345678",
        "phones.4915112345678",
        "ids.99999999999999999999",
        "\u0662\u0660\u0662\u0666-\u0661\u0661-\u0662\u0661",
        "",
        "..",
    ],
)
def test_other_paths_have_no_period(metric):
    assert dated(metric) is None


def test_ids_are_told_from_names():
    assert [name for name in ("a.p95", "a.0.b", "a.1234", "u.a1b2c3d4.n", "x.2026-02-30") if is_numbered(name)] == [
        "a.1234",
        "u.a1b2c3d4.n",
        "x.2026-02-30",
    ]


@pytest.mark.parametrize(
    ("metric", "limit"),
    {
        "limits.documents.limit": ("documents", "limit"),
        "limits.documents.used": ("documents", "used"),
        "documents.remaining": ("documents", "remaining"),
        "documents_limit": ("documents", "limit"),
        "max_documents": ("documents", "limit"),
        "data.limits.active_documents": ("active_documents", "limit"),
        "usage.documents": ("documents", "used"),
        "plan.quota.messages.count": ("messages", "used"),
        "limits.max_documents": ("documents", "limit"),
        "limits.requests_per_second.limit": ("requests_per_second", "limit"),
        "plan": None,
        "sites.0": None,
        "usage": None,
        "limits": None,
        "capabilities.write": None,
        "documents.by_kind.qa": None,
    }.items(),
)
def test_parts_of_limits(metric, limit):
    assert limit_of(metric) == limit
