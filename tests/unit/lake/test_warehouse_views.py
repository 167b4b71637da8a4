"""The views of the warehouse, in DuckDB. tests/integration/test_postgres_warehouse.py compares PostgreSQL with them."""

from __future__ import annotations

import itertools
import json
import logging
import random
import shutil
import statistics
from collections import defaultdict
from datetime import UTC, datetime, time, timedelta

import duckdb
import pytest

from airflow_provider_assistant import lake
from airflow_provider_assistant.lake import warehouse
from tests.unit.lake.nights import FIRST, capture, write_rows, write_statistics

SECOND, THIRD = FIRST + timedelta(days=1), FIRST + timedelta(days=2)
# The same site of two tenants and two services, and a tenant that is not known.
SCOPES = [
    {"service": service, "tenant_id": tenant, "site_id": site}
    for service, tenant, site in itertools.product(("a.example", "b.example"), ("acme", None), ("docs", "shop"))
]


@pytest.fixture
def root(tmp_path):
    return tmp_path / "lake"


@pytest.fixture(scope="module")
def empty_database(tmp_path_factory):
    """A warehouse with all tables and views, which take longer than most loads."""
    path = tmp_path_factory.mktemp("empty") / "warehouse.duckdb"
    with warehouse.duckdb_transaction(str(path)) as store:
        warehouse.load(store, str(path.parent), [])
    return path


@pytest.fixture
def database(tmp_path, empty_database):
    return str(shutil.copy(empty_database, tmp_path))


@pytest.fixture
def load(root, database):
    def loaded():
        datasets = [name for name in lake.DATASETS if lake.exported(str(root), name)]
        with warehouse.duckdb_transaction(database) as store:
            return warehouse.load(store, str(root), datasets)

    return loaded


@pytest.fixture
def read(database):
    def rows(what, order="ALL"):
        with duckdb.connect(database, read_only=True) as connection:
            return connection.sql(f"SELECT * FROM assistant.{what} ORDER BY {order}").to_arrow_table().to_pylist()

    return rows


def key_of(row, *names):
    return tuple(row[name] for name in ("service", "tenant_id", "site_id", *names))


def test_views_of_an_empty_warehouse_are_empty(load, read, root):
    write_statistics(root, FIRST)
    load()
    assert {view: read(view) for view in warehouse.VIEWS} == {view: [] for view in warehouse.VIEWS}


# -- statistics ------------------------------------------------------------------------------------


def test_statistics_by_day_are_those_of_the_last_capture(root, load, read):
    captures = [capture(FIRST, {"a": 9, "gone": 1}, hour=1), capture(FIRST, {"a": 2, "text": "t"}, hour=2)]
    write_statistics(root, FIRST, *captures, capture(FIRST, {"a": 3}, "shop"))
    write_statistics(root, SECOND, capture(SECOND, {"new": 4, "a": 5}))
    load()
    found = read("statistics_daily", "date, site_id")
    assert list(found[0]) == ["date", "service", "tenant_id", "site_id", "captured_at", "a", "gone", "new"]
    one, two = captures[0].captured_at, captures[1].captured_at
    assert [tuple(row.values()) for row in found] == [
        (FIRST, "h.example", "acme-inc", "docs", two, 2, None, None),
        (FIRST, "h.example", "acme-inc", "shop", one, 3, None, None),
        (SECOND, "h.example", "acme-inc", "docs", one + timedelta(days=1), 5, None, 4),
    ]


def test_a_column_keeps_its_metric_whatever_is_loaded_when(root, load, read, database):
    """Names in several cases come and go; days are deleted, emptied, backfilled and loaded in any order."""
    dice = random.Random(21)
    names = ["total", "Total", "TOTAL", "chats.Total", "chats.total", "date", "Date", "größe", "GRÖSSE", "a" * 70]
    days = [FIRST + timedelta(days=number) for number in range(12)]
    truth, places = {}, {}
    for _ in range(8):
        for day in dice.sample(days, dice.randrange(2, 6)):
            values = {name: float(dice.randrange(1000)) for name in dice.sample(names, dice.randrange(len(names)))}
            write_statistics(root, day, *([capture(day, values)] if values else []))
            truth[day] = values
        load()
        column_by_metric = {row["metric"]: row["column_name"] for row in read("metrics")}
        daily = {row["date"]: row for row in read("statistics_daily")}
        assert {day for day, values in truth.items() if values} == daily.keys()
        for day, row in daily.items():
            found = {metric: row[column] for metric, column in column_by_metric.items()}
            assert {metric: value for metric, value in found.items() if value is not None} == truth[day]
        columns = list(next(iter(daily.values())))[5:]
        assert set(columns) == set(column_by_metric.values()), "no dead columns"
        # PostgreSQL can only append columns to a view.
        places = places or columns
        assert columns[: len(places)] == places
        places = columns
    assert len(places) == len(names)


