"""The views of the warehouse answer the questions of its owner as the rows do, in both databases."""

from __future__ import annotations

import itertools
import random
import statistics
from collections import defaultdict
from datetime import UTC, datetime, time, timedelta

import pytest

from airflow_provider_assistant.lake.datasets import DATASETS
from airflow_provider_assistant.lake.warehouse import views
from tests.unit.lake.nights import FIRST, asked, load, rating, request, write_nights, write_rows, write_statistics

# The same site of two services.
SITES = [
    {"service": service, "site_id": site} for service, site in itertools.product(("a.example", "b.example"), ("x", "y"))
]


def of(row, *names):
    return tuple(row[name] for name in ("service", "site_id", *names))


def write_days(base, dataset, rows):
    for day, found in rows.items():
        write_rows(base.root, dataset, day, found)


def monday(day):
    return day - timedelta(days=day.weekday())


def test_views_of_an_empty_warehouse_are_empty(base):
    write_statistics(base.root, FIRST, {})
    base.load()
    assert len(views()) == 6
    assert {view: base.rows(view) for view in views()} == {view: [] for view in views()}


@pytest.mark.promise("lake and warehouse", "A request that was rated several times counts once, with its last rating.")
def test_the_last_rating_of_a_request_counts(base):
    dice = random.Random(4)
    rows, sent = defaultdict(list), {}
    for number in range(600):
        day = FIRST + timedelta(days=dice.randrange(20))
        moment = datetime.combine(day, time(), UTC) + timedelta(seconds=number)
        word = dice.choice(("good", "Good", "bad", " BAD", "größe"))
        site = dice.choice(SITES)
        row = rating(day, word) | site | {"request_id": f"r{dice.randrange(40)}", "sent_at": moment}
        rows[day].append(row)
        key = of(row, "request_id")
        sent[key] = max(sent.get(key, ()), (moment, word.strip().lower(), day))
    write_days(base, "feedback", rows)
    base.load()
    truth = defaultdict(lambda: defaultdict(int))
    for (*site, _), (_, word, day) in sent.items():
        truth[*site, day][word if word in ("good", "bad") else "other"] += 1
    found = {of(row, "date"): row for row in base.rows("feedback_daily")}
    assert found.keys() == truth.keys()
    for key, row in found.items():
        counts = [truth[key][word] for word in ("good", "bad", "other")]
        assert [row["good"], row["bad"], row["other"], row["ratings"]] == [*counts, sum(counts)]
        assert row["good_share"] == pytest.approx(counts[0] / sum(counts))
    latest = base.rows("feedback_latest")
    assert len(latest) == len(sent)
    assert sum(row["times_rated"] for row in latest) == 600


def test_latency_by_day(base):
    dice = random.Random(9)
    rows = defaultdict(list)
    for _, site in itertools.product(range(60), SITES):
        day = FIRST + timedelta(days=dice.randrange(15))
        state = dice.choice(("complete", "complete", "failed", "open"))
        rows[day].append(request(day, dice.expovariate(0.1) if state != "open" else None, state) | site)
    write_days(base, "requests", rows)
    base.load()
    groups = defaultdict(list)
    for day, requests in rows.items():
        for one in requests:
            groups[*of(one), day].append(one)
    found = {of(row, "date"): row for row in base.rows("latency_daily")}
    assert found.keys() == groups.keys()
    for key, row in found.items():
        complete = [one["seconds"] for one in groups[key] if one["state"] == "complete"]
        failed = sum(one["state"] == "failed" for one in groups[key])
        assert (row["requests"], row["complete"], row["failed"]) == (len(groups[key]), len(complete), failed)
        assert row["seconds_max"] == max(complete, default=None)
        if len(complete) > 1:
            expected = statistics.quantiles(complete, n=20, method="inclusive")
            assert [row["seconds_p50"], row["seconds_p95"]] == pytest.approx(
                [statistics.median(complete), expected[-1]]
            )


