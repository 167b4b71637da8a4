"""The routes that read what tenants, sites and users have and use, counted from what is stored."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

from airflow_provider_assistant.sandbox.chats import ended_if_due
from airflow_provider_assistant.sandbox.messages import ApiError, Reply, json_reply
from airflow_provider_assistant.sandbox.routes import Call, route, time_text
from airflow_provider_assistant.sandbox.store import Chat, Document, Session

_TENANT, _SITE = "/m2m/tenants/{tenant_id}", "/m2m/sites/{site_id}"


@route("GET", _TENANT)
def _get_tenant(call: Call) -> Reply:
    return json_reply({"tenant_id": call.scope, "plan": "business", "sites": call.key.sites})


@route("GET", f"{_TENANT}/limits")
def _get_limits(call: Call) -> Reply:
    used = call.store.count_documents(*call.key.sites)
    limits: dict[str, Any] = {"documents": {"limit": call.settings.max_documents, "used": used}}
    if call.settings.rate_limit is not None:
        limits["requests_per_second"] = {"limit": call.settings.rate_limit}
    return json_reply({"tenant_id": call.scope, "plan": "business", "limits": limits})


@route("GET", f"{_TENANT}/usage")
def _get_usage(call: Call) -> Reply:
    return json_reply({"tenant_id": call.scope, "usage": _usage(call, *call.key.sites)})


@route("GET", f"{_TENANT}/usage/history")
def _get_usage_history(call: Call) -> Reply:
    days = call.request.query.get("days", "30")
    if not days.isdecimal() or not 1 <= int(days) <= 366:
        raise ApiError(400, "days must be a number from 1 to 366")
    sites = call.key.sites
    created = Counter(_day(one.created_at) for one in call.store.all(Document, *sites))
    messages = Counter(_day(one.created_at) for one in call.store.all(Chat, *sites))
    sessions = Counter(_day(one.opened_at) for one in call.store.all(Session, *sites))
    history = []
    for back in reversed(range(int(days))):
        day = _day(call.now - timedelta(days=back).total_seconds())
        documents = sum(number for created_on, number in created.items() if created_on <= day)
        history.append({"date": day, "documents": documents, "messages": messages[day], "sessions": sessions[day]})
    return json_reply({"tenant_id": call.scope, "days": history})


@route("GET", f"{_TENANT}/statistics")
def _get_tenant_statistics(call: Call) -> Reply:
    return json_reply({"tenant_id": call.scope, **_statistics(call, *call.key.sites)})


@route("GET", f"{_SITE}/statistics")
def _get_statistics(call: Call) -> Reply:
    return json_reply({"site_id": call.scope, **_statistics(call, call.scope)})


@route("GET", _SITE)
def _get_site(call: Call) -> Reply:
    return json_reply({"site_id": call.scope, "tenant_id": call.key.tenant, **_usage(call, call.scope)})


@route("GET", f"{_SITE}/sessions")
def _get_sessions(call: Call) -> Reply:
    sessions, fields = call.page(call.store.all(Session, call.scope))
    chats = call.store.all(Chat, call.scope)
    messages = Counter(one.session_id for one in chats)
    emails = {one.session_id: one.email for one in chats if one.email}
    described = [
        {
            "session_id": one.id,
            "status": "open" if one.closed_at is None else "closed",
            "email": emails.get(one.id),
            "messages": messages[one.id],
            "opened_at": time_text(one.opened_at),
            "closed_at": time_text(one.closed_at),
        }
        for one in sessions
    ]
    return json_reply({"sessions": described, **fields})


@route("GET", f"{_SITE}/users/{{email}}/statistics")
def _get_user_statistics(call: Call) -> Reply:
    email = call.item.lower()
    chats = [one for one in call.store.all(Chat, call.scope) if (one.email or "").lower() == email]
    if not chats:
        raise ApiError(404, "user not found")
    sessions = len({one.session_id for one in chats})
    return json_reply({"site_id": call.scope, "email": call.item, "sessions": sessions, "chats": _chats(chats)})


def _day(moment: float) -> str:
    return str(time_text(moment))[:10]


def _usage(call: Call, *sites: str) -> dict[str, int]:
    documents = call.store.all(Document, *sites)
    return {
        "documents": len(documents),
        "active_documents": sum(one.activated_at is not None for one in documents),
        "storage_bytes": sum(one.bytes for one in documents),
        "messages": len(call.store.all(Chat, *sites)),
    }


def _statistics(call: Call, *sites: str) -> dict[str, Any]:
    documents = call.store.all(Document, *sites)
    chats = [ended_if_due(call, one) for one in call.store.all(Chat, *sites)]
    closed = sum(one.closed_at is not None for one in call.store.all(Session, *sites))
    ratings = Counter(one.rating for one in chats if one.rating)
    return {
        "generated_at": time_text(call.now),
        "documents": {
            "total": len(documents),
            "by_kind": {kind: sum(one.kind == kind for one in documents) for kind in ("file", "text", "qa")},
            "bytes": sum(one.bytes for one in documents),
        },
        "chats": {mode: _chats([one for one in chats if one.mode == mode]) for mode in ("sync", "async")},
        "sessions": {"open": len(call.store.all(Session, *sites)) - closed, "closed": closed},
        "feedback": {"total": ratings.total(), "has_feedback": ratings.total() > 0, "by_rating": ratings},
    }


def _chats(chats: list[Chat]) -> dict[str, Any]:
    answered = sum(one.document is not None for one in chats)
    completed = sum(one.answer is not None for one in chats)
    ended = sum(one.ended_at is not None for one in chats)
    return {
        "total": len(chats),
        "answered": answered,
        "unanswered": completed - answered,
        "failed": ended - completed,
        "pending": len(chats) - ended,
        "answer_rate": round(answered / completed, 4) if completed else None,
    }