def test_a_view_is_replaced_only_when_it_changes(root, load, read, database):
    write_statistics(root, FIRST, capture(FIRST, {"b": 1}))
    load()
    before = read("definitions", "name")
    write_statistics(root, SECOND, capture(SECOND, {"b": 2}))
    load()
    assert read("definitions", "name") == before
    write_statistics(root, SECOND, capture(SECOND, {"c": 2}))
    load()
    changed = [old["name"] for old, new in zip(before, read("definitions", "name"), strict=True) if old != new]
    assert changed == ["statistics_daily"]


def test_ids_and_dates_in_paths_leave_room_for_metrics(root, load, read, caplog, monkeypatch):
    for name, value in (("MAX_METRICS", 40), ("MAX_NUMBERED", 30)):
        monkeypatch.setattr(f"airflow_provider_assistant.lake.warehouse.metric_rows.{name}", value)
    reply = {"by_user": {str(10**6 + number): {"chats": 1} for number in range(50)}, "zz_total": 1}
    reply["hourly"] = [{"at": f"{FIRST}T{hour:02}:00:00Z", "chats": hour} for hour in range(24)]
    reply["daily"] = {str(FIRST - timedelta(days=back)): {"chats": back} for back in range(300)}
    capture_of = lake.Capture(
        datetime.combine(FIRST, time(), UTC), json.dumps(reply), service="s", tenant_id="t", site_id="docs"
    )
    table = lake.metrics_table(lake.STATISTICS, [capture_of], {"hourly": "at"})
    lake.publish(table, str(root), "statistics", FIRST, "dag.task")
    with caplog.at_level(logging.WARNING):
        load()
    columns = list(read("statistics_daily")[0])[5:]
    assert "zz_total" in columns
    assert len(columns) == 31
    assert "leaves out: by_user.1000030.chats" in caplog.text
    history = read("statistics_history")
    assert [row["value"] for row in history if row["series"] == "hourly"] == list(range(24))
    assert {row["date"] for row in history if row["series"] == "hourly"} == {FIRST}
    assert sorted(row["value"] for row in history if row["series"] == "daily") == list(range(300))
    # The next new metric still has a column, and the log does not repeat what is left out.
    caplog.clear()
    write_statistics(root, SECOND, capture(SECOND, {"zz_more": 1, "by_user": reply["by_user"]}))
    with caplog.at_level(logging.WARNING):
        load()
    assert "zz_more" in read("statistics_daily")[0]
    assert "leaves out: by_user" not in caplog.text


def test_days_that_a_reply_lists_are_rows_of_the_history(root, load, read):
    first = {"daily": {"2026-11-12": {"chats": 5}, "2026-11-13": {"chats": 6, "note": "x"}}, "total": 9}
    second = {"daily": {"2026-11-13": {"chats": 7}, "2026-11-14": {"chats": 8}, "2026-13-40": {"chats": 1}}}
    write_statistics(root, FIRST, capture(FIRST, first))
    write_statistics(root, SECOND, capture(SECOND, second), capture(SECOND, second, "shop"))
    load()
    found = [row for row in read("statistics_history", "date, site_id") if row["site_id"] == "docs"]
    names = ["date", "service", "tenant_id", "site_id", "captured_at", "series", "period", "metric", "value"]
    assert list(found[0]) == names
    assert [(row["period"], row["series"], row["metric"], row["value"]) for row in found] == [
        ("2026-11-12", "daily", "chats", 5),
        ("2026-11-13", "daily", "chats", 7),
        ("2026-11-14", "daily", "chats", 8),
    ]
    assert [row["date"].isoformat() for row in found] == [row["period"] for row in found]
    # A path with an invalid month is an ordinary metric.
    assert list(read("statistics_daily")[0])[5:] == ["total", "daily.2026-13-40.chats"]


