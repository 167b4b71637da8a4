"""The commands about documents, against sites with any names, delays and missing routes."""

from __future__ import annotations

import pytest

from tests.document_site import DocumentSite, Names

CONN = "AIRFLOW_CONN_ASSISTANT_DEFAULT"


def connected(monkeypatch, site, manage=True, **extra):
    monkeypatch.setenv(CONN, site.connection(manage_documents=manage, retries=0, **extra))


def test_the_list_of_a_site(cli, monkeypatch):
    with DocumentSite(paging="page", page_size=3) as site:
        for number in range(7):
            site.store(f"Title {number}", "Text", active=number % 2 == 0)
        connected(monkeypatch, site)
        ran = cli("documents", "list", "-o", "plain")
        as_json = cli("documents", "list", "-o", "json").json
    assert ran.code == 0
    assert ran.lines[0] == ["document_id", "state", "status", "title", "created_at", "updated_at"]
    assert [line[:4] for line in ran.lines[1:3]] == [
        ["d00001", "active", "active", "Title 0"],
        ["d00002", "draft", "draft", "Title 1"],
    ]
    assert len(ran.lines) == 8
    assert [row["state"] for row in as_json] == ["active", "draft"] * 3 + ["active"]


def test_a_list_needs_the_switch_of_the_connection(cli, monkeypatch):
    with DocumentSite() as site:
        connected(monkeypatch, site, manage=None)
        ran = cli("documents", "list")
        assert not site.requests
    assert ran.code == 2
    assert "manage_documents" in ran.err


@pytest.mark.promise("documents of a site", "A check reads the list of a site, and says what it cannot understand.")
@pytest.mark.parametrize("paging", ["none", "page", "cursor"])
def test_a_usual_list_is_understood_without_a_change(cli, monkeypatch, paging):
    with DocumentSite(paging=paging, page_size=4) as site:
        for number in range(11):
            site.store(f"Title {number}", "Text", active=number % 3 > 0)
        connected(monkeypatch, site)
        ran = cli("documents", "check", "-o", "json")
        assert {method for method, _ in site.requests} == {"GET"}
    assert ran.code == 0
    result = ran.json
    assert (result["passed"], result["documents"], result["states"]) == (True, 11, {"active": 7, "draft": 4})
    assert not result["unknown_words"]


def test_what_is_not_understood_is_named_until_the_connection_describes_it(cli, monkeypatch):
    with DocumentSite(Names(status="phase", active="aktiv"), paging="none") as site:
        site.store("Title", "Text")
        connected(monkeypatch, site)
        ran = cli("documents", "check")
        assert (ran.code, "The list shows no status" in ran.err, "phase" in ran.err.splitlines()[-1]) == (1, True, True)
        connected(monkeypatch, site, manage={"status_field": "phase"})
        ran = cli("documents", "check")
        assert (ran.code, "1 have the status 'aktiv', whose meaning is not known" in ran.err) == (1, True)
        assert cli("documents", "check", "-o", "json").json["unknown_words"] == {"aktiv": 1}


def test_a_site_without_a_list(cli, monkeypatch):
    with DocumentSite(missing={"list": 404}) as site:
        connected(monkeypatch, site)
        ran = cli("documents", "check")
        assert not site.changes
    assert ran.code == 2
    assert "404" in ran.err


def test_the_key_is_in_no_output(cli, monkeypatch):
    with DocumentSite(Names(id="key-of-a-test-0123456789")) as site:
        site.store("key-of-a-test-0123456789", "Text")
        connected(monkeypatch, site)
        for argv in (("list",), ("list", "-o", "json"), ("check",), ("check", "-v")):
            ran = cli("documents", *argv)
            assert "key-of-a-test" not in ran.out + ran.err