def test_the_answer_rate_counts_each_question_once(base):
    dice = random.Random(2)
    truth = defaultdict(list)
    requests, answers = defaultdict(list), defaultdict(list)
    for number in range(200):
        day, site = FIRST + timedelta(days=dice.randrange(15)), dice.choice(SITES)
        is_answered = dice.random() < 0.8
        ids = {**site, "request_id": f"r{number}"}
        answer = asked(day, f"q{number}", "yes" if is_answered else None) | ids
        where = dice.choice(("ledger", "both", "answers", "not sent"))
        if where in ("ledger", "both"):
            requests[day].append(request(day, 1.0, "complete" if is_answered else "failed") | ids)
        if where in ("both", "answers"):
            answers[day].append(answer if where == "both" else answer | {"request_id": None})
        if where == "not sent":
            answers[day].append(answer | {"status": "not_submitted", "answer": None})
            continue
        truth[*of(ids), monday(day)].append(is_answered)
    write_days(base, "requests", requests)
    write_days(base, "answers", answers)
    base.load()
    found = {of(row, "week"): (row["asked"], row["answered"]) for row in base.rows("answers_weekly")}
    assert found == {key: (len(ends), sum(ends)) for key, ends in truth.items()}
    assert all(row["answer_rate"] == row["answered"] / row["asked"] for row in base.rows("answers_weekly"))


@pytest.mark.promise("lake and warehouse", "Documents over time fall when a load deletes documents.")
def test_documents_are_those_that_the_latest_loads_left(base):
    dice = random.Random(6)
    days = [FIRST + timedelta(days=number) for number in range(12)]
    rows, documents, truth = {}, {}, {}
    for day in days:
        rows[day] = []
        for hour in range(dice.randrange(4)):
            source = dice.choice("abc")
            left = dice.choice((None, dice.randrange(100)))
            rows[day].append(load(day, hour, left, source, created=hour, deleted=1))
            if left is not None:
                documents[source] = left
        if rows[day]:
            deleted = len(rows[day])
            truth[day] = (sum(documents.values()) if documents else None, sum(range(deleted)), deleted)
    write_days(base, "tries", rows)
    # Other tasks have no documents.
    write_rows(base.root, "tries", days[0], [load(days[0], 1, None) | {"task_kind": "evaluate"}], whose="other")
    base.load()
    found = {row["date"]: row for row in base.rows("documents_daily")}
    assert {day: (row["documents"], row["created"], row["deleted"]) for day, row in found.items()} == truth


def test_questions_that_were_rated_bad(base):
    dice = random.Random(8)
    answers, ratings = defaultdict(list), defaultdict(list)
    words = defaultdict(list)
    for number in range(120):
        day, question = FIRST + timedelta(days=number // 12), f"q{dice.randrange(9)}"
        answers[day].append(asked(day, question, f"a{number}") | {"request_id": f"r{number}"})
        word = dice.choice(("good", "bad", None))
        if word:
            moment = datetime.combine(day, time(), UTC) + timedelta(seconds=number)
            ratings[day].append(rating(day, word, request_id=f"r{number}", sent_at=moment))
            words[question].append((word, f"a{number}"))
    # Nobody knows the question of this request.
    ratings[FIRST].append(rating(FIRST, "bad", request_id="unknown"))
    write_days(base, "answers", answers)
    write_days(base, "feedback", ratings)
    base.load()
    truth = {
        question: ([word for word, _ in found].count("bad"), len(found), found[-1][1])
        for question, found in words.items()
        if any(word == "bad" for word, _ in found)
    }
    rows = base.rows("questions_rated_bad")
    assert {row["question"]: (row["bad"], row["ratings"], row["last_answer"]) for row in rows} == truth


@pytest.mark.system
@pytest.mark.promise("lake and warehouse", "DuckDB and PostgreSQL have the same rows and views.")
def test_both_databases_have_the_same_rows(on_duckdb, on_postgres):
    def in_order(rows):
        # Collations differ, and the databases round interpolated values differently.
        return sorted(repr({name: plain(value) for name, value in row.items()}) for row in rows)

    def plain(value):
        if isinstance(value, float):
            return round(value, 9)
        return value.timestamp() if hasattr(value, "timestamp") else value

    write_nights(on_duckdb.root)
    assert on_duckdb.load().rows == on_postgres.load().rows
    for name in (*DATASETS, *views()):
        there, here = on_duckdb.rows(name), on_postgres.rows(name)
        assert list(there[0]) == list(here[0]), name
        assert in_order(there) == in_order(here), name
