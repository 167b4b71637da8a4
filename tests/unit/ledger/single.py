"""Single chat requests and ratings, recorded as the operators do it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from airflow_provider_assistant.api.call import CallInfo
from airflow_provider_assistant.api.replies import ApiReply, SubmittedChat
from airflow_provider_assistant.ledger import (
    ChatScope,
    Claim,
    Ledger,
    LedgerEntry,
    RatingScope,
    RunRef,
    ScopeLedger,
    rating_claim,
    rating_key,
    send_once,
)
from tests.sites import site_at

RUN = RunRef("dag", "run", "task", -1)
SITE_URL = "https://h/api/v1/m2m/sites/docs"
Send = Callable[[], ApiReply]


def accepted(request_id: str = "req-1") -> SubmittedChat:
    """Return the reply to a chat that the service has accepted."""
    return SubmittedChat({}, CallInfo(status=202, attempts=1, seconds=0.1), request_id)


def acknowledged() -> ApiReply:
    """Return the reply to a rating."""
    return ApiReply(None, CallInfo(status=200, attempts=1, seconds=0.1))


def chats(ledger: Ledger, *, site_url: str = SITE_URL, site_id: str = "docs", run: RunRef = RUN):
    """Open the ledger of the single chat requests of a site."""
    return ledger.chat_requests(scope=ChatScope(site_at(site_url, site_id)), run=run)


def rated(ledger: Ledger, *, site_url: str = SITE_URL, site_id: str = "docs", run: RunRef = RUN):
    """Open the ledger of the ratings of a site."""
    return ledger.ratings(scope=RatingScope(site_at(site_url, site_id)), run=run)


def chat_claim(opened: ScopeLedger, key: str = "k", session_id: str = "s") -> Claim:
    """Return the claim of a single chat."""
    return Claim(key, session_id, opened.entries([key]).get(key), details=(session_id,))


def submit(
    ledger: Ledger, send: Send = accepted, *, key: str = "k", session_id: str = "s", **names: Any
) -> tuple[Any, bool]:
    """Submit a chat unless it was submitted; return its entry, and whether it was submitted now."""
    with chats(ledger, **names) as opened:
        claim = chat_claim(opened, key, session_id)
        is_sent = not is_created(claim.entry)
        if is_sent:
            send_once(opened, claim, send)
        return opened.find(key), is_sent


def rate(
    ledger: Ledger,
    rating: str = "good",
    send: Send = acknowledged,
    *,
    session_id: str = "s",
    request_id: str = "req-1",
    **names: Any,
) -> tuple[Any, bool]:
    """Send a rating unless it was sent; return its entry, and whether it was sent now."""
    key = rating_key(session_id, request_id, rating)
    with rated(ledger, **names) as opened:
        entry = opened.entries([key]).get(key)
        is_sent = not is_created(entry)
        if is_sent:
            send_once(opened, rating_claim(session_id, request_id, rating, entry), send)
        return opened.find(key), is_sent


def claim_chat(ledger: Ledger, key: str = "k", session_id: str = "s", **names: Any) -> None:
    """Leave a claim of a killed task."""
    with chats(ledger, **names) as opened:
        assert opened.commit_and_claim((), [chat_claim(opened, key, session_id)]) == {key}


def claim_rating(ledger: Ledger, parts: Sequence[str] = ("s", "req-1", "good"), **names: Any) -> str:
    """Leave a claim of a killed task, and return its key."""
    key = rating_key(*parts)
    with rated(ledger, **names) as opened:
        assert opened.commit_and_claim((), [rating_claim(*parts, opened.entries([key]).get(key))]) == {key}
    return key


def is_created(entry: LedgerEntry | None) -> bool:
    """Return whether the service has accepted it."""
    return entry is not None and entry.state == "created"
