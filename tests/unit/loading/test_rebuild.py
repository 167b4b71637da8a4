"""A lost ledger is rebuilt from the source and the list of the site."""

from __future__ import annotations

from random import Random

import pytest

from airflow_provider_assistant.ledger import Ledger
from tests.document_site import PAGINGS, DocumentSite, Names
from tests.unit.cli.conftest import _as_before, cli  # noqa: F401 (fixtures)
from tests.unit.loading.test_settling import CONN, hide_contents, rows_of_ledger, source_of

OPTIONS = ("--kind", "text", "--key", "id", "-o", "json")
# What a rebuild restores; the rest says who sent the row and when.
RESTORED = ("scope", "key", "site_url", "site_id", "source", "label", "outcome", "content_hash", "document_id")


@pytest.fixture
def site(monkeypatch):
    with DocumentSite() as started:
        monkeypatch.setenv(CONN, started.connection())
        yield started


@pytest.fixture
def lose(ledger_home):
    """Delete the ledger."""

    def lost():
        for file in ledger_home.glob("assistant_ledger.db*"):
            file.unlink()

    return lost


def entries():
    with Ledger.open() as ledger:
        rows = ledger.read(rows_of_ledger)
    return sorted(tuple(row[name] for name in RESTORED) for row in rows)


def adds_up(result):
    assert result["rows"] == result["matched"] + result["duplicates"] + len(result["unmatched_rows"])
    assert result["documents"] == result["matched"] + result["in_ledger"] + len(result["unmatched_documents"])


@pytest.mark.promise(
    "ledger", "A lost ledger is rebuilt from the source and the list of the site: the next load sends nothing."
)
@pytest.mark.parametrize("seed", range(2))
def test_the_next_load_has_nothing_to_do(seed, monkeypatch, cli, tmp_path, lose):  # noqa: F811 (fixture)
    rng = Random(seed)
    rows = [(str(number), f"Title {rng.randint(0, 5)}", f"Text {number}") for number in range(30)]
    file = source_of(tmp_path / "kb.csv", *rows, rows[3])
    with DocumentSite(
        Names.random(rng), paging=rng.choice(PAGINGS), page_size=rng.randint(1, 9), draft=rng.random() < 0.3
    ) as site:
        monkeypatch.setenv(CONN, site.connection())
        cli("load", file, *OPTIONS)
        by_hand = [site.store(f"By hand {number}", "x").id for number in range(rng.randint(0, 4))]
        before = entries()
        lose()
        tried = cli("ledger", "rebuild", file, *OPTIONS, "--dry-run")
        assert entries() == []
        ran = cli("ledger", "rebuild", file, *OPTIONS)
        assert ran.code == tried.code == 0
        assert tried.json == {**ran.json, "dry_run": True}
        assert (ran.json["rows"], ran.json["matched"], ran.json["recorded"], ran.json["duplicates"]) == (31, 30, 30, 1)
        assert [document["document_id"] for document in ran.json["unmatched_documents"]] == by_hand
        adds_up(ran.json)
        assert entries() == before
        again = cli("load", file, *OPTIONS).json
        assert (again["created"], again["unchanged"]) == (0, 31)
        # A second rebuild finds everything there.
        assert cli("ledger", "rebuild", file, *OPTIONS).json["recorded"] == 0


def test_what_does_not_fit_is_listed(site, cli, tmp_path, lose):  # noqa: F811 (fixture)
    rows = [("1", "A", "a"), ("2", "B", "b"), ("3", "C", "c"), ("4", "D", "same"), ("5", "D", "same")]
    file = source_of(tmp_path / "kb.csv", *rows)
    cli("load", file, *OPTIONS)
    ids = {stored.title: stored.id for stored in site.documents.values()}
    lose()
    del site.documents[ids["A"]]
    site.documents[ids["D"]].content = "edited"
    twin = site.store("B", "b").id
    source_of(file, *rows, ("6", "E", ""))
    ran = cli("ledger", "rebuild", file, *OPTIONS)
    assert ran.code == 1
    reasons = {row["number"]: row["reason"] for row in ran.json["unmatched_rows"]}
    assert "kb.csv, line 7" in reasons.pop(6)
    assert reasons == {
        1: "no document fits",
        2: "2 documents fit",
        4: "its document fits other rows, too",
        5: "its document fits other rows, too",
    }
    titles = sorted(document["title"] for document in ran.json["unmatched_documents"])
    assert titles == ["B", "B", "D", "D"]
    assert twin in {document["document_id"] for document in ran.json["unmatched_documents"]}
    adds_up(ran.json)
    assert len(entries()) == 1
    text = cli("ledger", "rebuild", file, *OPTIONS[:-2], "--dry-run").out
    assert "6 rows: 1 matched (0 would be recorded), 0 duplicates, 5 without a document" in text


