"""The commands about documents, against sites with any names, delays and missing routes."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random

import pytest
from airflow_provider_assistant.cli.document_candidates import status_routes

from airflow_provider_assistant.api.document_routes import DocumentRoutes, StatusRoute
from airflow_provider_assistant.api.site_documents import SiteDocument
from airflow_provider_assistant.client.defaults import get_client_defaults, set_client_defaults
from tests.document_site import PAGINGS, SITE, DocumentSite, Names

CONN = "AIRFLOW_CONN_ASSISTANT_DEFAULT"


@pytest.fixture(autouse=True)
def clock():
    """A clock that only waiting moves."""
    seconds = [1_000_000.0]

    def sleep(duration):
        seconds[0] += duration

    before = set_client_defaults(replace(get_client_defaults(), now=lambda: seconds[0], sleep=sleep))
    yield seconds
    set_client_defaults(before)


class LateSite(DocumentSite):
    """A site whose list shows the documents as they were some reads before."""

    def __init__(self, *args, lag, **kwargs):
        super().__init__(*args, **kwargs)
        self.lag = lag
        self.snapshots = []

    def _listed(self, query):
        if not query or (self.paging == "page" and set(query.values()) == {"1"}):
            self.snapshots.append([])
            for stored in self.documents.values():
                self.snapshots[-1].append(replace(stored))
                stored.processing = max(0, stored.processing - 1)
        shown = self.snapshots[max(0, len(self.snapshots) - 1 - self.lag)]
        # The list of the base class counts down as well.
        current, self.documents = self.documents, {stored.id: replace(stored) for stored in shown}
        try:
            return super()._listed(query)
        finally:
            self.documents = current


def connected(monkeypatch, site, manage=True, **extra):
    monkeypatch.setenv(CONN, site.connection(manage_documents=manage, retries=0, **extra))


def verdicts(results):
    return {result["step"]: result["verdict"] for result in results}


def test_the_list_of_a_site(cli, monkeypatch):
    with DocumentSite(paging="page", page_size=3) as site:
        for number in range(7):
            site.store(f"Title {number}", "Text", active=number % 2 == 0)
        connected(monkeypatch, site)
        ran = cli("documents", "list")
        as_json = cli("documents", "list", "-o", "json").json
    assert ran.code == 0
    assert ran.lines[0] == ["id", "state", "status", "title", "created", "updated"]
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


@pytest.mark.parametrize("paging", PAGINGS)
def test_a_usual_list_is_understood_without_a_change(cli, monkeypatch, paging):
    with DocumentSite(paging=paging, page_size=4) as site:
        for number in range(11):
            site.store(f"Title {number}", "Text", active=number % 3 > 0)
        connected(monkeypatch, site, manage=None)
        ran = cli("documents", "check", "-o", "json")
        assert {method for method, _ in site.requests} == {"GET"}
    assert ran.code == 0
    result = ran.json
    assert (result["passed"], result["is_managed"]) == (True, False)
    assert (result["manage_documents"], result["steps"], result["left"]) == (True, [], None)
    assert result["list"]["documents"] == 11
    assert result["list"]["states"] == {"active": 7, "draft": 4}
    found = verdicts(result["list"]["results"])
    assert found.pop("updated_at") == "absent"
    assert found.pop("question") == "absent"
    assert set(found.values()) == {"ok"}


def test_other_names_are_proposed(cli, monkeypatch):
    names = Names(
        items="payload.knowledge",
        id="doc_key",
        status="meta.phase",
        created_at="inserted_on",
        active="aktiv",
        draft="entwurf",
    )
    with DocumentSite(names, paging="none") as site:
        for number in range(5):
            site.store(f"Title {number}", "Text", active=number > 1)
        connected(monkeypatch, site)
        ran = cli("documents", "check", "-o", "json")
    assert ran.code == 1
    result = ran.json
    assert result["manage_documents"] == {
        "list": {"id": "doc_key", "status": "meta.phase", "created_at": "inserted_on"}
    }
    assert result["list"]["unknown_words"] == {"aktiv": 3, "entwurf": 2}
    (states,) = [line for line in result["list"]["results"] if line["step"] == "states"]
    assert states["verdict"] == "problem"
    assert all(text in states["detail"] for text in ("'aktiv'", "'entwurf'", "active_words", "draft_words"))


def test_text_for_people_has_the_line_for_the_connection(cli, monkeypatch):
    with DocumentSite(Names(id="doc_key")) as site:
        site.store("Title", "Text")
        connected(monkeypatch, site, manage=None)
        ran = cli("documents", "check")
    assert ran.code == 0
    line = ran.out.splitlines()[-1]
    prefix = "Extra of connection 'assistant_default': "
    assert line.startswith(prefix)
    assert json.loads("{" + line.removeprefix(prefix) + "}") == {"manage_documents": {"list": {"id": "doc_key"}}}
    assert "does not manage documents yet" in ran.err


def test_a_site_without_a_list(cli, monkeypatch):
    with DocumentSite(missing={"list": 404}) as site:
        connected(monkeypatch, site)
        ran = cli("documents", "check", "--write", "-o", "json")
        assert not site.changes
    assert ran.code == 1
    (line,) = ran.json["list"]["results"]
    assert (line["step"], line["verdict"]) == ("list", "problem")
    assert "404" in line["detail"]


def test_a_list_that_ends_too_early_is_a_problem(cli, monkeypatch):
    with DocumentSite(Names(parameter="blatt"), paging="page", page_size=5) as site:
        for number in range(12):
            site.store(f"Title {number}", "Text")
        connected(monkeypatch, site)
        ran = cli("documents", "check", "-o", "json")
    assert ran.code == 1
    assert verdicts(ran.json["list"]["results"])["paging"] == "problem"


@pytest.mark.promise(
    "documents of a site",
    "A check of the routes of documents changes no document but its own, which it deletes.",
)
@pytest.mark.parametrize("seed", range(4))
def test_described_routes_are_tried_on_a_new_document_only(cli, monkeypatch, seed):
    rng = Random(seed)
    site = LateSite(
        Names.random(rng),
        paging=rng.choice(PAGINGS),
        page_size=rng.randint(1, 5),
        draft=rng.random() < 0.5,
        processing=rng.randint(0, 3),
        lag=rng.randint(0, 4),
        unknown=rng.choice(["ignore", "reject"]),
    )
    with site:
        before = [site.store(f"Title {number}", "Text").id for number in range(rng.randint(0, 6))]
        for stored in site.documents.values():
            stored.processing = 0
        monkeypatch.setenv(CONN, site.connection(retries=0))
        ran = cli("documents", "check", "--write", "-o", "json")
    result = ran.json
    expected_steps = ["create", "ready", "set_status", "delete"]
    if not before:
        expected_steps.append("fields")
    assert (ran.code, result["passed"], result["left"]) == (0, True, None), result["steps"]
    assert verdicts(result["steps"]) == dict.fromkeys(expected_steps, "ok")
    assert list(site.documents) == before
    (created,) = [change.document_id for change in site.changes if change.action == "create"]
    assert {change.document_id for change in site.changes} == {created}
    assert {change.action for change in site.changes} == {"create", "activate", "deactivate", "delete"}
    described = DocumentRoutes.model_validate(site.routes())
    assert DocumentRoutes.model_validate(result["manage_documents"]).set_status == described.set_status
    assert DocumentRoutes.model_validate(result["manage_documents"]).delete == described.delete


@pytest.mark.parametrize(
    "names",
    [
        Names(ids="ids"),
        Names(ids="documentIds", status_method="POST"),
        Names(draft="inactive"),
        Names(active="published", draft="draft"),
        Names(status_path=f"{SITE}/documents/{{document_id}}"),
        Names(status_path=f"{SITE}/documents/{{document_id}}", status_method="PUT", draft="inactive"),
        Names(delete_path=f"{SITE}/documents/{{document_id}}", delete_method="DELETE"),
        Names(status="is_active", new_status="is_active", active=True, draft=False),
        Names(status="publication_status", new_status="publication_status", draft="inactive"),
    ],
)
def test_an_alternative_that_works_is_found(cli, monkeypatch, names):
    with LateSite(names, draft=True, lag=2) as site:
        site.store("Other", "Text", active=True)
        connected(monkeypatch, site, manage=None)
        ran = cli("documents", "check", "--write", "-o", "json", "--timeout", "2000")
    result = ran.json
    assert ran.code == 0, result
    assert list(site.documents) == ["d00001"]
    routes = DocumentRoutes.model_validate({} if result["manage_documents"] is True else result["manage_documents"])
    assert (routes.set_status.method, routes.set_status.active, routes.set_status.inactive) == (
        names.status_method,
        names.active,
        names.draft,
    )
    assert routes.set_status.path.format(site_id="help", document_id="{document_id}") == names.status_path
    assert routes.delete.path.format(site_id="help", document_id="{document_id}") == names.delete_path
    assert routes.delete.method == names.delete_method


def test_the_fields_of_an_empty_list_are_found_with_the_first_document(cli, monkeypatch):
    names = Names(items="hits", id="doc_ref", status="meta.phase", created_at="added_on")
    with LateSite(names, lag=3, draft=True) as site:
        connected(monkeypatch, site)
        ran = cli("documents", "check", "--write", "-o", "json")
        assert not site.documents
    assert ran.code == 0, ran.json["steps"]
    found = ran.json["manage_documents"]["list"]
    assert found == {"items": "hits", "id": "doc_ref", "status": "meta.phase", "created_at": "added_on"}


@pytest.mark.parametrize("draft", [True, False])
def test_unknown_words_are_learned(cli, monkeypatch, draft):
    names = Names(active="aktiv", draft="entwurf", processing="in arbeit")
    manage = {"set_status": {"active": "aktiv", "inactive": "entwurf"}}
    with DocumentSite(names, draft=draft) as site:
        connected(monkeypatch, site, manage=manage)
        ran = cli("documents", "check", "--write", "-o", "json")
    result = ran.json
    assert ran.code == 0, result
    assert result["manage_documents"]["active_words"] == ["aktiv"]
    assert result["manage_documents"]["draft_words"] == ["entwurf"]


def test_an_unknown_word_before_a_known_one_means_processing(cli, monkeypatch):
    with DocumentSite(Names(processing="in arbeit"), processing=9) as site:
        connected(monkeypatch, site)
        ran = cli("documents", "check", "--write", "-o", "json")
    assert ran.code == 0, ran
    assert ran.json["manage_documents"] == {"processing_words": ["in arbeit"]}


def test_what_cannot_be_deleted_is_named(cli, monkeypatch):
    with DocumentSite(missing={"delete": 405}) as site:
        connected(monkeypatch, site)
        ran = cli("documents", "check", "--write")
        (left,) = site.documents
    assert ran.code == 1
    assert f"document '{left}'" in ran.err
    assert "Left at site 'help'" in ran.err


def test_a_refusal_midway_names_the_document(cli, monkeypatch):
    def refused(_, method, __):
        return 401 if method == "PATCH" else None

    with DocumentSite(before=refused) as site:
        connected(monkeypatch, site)
        result = cli("documents", "check", "--write", "-o", "json").json
        assert not site.documents
    # The document is deleted nevertheless.
    assert (result["passed"], result["left"]) == (False, None)
    assert verdicts(result["steps"])["set_status"] == "problem"


def test_a_create_without_an_answer_may_have_left_a_document(cli, monkeypatch):
    with DocumentSite(after=lambda _, method, path: not path.endswith("/text")) as site:
        connected(monkeypatch, site)
        ran = cli("documents", "check", "--write", "-o", "json")
        (stored,) = site.documents.values()
    assert ran.code == 1
    assert stored.title in ran.json["left"]


def test_a_route_that_changes_every_document_is_not_used_again(cli, monkeypatch):
    class CarelessSite(DocumentSite):
        def _changed(self, route, ids, body):
            return super()._changed(route, list(self.documents), body)

    with CarelessSite() as site:
        for number in range(4):
            site.store(f"Title {number}", "Text")
        connected(monkeypatch, site)
        ran = cli("documents", "check", "--write", "-o", "json")
        assert len(site.documents) == 5
    assert ran.code == 1
    assert ran.json["left"]
    assert "4 other documents changed" in ran.json["steps"][-1]["detail"]
    assert [change.action for change in site.changes].count("deactivate") == 5


def test_a_document_that_never_becomes_ready(cli, monkeypatch, clock):
    with DocumentSite(processing=10**6) as site:
        connected(monkeypatch, site)
        started = clock[0]
        ran = cli("documents", "check", "--write", "-o", "json", "--timeout", "90")
        assert not site.documents
    assert ran.code == 1
    assert clock[0] - started < 200
    assert verdicts(ran.json["steps"])["ready"] == "problem"
    assert ran.json["left"] is None


def test_a_list_without_statuses(cli, monkeypatch):
    class SilentSite(DocumentSite):
        def _item(self, stored):
            return {"id": stored.id, "title": stored.title}

    with SilentSite() as site:
        connected(monkeypatch, site)
        ran = cli("documents", "check", "--write", "-o", "json")
        assert not site.documents
    assert ran.code == 1
    assert verdicts(ran.json["steps"]) == {
        "create": "ok",
        "fields": "problem",
        "ready": "problem",
        "set_status": "problem",
        "delete": "ok",
    }


def test_missing_routes_of_the_connection_are_not_tried(cli, monkeypatch):
    with DocumentSite() as site:
        connected(monkeypatch, site, manage={"set_status": None, "delete": None})
        ran = cli("documents", "check", "--write", "-o", "json")
    assert {method for method, _ in site.requests} == {"GET", "POST"}
    assert [change.action for change in site.changes] == ["create"]
    assert ran.json["left"]
    assert ran.code == 1


@pytest.mark.parametrize("timeout", ["0", "-1", "nan", "1e9"])
def test_the_timeout_is_bounded(cli, monkeypatch, timeout):
    with DocumentSite() as site:
        connected(monkeypatch, site)
        assert cli("documents", "check", "--write", f"--timeout={timeout}").code == 2
        assert not site.requests


def test_the_key_is_in_no_output(cli, monkeypatch):
    with DocumentSite(Names(id="key-of-a-test-0123456789")) as site:
        site.store("key-of-a-test-0123456789", "Text")
        connected(monkeypatch, site)
        for argv in (("list",), ("list", "-o", "json"), ("check",), ("check", "--write", "-v")):
            ran = cli("documents", *argv)
            assert "key-of-a-test" not in ran.out + ran.err


def test_status_routes_are_tried_once_each_and_the_configured_one_first():
    shown = SiteDocument("d1", None, "active", "active", None, None, None, None, {"id": "d1", "is_draft": False})
    configured = StatusRoute(method="PUT", active=1, inactive=0)
    routes = list(status_routes(configured, shown))
    assert routes[0] == configured
    texts = [route.model_dump_json() for route in routes]
    assert len(set(texts)) == len(texts)
    assert any(route.status == "is_draft" and route.active is False for route in routes)
