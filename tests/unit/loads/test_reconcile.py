"""A load looks up its ambiguous rows in the list of the site before it sends the first one."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import pytest

from airflow_provider_assistant.ledger import Filter, Ledger, queries
from tests.document_site import PAGINGS, DocumentSite, Names
from tests.unit.cli.conftest import _as_before, cli  # noqa: F401 (fixtures)

CONN = "AIRFLOW_CONN_ASSISTANT_DEFAULT"
LOAD = ("--key", "id", "-o", "json")


class Lost:
    """Let the answers to some creates get lost, after the site has carried them out."""

    def __init__(self, site: DocumentSite, *numbers: int) -> None:
        self.numbers = numbers
        self.creates = 0
        site.after = self._after

    def _after(self, _number: int, method: str, _path: str) -> bool:
        if method != "POST":
            return True
        self.creates += 1
        return self.creates not in self.numbers


@pytest.fixture
def site(monkeypatch):
    """Start a site, and connect to it; requests are not sent again within a load."""
    with DocumentSite() as started:
        monkeypatch.setenv(CONN, started.connection(retries=0, max_concurrency=1))
        yield started


def source_of(path, *rows):
    """Write rows with id, title and content."""
    lines = ["id,title,content", *(",".join(row) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def load(cli, tmp_path):  # noqa: F811 (fixture)
    def loaded(*rows, options=()):
        return cli("load", source_of(tmp_path / "kb.csv", *rows), "--kind", "text", *LOAD, *options).json

    return loaded


ROWS = (("1", "Returns", "Thirty days."), ("2", "Hours", "Nine to five."), ("3", "Shipping", "Two days."))


def contents(site):
    return sorted((stored.title, stored.content) for stored in site.documents.values())


EXPECTED = sorted((title, content) for _, title, content in ROWS)


@pytest.mark.promise("loads", "A load finds the document of a create whose answer was lost in the list of the site.")
def test_a_lost_answer_is_looked_up(site, load, cli):  # noqa: F811 (fixture)
    Lost(site, 2)
    assert load(*ROWS)["ambiguous"] == 1
    again = load(*ROWS)
    assert (again["created"], again["unchanged"], again["possibly_duplicated"]) == (0, 3, 0)
    assert contents(site) == EXPECTED
    assert {row["remote_id"] for row in entries()} == set(site.documents)


def entries(which="created"):
    with Ledger.open() as ledger:
        return ledger.read(queries.entries, ledger.clock, Filter(which=which)).rows


@pytest.mark.parametrize("seed", range(4))
def test_with_any_names_and_pagings(seed, monkeypatch, load):
    rng = Random(seed)
    names = Names.random(rng)
    with DocumentSite(
        names,
        paging=rng.choice(PAGINGS),
        page_size=rng.randint(1, 4),
        draft=rng.random() < 0.5,
        processing=rng.choice([0, 5]),
    ) as site:
        for number in range(rng.randint(0, 6)):
            site.store(f"Person {number}", "By hand")
        by_hand = contents(site)
        monkeypatch.setenv(CONN, site.connection(retries=0, max_concurrency=1))
        rows = [(str(number), f"Title {number}", f"Text {number}") for number in range(12)]
        lost = rng.sample(range(1, 13), rng.randint(1, 6))
        Lost(site, *lost)
        assert load(*rows)["ambiguous"] == len(lost)
        again = load(*rows)
        assert (again["created"], again["unchanged"]) == (0, 12)
        assert contents(site) == sorted([*by_hand, *(row[1:] for row in rows)])


def test_a_document_of_a_person_with_another_text_is_another_one(site, load):
    site.store("Hours", "Ten to six.")
    Lost(site, 2)
    load(*ROWS)
    assert load(*ROWS)["unchanged"] == 3
    assert contents(site) == sorted([*EXPECTED, ("Hours", "Ten to six.")])


@pytest.mark.parametrize("created", ["before", "after"])
def test_two_documents_that_fit_settle_nothing(created, site, load):
    if created == "before":
        site.store("Hours", "Nine to five.")
    Lost(site, 2)
    load(*ROWS)
    if created == "after":
        site.store("Hours", "Nine to five.")
    again = load(*ROWS, options=("--on-ambiguous", "skip"))
    assert (again["unchanged"], again["ambiguous"]) == (2, 1)


def test_a_document_that_is_older_than_the_request_is_not_of_it(site, load):
    old = site.store("Hours", "Nine to five.")
    old.created_at -= timedelta(minutes=6)
    Lost(site, 2)
    load(*ROWS)
    again = load(*ROWS)
    assert (again["created"], again["unchanged"]) == (0, 3)
    assert len(site.documents) == 4


def test_a_list_without_contents_settles_by_title_and_time(site, load, monkeypatch):
    hide_contents(site, monkeypatch)
    Lost(site, 2)
    load(*ROWS)
    # An older document of a person has the same title.
    site.store("Hours", "Of a person").created_at -= timedelta(days=1)
    again = load(*ROWS)
    assert (again["created"], again["unchanged"]) == (0, 3)


def test_a_changed_row_supersedes_the_document_that_was_found(site, load, monkeypatch):
    hide_contents(site, monkeypatch)
    Lost(site, 2)
    load(*ROWS)
    changed = (ROWS[0], ("2", "Hours", "Ten to six."), ROWS[2])
    again = load(*changed)
    assert (again["created"], again["unchanged"], again["changed"]) == (1, 2, 1)
    assert [site.documents[row["remote_id"]].content for row in entries("superseded")] == ["Nine to five."]


def test_what_a_load_has_removed_is_not_of_a_new_row(site, load):
    load(*ROWS)
    remaining = (ROWS[0], ROWS[2])
    load(*remaining, options=("--on-missing", "deactivate"))
    # The row returns, and its create is rejected by the site without an answer.
    site.before = lambda _, method, __: 503 if method == "POST" else None
    load(*ROWS)
    site.before = lambda *_: None
    again = load(*ROWS, options=("--on-ambiguous", "skip"))
    assert (again["unchanged"], again["ambiguous"]) == (2, 1)


@pytest.mark.parametrize("draft", [True, False])
def test_the_status_of_the_document_is_recorded(draft, site, load):
    site.draft = draft
    Lost(site, 2)
    load(*ROWS)
    load(*ROWS)
    # A draft is activated.
    assert {row["status"] for row in entries()} == {"active"}


def hide_contents(site, monkeypatch):
    item = site._item

    def without_content(stored):
        shown = item(stored)
        del shown["content"]
        return shown

    monkeypatch.setattr(site, "_item", without_content)


def test_no_ambiguous_row_no_request(site, load):
    load(*ROWS)
    load(*ROWS)
    assert not [path for method, path in site.requests if path == site.names.list_path]


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_list_that_fails_for_now_stops_the_load(status, site, load):
    Lost(site, 2)
    load(*ROWS)
    site.missing["list"] = status
    again = load(*ROWS)
    assert again["error"]
    assert len(site.documents) == 3
    del site.missing["list"]
    assert load(*ROWS)["unchanged"] == 3


@pytest.mark.parametrize("status", [404, 403])
def test_without_a_list_on_ambiguous_decides(status, site, load):
    site.missing["list"] = status
    Lost(site, 2)
    load(*ROWS)
    again = load(*ROWS)
    assert (again["created"], again["possibly_duplicated"]) == (1, 1)


@pytest.mark.promise("loads", "A row that may exist twice is settled by the list of the site if it shows it once.")
@pytest.mark.parametrize(
    ("twice", "title"), [(False, "Hours"), (True, "Hours"), pytest.param(True, "Opening hours", id="other content")]
)
def test_a_doubt_about_a_second_document_ends_with_the_list(twice, title, site, load, monkeypatch):
    Lost(site, 2)
    site.missing["list"] = 404
    load(*ROWS)
    # The first document was not created after all, or it was.
    if not twice:
        del site.documents[next(one.id for one in site.documents.values() if one.title == "Hours")]
    rows = (ROWS[0], ("2", title, "Nine to five."), ROWS[2])
    assert load(*rows)["possibly_duplicated"] == 1
    del site.missing["list"]
    monkeypatch.setattr("airflow_provider_assistant.loading.reconcile.VISIBLE_AFTER", timedelta())
    load(*rows)
    assert [row["label"] for row in entries("doubled")] == (["2"] if twice else [])


def test_a_lost_ledger_is_restored(site, load, cli, tmp_path, ledger_home):  # noqa: F811 (fixture)
    load(*ROWS)
    by_hand = site.store("By hand", "Of a person")
    (ledger_home / "assistant_ledger.db").unlink()
    command = ("documents", "reconcile", tmp_path / "kb.csv", "--kind", "text", "--key", "id", "-o", "json")
    seen = cli(*command).json
    assert (len(seen["adopted"]), [one["document_id"] for one in seen["unknown"]]) == (3, [by_hand.id])
    assert entries() == []
    cli(*command, "--apply")
    assert load(*ROWS)["unchanged"] == 3
    # A document that somebody deleted is created again.
    del site.documents[entries()[0]["remote_id"]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("airflow_provider_assistant.loading.reconcile.VISIBLE_AFTER", timedelta())
        assert len(cli(*command, "--apply").json["missing"]) == 1
    assert load(*ROWS)["created"] == 1