def test_a_list_without_contents_needs_unique_titles(site, cli, tmp_path, lose, monkeypatch):  # noqa: F811 (fixture)
    hide_contents(site, monkeypatch)
    file = source_of(tmp_path / "kb.csv", ("1", "A", "a"), ("2", "B", "b"), ("3", "B", "c"))
    cli("load", file, *OPTIONS)
    lose()
    ran = cli("ledger", "rebuild", file, *OPTIONS)
    assert (ran.json["matched"], ran.json["by_title"]) == (1, 1)
    assert [row["number"] for row in ran.json["unmatched_rows"]] == [2, 3]
    adds_up(ran.json)


def test_documents_of_another_source_are_not_taken(site, cli, tmp_path, lose):  # noqa: F811 (fixture)
    file = source_of(tmp_path / "kb.csv", ("1", "A", "a"), ("2", "B", "b"))
    other = source_of(tmp_path / "other.csv", ("x", "A", "a"))
    cli("load", other, *OPTIONS, "--namespace", "other")
    cli("load", source_of(tmp_path / "kb.csv", ("2", "B", "b")), *OPTIONS)
    with Ledger.open() as ledger, ledger.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM assistant_documents WHERE source LIKE '%kb.csv'")
    source_of(file, ("1", "A", "a"), ("2", "B", "b"))
    ran = cli("ledger", "rebuild", file, *OPTIONS)
    assert (ran.json["matched"], ran.json["in_ledger"]) == (1, 1)
    assert [row["number"] for row in ran.json["unmatched_rows"]] == [1]
    adds_up(ran.json)


@pytest.mark.parametrize("change", ["content", "more", "document"])
def test_a_ledger_with_other_entries_is_refused(change, site, cli, tmp_path):  # noqa: F811 (fixture)
    rows = [("1", "A", "a"), ("2", "B", "b")]
    file = source_of(tmp_path / "kb.csv", *rows)
    cli("load", file, *OPTIONS)
    first = next(iter(site.documents.values()))
    if change == "content":
        first.content = "new"
        source_of(file, ("1", "A", "new"), rows[1])
    elif change == "more":
        source_of(file, rows[1])
    else:
        del site.documents[first.id]
        site.store("A", "a")
    before = entries()
    ran = cli("ledger", "rebuild", file, *OPTIONS)
    assert ran.code == 2
    assert f"already has entries of source '{file}'" in ran.err
    assert entries() == before


def test_groups_are_restored(site, cli, tmp_path, lose):  # noqa: F811 (fixture)
    file = tmp_path / "kb.csv"
    file.write_text("id,title,content,page\n1,A,a,p\n2,B,b,q\n")
    options = (*OPTIONS, "--group", "page")
    cli("load", file, *options)
    lose()
    assert cli("ledger", "rebuild", file, *options).code == 0
    file.write_text("id,title,content,page\n1,A,a,p\n3,C,c,q\n")
    stale = cli("ledger", "stale", file, *options).json
    assert [(one["label"], one["group"]) for one in stale] == [("2", "q")]


def test_questions_are_matched_by_question_and_answer(site, cli, tmp_path, lose):  # noqa: F811 (fixture)
    file = tmp_path / "faq.csv"
    file.write_text("id,question,answer\n1,Open?,Yes.\n2,Paid?,Yes.\n")
    cli("load", file, "--key", "id")
    before = entries()
    lose()
    ran = cli("ledger", "rebuild", file, "--key", "id", "-o", "json")
    assert (ran.json["matched"], ran.json["by_title"]) == (2, 0)
    assert entries() == before