def test_differences_of_counters(root, load, read):
    """A counter grows; then a gap, a reset, a new period and infinity, which have no difference."""
    replies = {
        0: {"n": 5, "period": "2026"},
        1: {"n": 5, "period": "2026"},
        2: {"n": 9, "period": "2026"},
        4: {"n": 20, "period": "2026"},
        5: {"n": 3, "period": "2026"},
        6: {"n": 4, "period": "2027"},
        7: {"n": 10, "period": "2027"},
    }
    for number, reply in replies.items():
        day = FIRST + timedelta(days=number)
        # The last capture of a day counts.
        write_statistics(root, day, capture(day, {**reply, "n": 1000}, hour=1), capture(day, reply, hour=2))
    load()
    found = [(row["value"], row["value_before"], row["difference"]) for row in read("counters_daily")]
    assert found == [
        (5, None, None), (5, 5, 0), (9, 5, 4), (20, None, None), (3, 20, None), (4, 3, None), (10, 4, 6),
    ]  # fmt: skip


# -- what the ledger recorded ----------------------------------------------------------------------


def at(day, seconds):
    return datetime.combine(day, time(), UTC) + timedelta(seconds=seconds)


@pytest.mark.promise("lake and warehouse", "A request that was rated several times counts once, with its last rating.")
def test_the_last_rating_of_a_request_counts(root, load, read):
    dice = random.Random(4)
    days = [FIRST + timedelta(days=number) for number in range(20)]
    rows, sent = defaultdict(list), {}
    for number in range(600):
        scope = dice.choice(SCOPES)
        day = dice.choice(days)
        rating = {"request_id": f"req_{dice.randrange(40)}", "sent_at": at(day, number), "attempts": 1}
        rating["rating"] = dice.choice(("good", "Good", "bad", " BAD", "größe"))
        rows[day].append({**scope, **rating, "session_id": "s"})
        key = (*key_of(scope), rating["request_id"])
        sent[key] = max(sent.get(key, ()), (rating["sent_at"], rating["rating"].strip().lower(), day))
    for day in days:
        write_rows(root, "feedback", day, rows[day])
    load()
    truth = defaultdict(lambda: defaultdict(int))
    weekly = defaultdict(lambda: defaultdict(int))
    for (*scope, _), (_, word, day) in sent.items():
        column = word if word in ("good", "bad") else "other"
        truth[*scope, day][column] += 1
        weekly[*scope, day - timedelta(days=day.weekday())][column] += 1
    for view, period, expected in (("feedback_daily", "date", truth), ("feedback_weekly", "week", weekly)):
        found = {key_of(row, period): row for row in read(view)}
        assert found.keys() == expected.keys()
        for key, row in found.items():
            counts = [expected[key][word] for word in ("good", "bad", "other")]
            assert [row["good"], row["bad"], row["other"], row["ratings"]] == [*counts, sum(counts)]
            assert row["good_share"] == pytest.approx(counts[0] / sum(counts))
    latest = read("feedback_latest")
    assert len(latest) == len(sent)
    assert sum(row["times_rated"] for row in latest) == 600


def test_latency_by_day_and_week(root, load, read):
    dice = random.Random(9)
    rows = defaultdict(list)
    for number, scope in itertools.product(range(60), SCOPES):
        day = FIRST + timedelta(days=dice.randrange(15))
        state = dice.choice(("complete", "complete", "failed", "open"))
        seconds = dice.expovariate(0.1) if state != "open" else None
        request = {"submitted_at": at(day, number), "state": state, "seconds": seconds, "request_id": str(number)}
        rows[day].append({**scope, **request, "attempts": 1, "is_batch": False})
    for day, requests in rows.items():
        write_rows(root, "requests", day, requests)
    load()
    for view, period in (("latency_daily", "date"), ("latency_weekly", "week")):
        groups = defaultdict(list)
        for day, requests in rows.items():
            start = day if period == "date" else day - timedelta(days=day.weekday())
            for request in requests:
                groups[(*key_of(request), start)].append(request)
        found = {key_of(row, period): row for row in read(view)}
        assert found.keys() == groups.keys()
        for key, row in found.items():
            complete = [request["seconds"] for request in groups[key] if request["state"] == "complete"]
            failed = sum(request["state"] == "failed" for request in groups[key])
            assert (row["requests"], row["complete"], row["failed"]) == (len(groups[key]), len(complete), failed)
            assert row["seconds_max"] == max(complete, default=None)
            if len(complete) > 1:
                p95 = statistics.quantiles(complete, n=20, method="inclusive")[-1]
                assert row["seconds_p95"] == pytest.approx(p95)
            else:
                assert row["seconds_p95"] == (complete[0] if complete else None)


