"""Daily statistics of a site: counted from the stored data, generated for earlier days."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.sandbox.statistics import chat_statistics, count_chats, count_feedback

if TYPE_CHECKING:
    from airflow_provider_assistant.sandbox.database import Database
    from airflow_provider_assistant.sandbox.settings import Settings

# Share of a full day's traffic, Monday to Sunday.
_WEEK = (1.0, 0.97, 1.0, 0.95, 0.85, 0.4, 0.33)
_CHATS = {"sync": 12, "async": 130}
_ANSWERED, _FAILED, _RATED, _GOOD = 0.88, 0.01, 0.4, 0.8
# Answers take longer on busy days: by at most this share.
_LOAD = 0.12
# Share of the documents that a full day adds.
_GROWTH = 0.02
_DAY = timedelta(days=1)


def site_history(database: Database, site: str, settings: Settings, now: float) -> dict[str, Any]:
    """Return the statistics of the last days by date, today last.

    Days since the first stored row are counted. Earlier days are generated and depend only on seed, site and date,
    except that their number of documents grows up to the counted one.

    :param now: current time, in seconds since the epoch.
    """
    today = _day(now)
    first = _first_day(database, site) or today
    days: dict[str, dict[str, Any]] = {}
    documents = 0
    for back in range(settings.history):
        day = today - back * _DAY
        if day >= first:
            counted = _counted(database, site, day)
            documents = counted["documents"]["total"]
            days[day.isoformat()] = counted
        else:
            dice = random.Random(f"{settings.seed} {site} {day}")  # noqa: S311 (statistics, not secrets)
            # Subtract the documents that the later day added.
            documents -= round(documents * _GROWTH * _WEEK[(day + _DAY).weekday()] * dice.random())
            days[day.isoformat()] = {
                "generated": True,
                "documents": {"total": documents},
                **_generated(dice, day, settings.processing_seconds),
            }
    return dict(reversed(days.items()))


def _first_day(database: Database, site: str) -> date | None:
    row = database.rows(
        "SELECT min(created_at) FROM (SELECT created_at FROM documents WHERE site = ?"
        " UNION ALL SELECT created_at FROM requests WHERE site = ?)",
        site,
        site,
    )[0]
    return None if row[0] is None else _day(row[0])


def _counted(database: Database, site: str, day: date) -> dict[str, Any]:
    since = datetime.combine(day, time(), UTC).timestamp()
    until = since + _DAY.total_seconds()
    documents = database.rows("SELECT count(*) FROM documents WHERE site = ? AND created_at < ?", site, until)
    return {
        "generated": False,
        "documents": {"total": documents[0][0]},
        "chats": {mode: count_chats(database, site, mode, since, until) for mode in _CHATS},
        "feedback": count_feedback(database, site, since, until),
    }


def _generated(dice: random.Random, day: date, processing_seconds: float) -> dict[str, Any]:
    share = _WEEK[day.weekday()]
    quality = _ANSWERED + dice.uniform(-0.03, 0.03)
    chats = {}
    for mode, usual in _CHATS.items():
        total = round(usual * share * dice.uniform(0.85, 1.15))
        failed = sum(dice.random() < _FAILED for _ in range(total))
        answered = sum(dice.random() < quality for _ in range(total - failed))
        processing = processing_seconds * (1 + _LOAD * share) if mode == "async" else 0.0
        # Latencies are distributed above the minimum.
        durations = [processing + dice.lognormvariate(-3.5, 1) for _ in range(total)]
        chats[mode] = chat_statistics(
            {
                "total": total,
                "answered": answered,
                "unanswered": total - failed - answered,
                "failed": failed,
                "pending": 0,
            },
            durations,
        )
    ratings = round(_RATED * chats["async"]["total"] * dice.uniform(0.85, 1.15))
    good = sum(dice.random() < _GOOD for _ in range(ratings))
    by_rating = {"bad": ratings - good, "good": good}
    return {"chats": chats, "feedback": {"total": ratings, "has_feedback": ratings > 0, "by_rating": by_rating}}


def _day(moment: float) -> date:
    return datetime.fromtimestamp(moment, UTC).date()
