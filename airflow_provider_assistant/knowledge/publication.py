"""Whether the owner of a page has published it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, time

from airflow_provider_assistant.knowledge.front_matter import Fields

_YES, _NO = frozenset({"true", "yes", "on", "1", "y"}), frozenset({"false", "no", "off", "0", "n"})
# Names without spaces, - and _, as front matter has them after it was read.
_DRAFT = ("draft", "isdraft")
_PUBLISHED = ("published", "publish", "ispublished")
_STATE = ("status", "visibility")
_STATUS = frozenset({"draft", "hidden", "pending", "private", "unpublished"})
_NOT_LISTED = ("noindex", "seo.noindex", "unlisted")
_LISTED = ("robots.index", "seo.index")
_ROBOTS = ("robots", "googlebot", "seo.robots")
_EXPIRY = ("expirydate", "expirationdate", "expires", "unpublishdate")
_PUBLICATION = ("publishdate", "pubdate", "publishat", "publishon", "published")
_DAY = re.compile(r"(\d{4})[-/](\d\d?)[-/](\d\d?)")


def reason_unpublished(fields: Fields, now: datetime) -> str | None:
    """
    Return why a page is not for readers or not for search engines, for the account; None if it is for both.

    :raises ValueError: The date of its expiry is not a date. The message continues "file 'x' …".
    """
    status = set(_values(fields, _STATE))
    if _has(fields, _DRAFT, _YES) or "draft" in status:
        return "is a draft"
    if _has(fields, _PUBLISHED, _NO) or _has(fields, ("private",), _YES) or status & _STATUS:
        return "is not published"
    if _has(fields, ("hidden",), _YES):
        return "is hidden"
    robots = set(re.split(r"[\s,;]+", " ".join(_values(fields, (*_ROBOTS, *_meta_contents(fields))))))
    is_unlisted = _has(fields, _NOT_LISTED, _YES) or _has(fields, _LISTED, _NO)
    if is_unlisted or robots & {"noindex", "none"}:
        return "asks not to be indexed"
    return _reason_of_time(fields, now)


def _reason_of_time(fields: Fields, now: datetime) -> str | None:
    for text in _values(fields, _EXPIRY):
        expiry = _time(text)
        if expiry is None:
            raise ValueError(f"has the expiry date {text!r}, which is not a date")
        if expiry <= now:
            return "has expired"
    for text in _values(fields, _PUBLICATION):
        publication = _time(text)
        if publication is not None and publication > now:
            return "is to be published later"
    return None


def _meta_contents(fields: Fields) -> Iterator[str]:
    """Yield the paths of contents of a meta tag for robots, as ``{name: robots, content: noindex}`` in a list."""
    for path in fields:
        parent, _, name = path.rpartition(".")
        if name == "name" and "robots" in _values(fields, (path,)):
            yield f"{parent}.content"


def _has(fields: Fields, names: tuple[str, ...], values: frozenset[str]) -> bool:
    return any(value in values for value in _values(fields, names))


def _values(fields: Fields, names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        value = fields.get(name, [])
        texts = [value] if isinstance(value, str) else value
        for text in texts:
            if text.strip():
                yield text.strip().lower()


def _time(text: str) -> datetime | None:
    """Return a date, which begins at midnight, or a time; None for another text."""
    day = _DAY.match(text)
    if not day:
        return None
    year, month, number = map(int, day.groups())
    rest = text[day.end() :].strip().upper().lstrip("T").replace(" ", "")
    try:
        moment = datetime.combine(datetime(year, month, number, tzinfo=UTC), time())
        if rest:
            moment = datetime.fromisoformat(f"{moment:%Y-%m-%d}T{rest}")
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
