"""The ledger and the documents of a site, compared: on the command line and by the operator."""

from __future__ import annotations

from random import Random

import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant import lake
from airflow_provider_assistant.cli import document_diff
from airflow_provider_assistant.ledger import Claim, ClaimOutcome, DocumentScope, RunRef
from airflow_provider_assistant.transfers.compare_documents import AssistantCompareDocumentsOperator
from tests.document_site import PAGINGS, DocumentSite, Names
from tests.task_runs.context import execute_operator
from tests.unit.cli.conftest import _as_before, cli  # noqa: F401 (fixtures)
from tests.unit.loading.test_settling import CONN, source_of

KINDS = ("gone", "doubled", "superseded", "removed", "draft", "not_ready", "unknown")


@pytest.fixture
def site(monkeypatch):
    with DocumentSite() as started:
        monkeypatch.setenv(CONN, started.connection())
        yield started


@pytest.fixture
def load(cli, tmp_path):  # noqa: F811 (fixture)
    """Load texts by key, each with the key as its title, and return the ids of the documents by key."""

    def loaded(site, contents):
        before = set(site.documents)
        rows = [(key, f"Title {key}", content) for key, content in contents.items()]
        ran = cli("load", source_of(tmp_path / "kb.csv", *rows), "--kind", "text", "--key", "id", "-o", "json")
        assert ran.code == 0
        new = [stored for document_id, stored in site.documents.items() if document_id not in before]
        return {stored.title.removeprefix("Title "): stored.id for stored in new}

    return loaded


def found_by(ran):
    return {(one["kind"], one["document_id"]) for one in ran.json["differences"]}


def test_nothing_differs(site, load, cli):  # noqa: F811 (fixture)
    load(site, {"1": "a", "2": "b"})
    ran = cli("documents", "diff", "-o", "json")
    assert ran.code == 0
    expected = {"documents": 2, "in_ledger": 2, "without_id": 0, **dict.fromkeys(KINDS, 0)}
    assert expected.items() <= ran.json.items()
    assert cli("documents", "diff").out == "site help: 2 documents, 2 in the ledger: no differences\n"


@pytest.mark.promise(
    "documents of a site", "The ledger and a site are compared, and every document that differs is named."
)
def test_every_kind(site, load, cli, tmp_path):  # noqa: F811 (fixture)
    ids = load(site, {"1": "a", "2": "b", "3": "c", "4": "d", "5": "e", "6": "f"})
    changed = load(site, {"1": "a", "2": "b", "3": "c", "4": "d", "5": "e", "6": "new"})
    del site.documents[ids["1"]]
    site.documents[ids["2"]].active = False
    site.documents[ids["3"]].processing = 5
    twin = site.store("Title 4", "d").id
    person = site.store("By hand", "x").id
    # A draft with the same content is not in use.
    draft = site.store("Title 5", "e", active=False).id
    ran = cli("documents", "diff", "-o", "json", "--save", tmp_path / "diff.parquet")
    assert ran.code == 1
    assert found_by(ran) == {
        ("gone", ids["1"]),
        ("draft", ids["2"]),
        ("not_ready", ids["3"]),
        ("doubled", twin),
        ("superseded", ids["6"]),
        ("unknown", person),
        ("unknown", draft),
    }
    assert ran.json["documents"] == 9
    assert ran.json["in_ledger"] == 6
    by_id = {one["document_id"]: one for one in ran.json["differences"]}
    assert by_id[ids["1"]]["label"] == "1"
    assert by_id[ids["1"]]["source"] == str(tmp_path / "kb.csv")
    assert by_id[twin]["other_id"] == ids["4"]
    assert by_id[person]["source"] is None
    assert changed["6"] not in by_id
    saved = pq.read_table(tmp_path / "diff.parquet")
    assert saved.schema.names == list(lake.DOCUMENT_DIFFERENCES.columns)
    assert {(row["kind"], row["document_id"]) for row in saved.to_pylist()} == found_by(ran)
    # A deactivated document that was superseded is as it should be.
    site.documents[ids["6"]].active = False
    assert ("superseded", ids["6"]) not in found_by(cli("documents", "diff", "-o", "json"))


@pytest.mark.parametrize("change", ["deactivate", "delete"])
def test_what_a_load_has_removed(change, site, load, cli, tmp_path):  # noqa: F811 (fixture)
    ids = load(site, {"1": "a", "2": "b"})
    gone = site.documents[ids["2"]]
    source = source_of(tmp_path / "kb.csv", ("1", "Title 1", "a"))
    assert cli("load", source, "--kind", "text", "--key", "id", "--on-missing", change).code == 0
    assert cli("documents", "diff", "-o", "json").json["differences"] == []
    # Someone restores it.
    gone.active = True
    site.documents[gone.id] = gone
    assert found_by(cli("documents", "diff", "-o", "json")) == {("removed", gone.id)}