def test_limits_in_the_shapes_of_services(root, load, read):
    shapes = [
        {"limits": {"documents": {"limit": 100, "used": 25, "resets_at": None}}},
        {"data": {"documents_limit": 100, "documents_used": 25}},
        {"max_documents": 100, "documents": {"remaining": 75}},
        {"plan": {"quotas": {"documents": 100}, "usage": {"documents": 25}}},
    ]
    for number, reply in enumerate(shapes):
        day = FIRST + timedelta(days=number)
        rows = [capture(day, {"limits": {"documents": 1}}, hour=0), capture(day, reply, hour=1)]
        lake.publish(lake.metrics_table(lake.LIMITS, rows[1:]), str(root), "limits", day, "dag.task")
    # Limits without the used amount, which the usage has; an unlimited one; one without a limit.
    day = FIRST + timedelta(days=len(shapes))
    limits = capture(day, {"limits": {"documents": {"limit": 100}, "chats": {"limit": 0, "used": 3}}})
    lake.publish(lake.metrics_table(lake.LIMITS, [limits]), str(root), "limits", day, "dag.task")
    usage = lake.Capture(
        limits.captured_at,
        '{"usage": {"documents": 25, "sessions": 4}}',
        service=limits.service,
        tenant_id=limits.tenant_id,
        read="usage",
    )
    lake.publish(lake.metrics_table(lake.READS, [usage]), str(root), "reads", day, "dag.task")
    load()
    found = read("limits_daily", "date, limit_name")
    documents = [row for row in found if row["limit_name"] == "documents"]
    assert len(documents) == len(shapes) + 1
    for row in documents:
        assert [row[name] for name in ("limit_value", "used", "remaining", "share_used")] == [100, 25, 75, 0.25]
    (chats,) = [row for row in found if row["limit_name"] != "documents"]
    assert (chats["limit_name"], chats["used"], chats["share_used"]) == ("chats", 3, None)


def test_documents_by_site(root, load, read):
    shapes = [
        {"documents": {"total": 7, "by_kind": {"qa": 3}}},
        {"documents": 7},
        {"data": {"documents": {"count": 7}, "top": [{"documents": 2}]}},
        {"Documents_Total": 7},
        {"documents": {"by_kind": {"qa": 3}}},
    ]
    for number, reply in enumerate(shapes):
        day = FIRST + timedelta(days=number)
        write_statistics(root, day, capture(day, {"documents": {"total": 99}}, hour=0), capture(day, reply))
    load_of = {"started_at": at(FIRST, 0), "outcome": "succeeded", "endpoint": "documents/qa", "source": "s"}
    load_of |= {"service": "h.example", "tenant_id": "acme-inc", "site_id": "docs", "deleted": 1}
    write_rows(root, "loads", FIRST, [{**load_of, "created": 4}, {**load_of, "created": 2}, load_of])
    load()
    found = read("documents_daily", "date")
    assert [row["documents"] for row in found] == [7, 7, 7, 7, 99]
    assert (found[0]["created"], found[0]["deleted"], found[1]["created"]) == (6, 3, None)


def test_the_last_evaluation_of_a_day(root, load, read):
    rows = []
    for number, scorer in itertools.product(range(3), ("token_f1", "exact")):
        run = {"name": "nightly", "dag_id": "d", "run_id": f"r{number}", "task_id": "t", "path": "p"}
        counts = {"questions": 9, "answered": 9 - number, "coverage": 1.0, "scored": 9, "mean": number / 10}
        rows.append(
            {**SCOPES[0], **run, **counts, "verdict": "passed", "scorer": scorer, "asked_at": at(FIRST, number)}
        )
    write_rows(root, "evaluations", FIRST, rows[::-1])
    load()
    assert [(row["scorer"], row["mean"]) for row in read("evaluations_daily", "scorer")] == [
        ("exact", 0.2),
        ("token_f1", 0.2),
    ]
