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
_SHARE_BY_WEEKDAY = (1.0, 0.97, 1.0, 0.95, 0.85, 0.4, 0.33)
# Chats of a full day.
_CHATS_BY_MODE = {"sync": 12, "async": 130}
# Of the chats, the share that is answered, and the share that fails.
_ANSWERED, _FAILED = 0.88, 0.01
# The share of the async chats that is rated, and of the ratings, the share that is good.
_RATED, _GOOD = 0.4, 0.8
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
    first_stored = _first_day(database, site) or today
    statistics_by_day: dict[str, dict[str, Any]] = {}
    document_count = 0
    # From today backwards: the documents of a generated day depend on those of the day after it.
    for days_back in range(settings.history):
        day = today - days_back * _DAY
        if day >= first_stored:
            statistics = _counted(database, site, day)
            document_count = statistics["documents"]["total"]
        else:
            dice = random.Random(f"{settings.seed} {site} {day}")  # noqa: S311 (not for secrets)
            # Subtract the documents that the later day added.
            later_share = _SHARE_BY_WEEKDAY[(day + _DAY).weekday()]
            document_count -= round(document_count * _GROWTH * later_share * dice.random())
            statistics = {
                "generated": True,
                "documents": {"total": document_count},
                **_generated(dice, day, settings.processing_seconds),
            }
        statistics_by_day[day.isoformat()] = statistics
    return dict(reversed(statistics_by_day.items()))


def _first_day(database: Database, site: str) -> date | None:
    row = database.rows(
        "SELECT min(created_at) FROM (SELECT created_at FROM documents WHERE site = ?"
        " UNION ALL SELECT created_at FROM requests WHERE site = ?)",
        site,
        site,
    )[0]
    first_moment = row[0]
    if first_moment is None:
        return None
    return _day(first_moment)


def _counted(database: Database, site: str, day: date) -> dict[str, Any]:
    since = datetime.combine(day, time(), UTC).timestamp()
    until = since + _DAY.total_seconds()
    row = database.rows(
        "SELECT count(*) AS total FROM documents WHERE site = ? AND created_at < ?",
        site,
        until,
    )[0]
    return {
        "generated": False,
        "documents": {"total": row["total"]},
        "chats": {mode: count_chats(database, site, mode, since, until) for mode in _CHATS_BY_MODE},
        "feedback": count_feedback(database, site, since, until),
    }


def _generated(dice: random.Random, day: date, processing_seconds: float) -> dict[str, Any]:
    traffic = _SHARE_BY_WEEKDAY[day.weekday()]
    answered_share = _ANSWERED + dice.uniform(-0.03, 0.03)
    chats = {}
    for mode, full_day in _CHATS_BY_MODE.items():
        total = round(full_day * traffic * dice.uniform(0.85, 1.15))
        failed = _count_successes(dice, _FAILED, total)
        answered = _count_successes(dice, answered_share, total - failed)
        shortest = 0.0
        if mode == "async":
            shortest = processing_seconds * (1 + _LOAD * traffic)
        durations = [shortest + dice.lognormvariate(-3.5, 1) for _ in range(total)]
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
    rated = round(_RATED * chats["async"]["total"] * dice.uniform(0.85, 1.15))
    good = _count_successes(dice, _GOOD, rated)
    feedback = {
        "total": rated,
        "has_feedback": rated > 0,
        "by_rating": {"bad": rated - good, "good": good},
    }
    return {"chats": chats, "feedback": feedback}


def _count_successes(dice: random.Random, probability: float, attempts: int) -> int:
    return sum(dice.random() < probability for _ in range(attempts))


def _day(moment: float) -> date:
    return datetime.fromtimestamp(moment, UTC).date()