@pytest.mark.parametrize("seed", range(2))
def test_random_sites(seed, monkeypatch, load, cli):  # noqa: F811 (fixture)
    rng = Random(seed)
    with DocumentSite(Names.random(rng), paging=rng.choice(PAGINGS), page_size=rng.randint(1, 7)) as site:
        monkeypatch.setenv(CONN, site.connection())
        ids = load(site, {str(number): f"Text {number}" for number in range(20)})
        keys = sorted(ids)
        rng.shuffle(keys)
        expected = set()
        for key in keys[: rng.randint(0, 5)]:
            del site.documents[ids[key]]
            expected.add(("gone", ids[key]))
        for key in keys[5 : 5 + rng.randint(0, 5)]:
            site.documents[ids[key]].active = False
            expected.add(("draft", ids[key]))
        for key in keys[10 : 10 + rng.randint(0, 5)]:
            expected.add(("doubled", site.store(f"Title {key}", f"Text {key}").id))
        for number in range(rng.randint(0, 5)):
            expected.add(("unknown", site.store(f"By hand {number}", "x").id))
        ran = cli("documents", "diff", "-o", "json")
    assert found_by(ran) == expected


def test_only_what_two_readings_miss_is_gone(site, load, cli, monkeypatch):  # noqa: F811 (fixture)
    ids = load(site, {"1": "a", "2": "b", "3": "c"})
    del site.documents[ids["3"]]
    listed = site._listed
    readings = []

    def without_the_second(query):
        readings.append(query)
        hidden = site.documents.pop(ids["2"]) if len(readings) == 1 else None
        try:
            return listed(query)
        finally:
            if hidden:
                site.documents[ids["2"]] = hidden

    monkeypatch.setattr(site, "_listed", without_the_second)
    assert found_by(cli("documents", "diff", "-o", "json")) == {("gone", ids["3"])}
    assert len(readings) == 2


def test_what_a_load_creates_meanwhile_is_known(site, load, cli, monkeypatch):  # noqa: F811 (fixture)
    load(site, {"1": "a"})
    ids = {}
    compare = document_diff.compare

    def during_the_comparison(ledger, compared_site, read_list):
        def read():
            ids.update(_created(ledger, compared_site, site))
            yield from read_list()

        return compare(ledger, compared_site, read)

    monkeypatch.setattr(document_diff, "compare", during_the_comparison)
    assert found_by(cli("documents", "diff", "-o", "json")) == set()
    assert ids


def _created(ledger, compared_site, site):
    """Create a document and record it, as another process does."""
    stored = site.store("Later", "z")
    with ledger.documents(
        scope=DocumentScope(compared_site, "documents/text"),
        source="other",
        run=RunRef("d", "r", "t", -1),
    ) as entries:
        claim = Claim("0123456789abcdef" * 2, "later", None)
        entries.commit_and_claim((), [claim])
        entries.commit_and_claim([ClaimOutcome(claim, "created", "hash", stored.id)], ())
    return {"later": stored.id}


def test_without_management_there_is_nothing_to_compare(site, cli, monkeypatch):  # noqa: F811 (fixture)
    monkeypatch.setenv(CONN, site.connection(manage_documents=False))
    ran = cli("documents", "diff")
    assert ran.code == 2
    assert "manage_documents" in ran.err


def test_many_unknown_documents_are_cut_in_text(site, cli):  # noqa: F811 (fixture)
    for number in range(30):
        site.store(f"By hand {number}", "x")
    ran = cli("documents", "diff")
    assert ran.code == 0
    assert ran.out.count("By hand") == 20
    assert "… and 10 more" in ran.out


@pytest.fixture
def compared(tmp_path):
    def run():
        operator = AssistantCompareDocumentsOperator(task_id="compare", output_path=str(tmp_path / "lake"))
        return execute_operator(operator)

    return run


def test_the_operator_writes_the_differences(site, load, compared, capsys):
    ids = load(site, {"1": "a", "2": "b"})
    assert compared()["rows"] == 0
    assert "[warning" not in capsys.readouterr().out
    del site.documents[ids["2"]]
    person = site.store("By hand", "x").id
    result = compared()
    assert (result["gone"], result["unknown"], result["rows"], result["documents"]) == (1, 1, 2, 2)
    totals = {"documents", "in_ledger", "without_id", "rows", "path", "bytes", "site_id", "date"}
    assert set(result) == {*totals, *KINDS}
    rows = pq.ParquetFile(result["path"]).read().to_pylist()
    assert [(row["kind"], row["document_id"], row["label"]) for row in rows] == [
        ("gone", ids["2"], "2"),
        ("unknown", person, None),
    ]
    assert {(row["dag_id"], row["task_id"], row["site_id"]) for row in rows} == {("dag", "compare", "help")}
    assert "[warning  ] Site 'help': 2 documents, 2 in the ledger: 1 gone, 1 unknown." in capsys.readouterr().out
