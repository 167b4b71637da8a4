"""What tenants, sites and users have and use."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx
import pytest

from airflow_provider_assistant.sandbox import SandboxServer
from airflow_provider_assistant.sandbox.tenants import ACME_READONLY_KEY, GLOBEX_FULL_KEY
from tests.live.clients import local_client

from .clock import Clock
from .conftest import HEADERS

if TYPE_CHECKING:
    from collections.abc import Iterator

TEXT = {"title": "Refunds", "content": "Refunds are paid within 14 days."}
DAY = 86_400


@pytest.fixture
def clock() -> Clock:
    return Clock(datetime(2027, 1, 20, 9, 30, tzinfo=UTC).timestamp())


@pytest.fixture
def timed(clock: Clock) -> Iterator[SandboxServer]:
    with SandboxServer(clock=clock) as server:
        yield server


@pytest.fixture
def api(timed: SandboxServer) -> Iterator[httpx.Client]:
    """A client for the whole API, on a service whose time only a test moves."""
    with local_client(base_url=f"{timed.url}/m2m", headers=HEADERS) as client:
        yield client


def read(api: httpx.Client, path: str, **parameters: Any) -> dict[str, Any]:
    reply = api.get(path, params=parameters)
    assert reply.status_code == 200, reply.text
    return reply.json()


def chat(api: httpx.Client, site: str = "acme-docs", **fields: Any) -> str:
    message = {"session_id": "s", "message": "Are refunds paid?", **fields}
    reply = api.post(f"/sites/{site}/chat", json=message)
    return reply.json()["request_id"]


def test_a_tenant_and_its_site(api: httpx.Client) -> None:
    assert read(api, "/tenants/acme-inc") == {
        "tenant_id": "acme-inc",
        "plan": "business",
        "sites": ["acme-docs", "acme-shop"],
    }
    api.post("/sites/acme-docs/documents/text", json=TEXT)
    chat(api)
    assert read(api, "/sites/acme-docs") == {
        "site_id": "acme-docs",
        "tenant_id": "acme-inc",
        "documents": 1,
        "active_documents": 1,
        "open_sessions": 1,
    }


def test_usage_is_that_of_all_sites_and_of_this_month(timed: SandboxServer, api: httpx.Client, clock: Clock) -> None:
    for site in ("acme-docs", "acme-shop"):
        api.post(f"/sites/{site}/documents/text", json=TEXT)
        chat(api, site)
    timed.service.faults.update(document_status="draft")
    api.post("/sites/acme-docs/documents/text", json={**TEXT, "content": "ä"})
    usage = {"documents": 3, "active_documents": 2, "storage_bytes": 66, "messages": 2}
    assert read(api, "/tenants/acme-inc/usage") == {
        "tenant_id": "acme-inc",
        "period": "2027-01",
        "usage": usage,
    }
    clock.move(12 * DAY)
    later = read(api, "/tenants/acme-inc/usage")
    assert later["period"] == "2027-02"
    assert later["usage"] == {**usage, "messages": 0}
    other = api.get("/tenants/globex/usage", headers={"X-API-Key": GLOBEX_FULL_KEY}).json()
    assert set(other["usage"].values()) == {0}


@pytest.mark.parametrize("in_limits", [True, False])
def test_the_limits_say_how_much_is_used_or_not(timed: SandboxServer, api: httpx.Client, in_limits: bool) -> None:
    timed.service.faults.update(usage_in_limits=in_limits)
    limits = read(api, "/tenants/acme-inc/limits")["limits"]
    assert {name: "used" in limit for name, limit in limits.items()} == {
        "documents": in_limits,
        "messages": in_limits,
        "requests_per_second": in_limits,
    }
    assert limits["documents"]["limit"] == 1_000_000
    assert "resets_at" in limits["requests_per_second"]


@pytest.mark.parametrize("seed", range(4))
def test_the_history_of_usage_adds_up(api: httpx.Client, clock: Clock, seed: int) -> None:
    dice = random.Random(seed)
    first_day = datetime.fromtimestamp(clock(), UTC).date()
    documents: Counter[date] = Counter()
    messages: Counter[date] = Counter()
    sessions: Counter[date] = Counter()
    for days_later in range(6):
        day = first_day + timedelta(days=days_later)
        for _ in range(dice.randint(0, 3)):
            site = dice.choice(["acme-docs", "acme-shop"])
            api.post(f"/sites/{site}/documents/text", json=TEXT)
            documents[day] += 1
        for number in range(dice.randint(0, 3)):
            chat(api, session_id=f"{day} {number}")
            messages[day] += 1
            sessions[day] += 1
        clock.move(DAY)
    today = first_day + timedelta(days=6)

    def expected(day: date) -> dict[str, Any]:
        until_day = [number for created, number in documents.items() if created <= day]
        return {
            "date": day.isoformat(),
            "documents": sum(until_day),
            "messages": messages[day],
            "sessions": sessions[day],
        }

    path = "/tenants/acme-inc/usage/history"
    whole = read(api, path)["days"]
    assert whole == [expected(today - timedelta(days=back)) for back in reversed(range(30))]
    first = first_day + timedelta(days=dice.randint(0, 3))
    last = first + timedelta(days=dice.randint(0, 5))
    chosen = read(api, path, **{"from": first.isoformat(), "to": last.isoformat()})["days"]
    assert chosen == [day for day in whole if first.isoformat() <= day["date"] <= last.isoformat()]
    assert read(api, path, days=2)["days"] == whole[-2:]
    assert read(api, path, to=first.isoformat(), days=1)["days"] == [expected(first)]


def test_the_history_of_usage_is_bounded(api: httpx.Client) -> None:
    path = "/tenants/acme-inc/usage/history"
    assert len(read(api, path, **{"from": "1950-01-01"})["days"]) == 366
    assert len(read(api, path, days=10**9)["days"]) == 366
    assert read(api, path, **{"from": "2027-02-01", "to": "2027-02-09"})["days"] == []
    assert read(api, path, **{"from": "2027-01-09", "to": "2027-01-02"})["days"] == []
    assert read(api, path, to="2400-01-01")["days"][-1]["date"] == "2027-01-20"
    for wrong in ({"from": "yesterday"}, {"to": "2027-13-01"}, {"to": "0"}, {"days": 0}):
        assert api.get(path, params=wrong).status_code == 400


def test_the_statistics_of_a_tenant_are_the_sums_of_its_sites(timed: SandboxServer, api: httpx.Client) -> None:
    timed.service.faults.update(fail_messages="boom")
    dice = random.Random(6)
    for _ in range(20):
        site = dice.choice(["acme-docs", "acme-shop"])
        if dice.random() < 0.3:
            api.post(f"/sites/{site}/documents/text", json=TEXT)
        session_id = dice.choice("abc")
        message = dice.choice(["Are refunds paid?", "Napoleon?", "boom"])
        reply = api.post(f"/sites/{site}/chat", json={"session_id": session_id, "message": message})
        assert reply.is_success is (message != "boom")
        if reply.is_success:
            rating = {
                "session_id": session_id,
                "request_id": reply.json()["request_id"],
                "feedback": dice.choice(["good", "bad"]),
            }
            api.post(f"/sites/{site}/chat/feedback", json=rating)
        if dice.random() < 0.3:
            api.post(f"/sites/{site}/chat/session/close", json={"session_id": session_id})
    tenant = read(api, "/tenants/acme-inc/statistics")
    docs, shop = (read(api, f"/sites/{site}/statistics") for site in ("acme-docs", "acme-shop"))
    for group in ("documents", "sessions"):
        for name, total in tenant[group].items():
            assert total == docs[group][name] + shop[group][name]
    for name, total in tenant["chats"].items():
        assert total == sum(site["chats"][mode][name] for site in (docs, shop) for mode in ("sync", "async"))
    assert tenant["feedback"]["total"] == docs["feedback"]["total"] + shop["feedback"]["total"]
    assert [site["site_id"] for site in tenant["sites"]] == ["acme-docs", "acme-shop"]
    assert sum(site["chats"] for site in tenant["sites"]) == tenant["chats"]["total"] == 20


@pytest.mark.parametrize("kind", ["none", "page", "cursor"])
def test_sessions_are_listed_in_pages(timed: SandboxServer, api: httpx.Client, clock: Clock, kind: str) -> None:
    names = {"cursor": "after", "sessions": "threads"}
    timed.service.faults.update(paging=kind, page_size=2, document_names=names)
    chat(api, session_id="a", email="ann@example.org")
    chat(api, session_id="b")
    clock.move(60)
    api.post("/sites/acme-docs/chat/session/close", json={"session_id": "a"})
    chat(api, session_id="a")
    chat(api, session_id="a")
    chat(api, "acme-shop", session_id="x")
    first = read(api, "/sites/acme-docs/sessions")
    listed = first["sessions"]
    if kind == "page":
        assert (first["total"], first["total_pages"]) == (3, 2)
        listed = [*listed, *read(api, "/sites/acme-docs/sessions", page=2)["sessions"]]
    elif kind == "cursor":
        cursor = first["next_cursor"]
        listed = [*listed, *read(api, "/sites/acme-docs/sessions", cursor=cursor)["sessions"]]
    assert [(one["session_id"], one["status"], one["messages"]) for one in listed] == [
        ("a", "closed", 1),
        ("b", "open", 1),
        ("a", "open", 2),
    ]
    assert [one["email"] for one in listed] == ["ann@example.org", None, "ann@example.org"]
    assert (listed[0]["opened_at"], listed[0]["closed_at"]) == (
        "2027-01-20T09:30:00.000Z",
        "2027-01-20T09:31:00.000Z",
    )


@pytest.mark.parametrize("email", ["ann@example.org", "Bob.B+x@Example.com"])
def test_the_statistics_of_a_user(api: httpx.Client, email: str) -> None:
    api.post("/sites/acme-docs/documents/text", json=TEXT)
    for session_id, message in (("s", "Are refunds paid?"), ("t", "Napoleon?"), ("t", "Elba?")):
        request_id = chat(api, session_id=session_id, message=message, email=email)
        chat(api, session_id=session_id, email="other@example.org")
        body = {"session_id": session_id, "request_id": request_id, "feedback": "good"}
        api.post("/sites/acme-docs/chat/feedback", json=body)
    path = f"/sites/acme-docs/users/{email}/statistics"
    statistics = read(api, path)
    for spelling in (quote(email), email.upper()):
        same_user = read(api, path.replace(email, spelling))
        assert same_user["chats"] == statistics["chats"]
    assert statistics["chats"] == {
        "total": 3,
        "answered": 1,
        "unanswered": 2,
        "failed": 0,
        "pending": 0,
    }
    assert (statistics["email"], statistics["sessions"]) == (email, 2)
    assert statistics["feedback"]["by_rating"] == {"good": 3}
    other_site = path.replace("acme-docs", "acme-shop")
    assert api.get(other_site).json()["error"]["code"] == "user_not_found"


@pytest.mark.parametrize(
    "path",
    ["", "/usage", "/usage/history", "/statistics"],
)
def test_a_tenant_is_read_by_its_own_keys_only(api: httpx.Client, path: str) -> None:
    headers = {"X-API-Key": ACME_READONLY_KEY}
    assert api.get(f"/tenants/acme-inc{path}", headers=headers).status_code == 200
    refused = api.get(f"/tenants/globex{path}", headers=headers)
    assert (refused.status_code, refused.json()["error"]["field"]) == (404, "tenant_id")
