"""Loads that make a site equal to its source: replaced, removed and activated documents, read back from the site."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.client.defaults import get_client_defaults, set_client_defaults
from airflow_provider_assistant.exceptions import (
    AssistantError,
    AssistantIncompleteError,
    AssistantInputError,
    AssistantPermissionError,
)
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator
from tests.document_site import PAGINGS, DocumentSite, Names
from tests.task_runs.context import task_context

CONN = "AIRFLOW_CONN_ASSISTANT_DEFAULT"
EQUAL = {"key_columns": ["title"], "on_change": "replace", "on_missing": "delete"}


@pytest.fixture(autouse=True)
def pauses() -> Iterator[list[float]]:
    """Let no retry and no look at the list wait, and return the pauses in seconds."""
    seconds: list[float] = []

    async def asleep(pause: float) -> None:
        seconds.append(pause)
        await asyncio.sleep(0)

    defaults = replace(get_client_defaults(), asleep=asleep, now=lambda: time.time() + sum(seconds))
    previous = set_client_defaults(defaults)
    yield seconds
    set_client_defaults(previous)


def rows_of(contents: dict[str, str]) -> list[dict[str, str]]:
    return [{"title": key, "question": f"What is {key}?", "answer": answer} for key, answer in contents.items()]


def in_use(contents: dict[str, str]) -> list[tuple[str, str]]:
    return sorted((f"What is {key}?", answer) for key, answer in contents.items())


def load_of(contents: dict[str, str], **options) -> AssistantLoadQAOperator:
    operator = AssistantLoadQAOperator(task_id="load", source=rows_of(contents), **{**EQUAL, **options})
    operator.render_template_fields({})
    return operator


def load(contents: dict[str, str], *, run_id: str = "run", map_index: int = -1, **options):
    operator = load_of(contents, **options)
    return operator.execute(task_context("load", run_id=run_id, map_index=map_index))


def changed(rng: Random, contents: dict[str, str]) -> dict[str, str]:
    """Return the contents of the next night: some rows changed, some gone, some new."""
    names = list(contents)
    gone = set(rng.sample(names, len(names) // 5))
    changed_names = set(rng.sample(names, len(names) // 4))
    following = {}
    for name, answer in contents.items():
        if name not in gone:
            following[name] = f"{answer}!" if name in changed_names else answer
    for _ in range(rng.randint(0, 4)):
        following[f"new {rng.random()}"] = "Fresh."
    return following


def findings(result) -> list[dict]:
    return pq.read_table(result["findings"]).to_pylist() if result["findings"] else []


@pytest.mark.promise(
    "documents of a site", "After each load that may change the site, the site has exactly the documents of the source."
)
@pytest.mark.parametrize("seed", [0, 1])
def test_after_each_night_the_site_equals_the_source(seed, monkeypatch):
    rng = Random(seed)
    site = DocumentSite(
        Names.random(rng),
        paging=rng.choice(PAGINGS),
        page_size=rng.randint(3, 20),
        draft=rng.random() < 0.5,
        processing=rng.randint(0, 3),
        unknown=rng.choice(["ignore", "reject"]),
    )
    contents = {f"row {number}": f"Answer {number}." for number in range(rng.randint(5, 40))}
    with site:
        others = [site.store("By hand", "Somebody else's.").id for _ in range(3)]
        monkeypatch.setenv(CONN, site.connection())
        for night in range(4):
            result = load(contents, run_id=f"night {night}")
            assert (result["not_removed"], result["not_activated"]) == (0, 0)
            for document_id in others:
                assert site.documents.pop(document_id).content == "Somebody else's."
            assert site.in_use() == in_use(contents)
            assert len(site.documents) == len(contents)
            others = [site.store("By hand", "Somebody else's.").id for _ in range(3)]
            again = load(contents, run_id=f"again {night}")
            assert again["unchanged"] == len(contents)
            assert (again["activated"], again["deactivated"], again["deleted"]) == (0, 0, 0)
            contents = changed(rng, contents)


def test_deactivated_documents_remain_on_the_site(monkeypatch):
    with DocumentSite() as site:
        monkeypatch.setenv(CONN, site.connection())
        load({"a": "1", "b": "2", "c": "3"})
        result = load({"a": "1"}, run_id="second", on_missing="deactivate")
        assert (result["deactivated"], result["deleted"]) == (2, 0)
        assert site.in_use() == in_use({"a": "1"})
        assert len(site.documents) == 3
        # A row that comes back gets a new document.
        load({"a": "1", "b": "2"}, run_id="third", on_missing="deactivate")
        assert site.in_use() == in_use({"a": "1", "b": "2"})


def test_a_draft_does_not_replace_a_document(monkeypatch):
    """Without activation, the assistant would know neither the old nor the new answer."""
    with DocumentSite() as site:
        monkeypatch.setenv(CONN, site.connection())
        load({"a": "1", "old name": "2"})
        site.draft = True
        monkeypatch.setenv(CONN, site.connection(manage_documents={"activate": None, "deactivate": None}))
        # A renamed row is a new document and a stale one. A retry creates nothing, and removes nothing either.
        for _ in range(2):
            with pytest.raises(AssistantIncompleteError, match="2 outdated documents"):
                load({"a": "one", "new name": "3"}, run_id="second")
            assert site.in_use() == in_use({"a": "1", "old name": "2"})
        monkeypatch.setenv(CONN, site.connection())
        result = load({"a": "one", "new name": "3"}, run_id="third")
        assert (result["activated"], result["deleted"]) == (2, 2)
        assert site.in_use() == in_use({"a": "one", "new name": "3"})


@pytest.mark.parametrize(
    ("status", "routes"), [(404, ("list", "status", "delete")), (405, ("delete",)), (501, ("status",))]
)
def test_without_the_routes_a_load_behaves_as_without_management(status, routes, monkeypatch, caplog):
    with DocumentSite(missing=dict.fromkeys(routes, status)) as site:
        monkeypatch.setenv(CONN, site.connection())
        load({"a": "1", "b": "2", "c": "3"})
        caplog.clear()
        result = load({"a": "one", "b": "2"}, run_id="second")
        assert (result["created"], result["changed"], result["deleted"], result["not_removed"]) == (1, 1, 0, 0)
        assert sorted(row["kind"] for row in findings(result)) == ["stale", "superseded"]
        assert {change.action for change in site.changes} <= {"create", "deactivate"}
        assert sum("does not have a route" in record.message for record in caplog.records) == 1


def test_a_key_without_the_permission_stops_the_load(monkeypatch):
    with DocumentSite() as site:
        monkeypatch.setenv(CONN, site.connection())
        load({"a": "1"})
        site.before = lambda _, method, path: 403 if "bulk" in path else None
        with pytest.raises(AssistantPermissionError):
            load({"a": "one"}, run_id="second")
        assert len(site.documents) == 2


def test_a_document_that_cannot_be_deleted_is_listed_by_every_load(monkeypatch):
    with DocumentSite() as site:
        monkeypatch.setenv(CONN, site.connection())
        load({"a": "1"})
        site.before = lambda _, __, path: 409 if "bulk-delete" in path else None
        for night in ("second", "third"):
            operator = load_of({"a": "one"})
            with pytest.raises(AssistantIncompleteError, match="1 outdated document"):
                operator.execute(task_context("load", run_id=night))
            (finding,) = operator._load.findings.first
            assert (finding.kind, finding.document_ids) == ("superseded", ["d00001"])
            assert "remains as it is" in finding.reason


def test_a_load_that_is_ended_while_it_changes_the_site_stops_and_a_retry_goes_on(monkeypatch):
    with DocumentSite() as site:
        monkeypatch.setenv(CONN, site.connection())
        load({"a": "1", "b": "2", "c": "3"})
        operator, has_ended = load_of({"a": "one"}), threading.Event()

        def kill(_number: int, _method: str, path: str) -> None:
            if "bulk" in path:
                operator.on_kill()
                has_ended.wait(5)

        site.before = kill
        with pytest.raises(AssistantIncompleteError, match="ended from outside"):
            operator.execute(task_context("load", run_id="second"))
        has_ended.set()
        assert "delete" not in {change.action for change in site.changes}
        site.before = lambda *_: None
        load({"a": "one"}, run_id="second")
        assert site.in_use() == in_use({"a": "one"})


@pytest.mark.parametrize(
    ("happens", "routes"),
    [(True, {}), (False, {}), (True, {"activate": None, "deactivate": None}), (True, {"list": None})],
)
@pytest.mark.parametrize("meanwhile", [{"a": "1"}, {"a": "1", "b": "two"}])
def test_a_row_that_is_back_after_its_removal_got_no_reply(meanwhile, happens, routes, monkeypatch, caplog):
    with DocumentSite() as site:
        monkeypatch.setenv(CONN, site.connection(retries=0, manage_documents=site.routes() | routes))
        load({"a": "1", "b": "2"})
        site.before = lambda _, __, path: 503 if "bulk-delete" in path and not happens else None
        site.after = lambda _, __, path: "bulk-delete" not in path
        with pytest.raises(AssistantError):
            load(meanwhile, run_id="second")
        site.before, site.after = lambda *_: None, lambda *_: True
        contents = {"a": "1", "b": "2"}
        for _ in range(2):
            with contextlib.suppress(AssistantIncompleteError):
                load(contents, run_id="third")
        assert ("1 document not activated, such as d00002: " in caplog.text) == happens
        assert load(contents, run_id="last")["unchanged"] == 2
        assert site.in_use() == in_use(contents)
        assert len(site.documents) == 2


CHANGES = [
    ({"on_missing": "deactivate"}, "deactivate"),
    ({"on_missing": "delete"}, "delete"),
    ({"on_change": "replace"}, "delete"),
]


@pytest.mark.parametrize(("options", "route"), CHANGES)
def test_the_connection_has_to_allow_it(options, route, monkeypatch):
    options = {"on_change": "create", "on_missing": "list", **options}
    with DocumentSite() as site:
        for allowed, message in ((False, "manage_documents"), ({route: None}, f"no route '{route}'")):
            monkeypatch.setenv(CONN, site.connection(manage_documents=allowed))
            with pytest.raises(AssistantInputError, match=message):
                load({"a": "1"}, **options)
    assert not site.requests


@pytest.mark.promise("documents of a site", "A load that would delete most documents of its source stops before it.")
def test_a_mass_deletion_stops_before_it(monkeypatch):
    contents = {f"row {number}": "x" for number in range(120)}
    with DocumentSite() as site:
        monkeypatch.setenv(CONN, site.connection())
        load(contents)
        with pytest.raises(AssistantInputError, match=r"has 120 documents.*delete 119 of them"):
            load({"row 0": "x"}, run_id="second")
        assert len(site.documents) == 120
        result = load({"row 0": "x"}, run_id="third", allow_mass_change=True)
        assert result["deleted"] == 119
        assert len(site.documents) == 1


def test_documents_that_are_known_to_be_stale_are_no_mass_change(monkeypatch):
    """A source whose rows come and go leaves more and more of them, none of which a load of this kind removes."""
    options = {"on_missing": "list", "on_change": "create"}
    with DocumentSite() as site:
        monkeypatch.setenv(CONN, site.connection())
        names = [f"row {number}" for number in range(200)]
        for night in range(5):
            result = load(dict.fromkeys(names[30 * night :][:80], "x"), run_id=f"night {night}", **options)
            assert result["stale"] == 30 * night
        with pytest.raises(AssistantInputError, match=r"has 80 documents, and .* list as stale 79 of them"):
            load({names[120]: "x"}, run_id="mistake", **options)
        load({names[120]: "x"}, run_id="intended", allow_mass_change=True, **options)
        assert load({names[120]: "x"}, run_id="again", **options)["stale"] == 199
        # To delete them is another change.
        with pytest.raises(AssistantInputError, match=r"has 200 documents, and .* delete 199 of them"):
            load({names[120]: "x"}, run_id="deletes", **EQUAL)


def test_documents_of_other_sources_stay(monkeypatch):
    with DocumentSite() as site:
        monkeypatch.setenv(CONN, site.connection())
        load({"a": "1"}, source_name="first")
        load({"b": "2"}, source_name="second", run_id="second")
        load({"c": "3"}, source_name="second", run_id="third")
        assert site.in_use() == in_use({"a": "1", "c": "3"})


def test_rows_that_the_service_does_not_accept_keep_the_stale_documents(monkeypatch):
    with DocumentSite() as site:
        monkeypatch.setenv(CONN, site.connection(retries=0))
        load({"a": "1", "b": "2"})
        site.before = lambda _, method, path: 503 if path.endswith("/qa") else None
        with pytest.raises(AssistantIncompleteError):
            load({"a": "1", "b renamed": "2"}, run_id="second")
        assert site.in_use() == in_use({"a": "1", "b": "2"})
        site.before = lambda *_: None
        load({"a": "1", "b renamed": "2"}, run_id="second")
        assert site.in_use() == in_use({"a": "1", "b renamed": "2"})


def test_a_document_that_another_row_needs_is_kept(monkeypatch):
    """For equal content, a service may return the document that it has."""

    class Deduplicating(DocumentSite):
        def _created(self, fields):
            for stored in self.documents.values():
                if (stored.content, stored.question) == (fields["answer"], fields["question"]):
                    return {"id": stored.id, "status": "active"}
            return super()._created(fields)

    rows = [{"title": name, "question": "Q?", "answer": "Same."} for name in ("a", "b")]
    with Deduplicating() as site:
        monkeypatch.setenv(CONN, site.connection())
        for number, source in enumerate((rows, rows[:1])):
            operator = AssistantLoadQAOperator(task_id="load", source=source, **EQUAL)
            operator.render_template_fields({})
            operator.execute(task_context("load", run_id=f"run {number}"))
        assert site.in_use() == [("Q?", "Same.")]
        # The row that is gone has no entry any more, and no later load looks at it.
        assert load({}, run_id="last", allow_empty=True)["stale"] is None
