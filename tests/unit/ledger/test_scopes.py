"""A site is a service, a tenant and an id: the address of the service may change, and identifies nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from airflow_provider_assistant.ledger import (
    ChatScope,
    Claim,
    ClaimOutcome,
    DocumentScope,
    RatingScope,
    RunRef,
    Site,
    find_request,
    rating_claim,
    rating_key,
    send_once,
    service_of,
)
from airflow_provider_assistant.ledger.export_queries import feedback_between, requests_between
from airflow_provider_assistant.ledger.known_documents import known_documents
from airflow_provider_assistant.ledger.load_queries import loads_between
from airflow_provider_assistant.ledger.site_queries import known_ids, site_entries
from tests.unit.ledger.single import accepted, acknowledged, chat_claim

RUN = RunRef("dag", "run", "task", -1)
LIVE, STAGING = "https://live.example/api/v1/m2m/sites/docs", "https://staging.example/api/v1/m2m/sites/docs"
# Sites that differ in one part of their identity, and parts that would be equal if they were only joined.
SITES = [
    Site("live.example", "acme", "docs", LIVE),
    Site("live.example", "other", "docs", LIVE),
    Site("live.example", None, "docs", LIVE),
    Site("live.example", "", "docs", LIVE),
    Site("live.example", "null", "docs", LIVE),
    Site("live.example", "acme", "help", LIVE),
    Site("staging.example", "acme", "docs", STAGING),
    Site("assistant", "acme", "docs", STAGING),
    Site('a", "b', "c", "docs", LIVE),
    Site("a", 'b", "c', "docs", LIVE),
    Site("live.example/acme", "docs", "docs", LIVE),
    Site("Dienst Ä %", "acme", "_", LIVE),
]
SPELLINGS = {
    "assistant.example.com": [
        "https://assistant.example.com/api/v1",
        "https://assistant.example.com/api/v1/m2m/sites/docs",
        "https://Assistant.Example.com:443/api/v2",
        "http://assistant.example.com.:80/api/v1",
        "HTTP://ASSISTANT.EXAMPLE.COM/",
        "https://assistant%2Eexample.com:/api/v1/",
        "https://ass%69stant.example.com",
        "https://assistant\u3002example\uff0ecom/api/v1",
        "https://\uff41ssistant.example.com/api/v1",
    ],
    "127.0.0.1:8080": [
        "http://127.0.0.1:8080/api/v1/m2m/sites/api%2Fv1",
        "http://127.1:8080/api/v1",
        "http://2130706433:8080/api/v1",
        "http://0x7f.1:8080/api/v1",
        "http://0X7F000001:8080/api/v1",
        "http://0177.0.0.1:8080/api/v1",
        "http://127.0.0.1.:8080/api/v1",
        "http://[::ffff:127.0.0.1]:8080/api/v1",
        "http://[::ffff:7f00:1]:8080/api/v1",
    ],
    "[::1]:8443": ["https://[::1]:8443/api/v1", "https://[0:0:0:0:0:0:0:1]:8443", "https://[0::0001]:8443/"],
    "[2001:db8::a]": ["https://[2001:DB8::A]/api/v1", "http://[2001:0db8:0:0::000a]:80/api/v1"],
    "xn--bcher-kva.example": [
        "https://bücher.example/api/v1",
        "https://BÜCHER.example:443/api/v1",
        "https://B\u0055\u0308CHER.example",
        "https://xn--bcher-kva.example/api/v1",
        "https://XN--BCHER-KVA.example./api/v1",
        "https://b%C3%BCcher.example/api/v1",
    ],
    "gateway.example/shop": [
        "https://gateway.example/shop/api/v1/m2m/sites/docs",
        "https://gateway.example//shop/",
        "https://gateway.example/%73hop/api/v1",
    ],
    "gateway.example/Shop": ["https://gateway.example/Shop/api/v1"],
    "gateway.example/a%20b/%C3%A4": ["https://gateway.example/a%20b/%c3%a4/api/v1", "https://gateway.example/a b/ä"],
    "gateway.example/api/v1/help": ["https://gateway.example/api/v1/help/api/v1/m2m/sites/docs"],
    "gateway.example:8443": ["https://gateway.example:8443/api/v1"],
    "localhost": ["http://localhost/api/v1", "https://LOCALHOST:443/api/v1"],
    "1.2.3.4.5": ["https://1.2.3.4.5/api/v1"],
    "08.1": ["https://08.1/api/v1"],
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_service_without_a_name_has_that_of_its_address(name):
    assert {url: service_of(url) for url in SPELLINGS[name]} == dict.fromkeys(SPELLINGS[name], name)
    # Asset names and connections may give the name itself.
    assert service_of(f"https://{name}") == name


def record(ledger, number, site):
    """Record one entry of each kind."""
    request_id, key = f"request-{number}", "key"
    with ledger.documents(scope=DocumentScope(site, "documents/qa"), source="kb", run=RUN) as opened:
        assert opened.entries([key]) == {}
        claim = Claim(key, key, None)
        assert opened.commit_and_claim((), [claim]) == {key}
        opened.commit_and_claim([ClaimOutcome(claim, "created", "content", f"doc-{number}")], ())
    with ledger.chat_requests(scope=ChatScope(site), run=RUN) as opened:
        send_once(opened, chat_claim(opened, key), lambda: accepted(request_id))
    with ledger.ratings(scope=RatingScope(site), run=RUN) as opened:
        assert opened.entries([rating_key("session", "request", "good")]) == {}
        send_once(opened, rating_claim("session", "request", "good", None), acknowledged)
    with ledger.load(scope=DocumentScope(site, "documents/qa"), source="kb", run=RUN):
        pass


def test_sites_are_told_apart_by_service_tenant_and_id_and_not_by_address(ledger):
    for number, site in enumerate(SITES):
        record(ledger, number, site)
    now = datetime.now(UTC)
    day = (now - timedelta(days=10_000), now + timedelta(days=10_000))
    all_ids = [f"doc-{number}" for number in range(len(SITES))]
    for number, site in enumerate(SITES):
        # The same service at another address.
        moved = Site(site.service, site.tenant_id, site.site_id, "https://new.example/api/v1/m2m/sites/x")
        for query in (requests_between, feedback_between, loads_between):
            rows = ledger.read(query, *day, moved)
            assert [{name: row[name] for name in site.columns()} for row in rows] == [site.columns()], query.__name__
        assert ledger.read(known_documents, moved).ids == [f"doc-{number}"]
        assert ledger.read(known_ids, moved, all_ids) == {f"doc-{number}"}
        assert [entry.document_id for entry in site_entries(ledger.engine, moved)] == [f"doc-{number}"]
        assert find_request(ledger.engine, moved, f"request-{number}").site_url == site.url
        assert find_request(ledger.engine, moved, f"request-{number + 1}") is None
        with ledger.documents(scope=DocumentScope(moved, "documents/qa"), source="kb", run=RUN) as opened:
            assert opened.entries(["key"])["key"].created_id == f"doc-{number}"
    for query in (requests_between, feedback_between, loads_between):
        assert len(ledger.read(query, *day)) == len(SITES)
