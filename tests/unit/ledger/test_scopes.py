"""Two services, or two tenants of one, whose sites have the same id are told apart."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from airflow_provider_assistant.ledger import (
    ChatScope,
    DocumentScope,
    RatingScope,
    RunRef,
    rating_claim,
    send_once,
    service_of,
)
from airflow_provider_assistant.ledger.export_queries import feedback_between, requests_between
from airflow_provider_assistant.ledger.load_queries import loads_between
from tests.unit.ledger.single import accepted, acknowledged, chat_claim

RUN = RunRef("dag", "run", "task", -1)
LIVE, STAGING = "https://live.example/api/v1/m2m/sites/docs", "https://staging.example/api/v1/m2m/sites/docs"
OWNERS = [
    (LIVE, {"tenant_id": "acme"}, ("live.example", "acme", "docs")),
    (LIVE, {"tenant_id": "other"}, ("live.example", "other", "docs")),
    (LIVE, {}, ("live.example", None, "docs")),
    (STAGING, {"tenant_id": "acme"}, ("staging.example", "acme", "docs")),
    (STAGING, {"service": "assistant", "tenant_id": "acme"}, ("assistant", "acme", "docs")),
]


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://assistant.example.com/api/v1", "assistant.example.com"),
        ("https://assistant.example.com/api/v1/m2m/sites/docs", "assistant.example.com"),
        ("https://Assistant.Example.com:443/api/v2", "assistant.example.com"),
        ("http://assistant.example.com.:80/api/v1", "assistant.example.com"),
        ("http://127.0.0.1:8080/api/v1/m2m/sites/api%2Fv1", "127.0.0.1:8080"),
        ("https://[::1]:8443/api/v1", "[::1]:8443"),
        ("https://gateway.example/shop/api/v1/m2m/sites/docs", "gateway.example/shop"),
        ("https://gateway.example/api/v1/help/api/v1/m2m/sites/docs", "gateway.example/api/v1/help"),
    ],
)
def test_a_service_without_a_name_has_that_of_its_address(url, name):
    assert service_of(url) == name


def test_sites_of_the_same_id_are_told_apart(ledger):
    for number, (url, owner, _) in enumerate(OWNERS):
        request_id, key = f"request-{number}", f"key-{number}"
        with ledger.chat_requests(scope=ChatScope(url, **owner), site_id="docs", run=RUN) as opened:
            send_once(opened, chat_claim(opened, key), lambda request_id=request_id: accepted(request_id))
        with ledger.ratings(scope=RatingScope(url, **owner), site_id="docs", run=RUN) as opened:
            send_once(opened, rating_claim("session", request_id, "good", None), acknowledged)
        with ledger.load(scope=DocumentScope(url, "documents/qa", **owner), site_id="docs", source="kb", run=RUN):
            pass
    now = datetime.now(UTC)
    day = (now - timedelta(days=10_000), now + timedelta(days=10_000))
    for query in (requests_between, feedback_between, loads_between):
        rows = ledger.read(query, *day)
        found = [(row["service"], row["tenant_id"], row["site_id"]) for row in rows]
        assert sorted(map(str, found)) == sorted(str(expected) for *_, expected in OWNERS), query.__name__
    rated = {row["request_id"]: row["tenant_id"] for row in ledger.read(feedback_between, *day)}
    assert rated["request-1"] == "other"
