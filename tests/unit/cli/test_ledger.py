"""The ledger commands: listing entries, settling them, and keeping the ledger small."""

from __future__ import annotations

import os
from datetime import timedelta

import pytest

from airflow_provider_assistant.cli.output import Console
from airflow_provider_assistant.ledger import Ledger, Site, sqlite_engine
from airflow_provider_assistant.loading.findings import Finding, FindingsFile
from tests.ledgers import SITE, Filler

SHOP = Site("h.example", "shop")


@pytest.fixture
def fill(ledger_home) -> Filler:
    with Ledger(sqlite_engine(ledger_home / "assistant_ledger.db")) as ledger:
        yield Filler(ledger.engine)


@pytest.fixture
def listed(cli):
    """Return the keys of a list."""

    def keys(state, *filters):
        return [entry["key"] for entry in cli("ledger", "list", "--state", state, *filters, "-o", "json").json]

    return keys


def test_an_empty_ledger(cli):
    assert cli("ledger", "list", "-o", "json").json["states"] == []
    ran = cli("ledger", "list", "--state", "unresolved")
    assert (ran.code, ran.out) == (0, "0 entries are unresolved.\n")


def test_without_a_state_all_lists_are_counted(cli, fill, ledger_home):
    fill.attempt("a", "created", gone=True)
    fill.attempt("b", "ambiguous")
    fill.attempt("c", "ambiguous", site=SHOP)
    found = cli("ledger", "list", "-o", "json").json
    assert found["ledger"] == f"{ledger_home}/assistant_ledger.db"
    counted = {name: count for name, count in found["lists"].items() if count}
    assert counted == {"created": 1, "unresolved": 2, "stale": 1}
    assert [(row["site_id"], row["state"], row["entries"]) for row in found["states"]] == [
        ("help", "ambiguous", 1),
        ("help", "created", 1),
        ("shop", "ambiguous", 1),
    ]
    assert cli("ledger", "list", "--site", "shop", "-o", "json").json["lists"]["unresolved"] == 1
    assert ["unresolved", "2"] in cli("ledger", "list", "-o", "plain").lines


def test_a_ledger_on_a_server_does_not_show_its_password(cli, monkeypatch):
    monkeypatch.setenv("AIRFLOW__ASSISTANT__LEDGER_CONN_ID", "ledger_db")
    monkeypatch.setenv("AIRFLOW_CONN_LEDGER_DB", "postgresql://me:sesame-1234@127.0.0.1:1/none")
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _: None)
    ran = cli("ledger", "list")
    assert (ran.code, ran.out) == (2, "")
    assert "sesame" not in ran.err


def test_entries_are_listed_with_what_is_known(cli, fill, listed):
    fill.attempt("sku=1", "ambiguous", error="503 Service Unavailable", kind="text")
    fill.attempt("sku=2", "claimed", hours=0, dag_id="other.kb", site=SHOP)
    ran = cli("ledger", "list", "--state", "unresolved", "-o", "plain")
    assert (ran.code, len(ran.lines)) == (1, 4)
    lines = {line[0]: line for line in ran.lines}
    assert lines["sku=1"][1:6] == ["text", "help", "mine.kb.load", "", "ambiguous"]
    assert lines["sku=1"][-1] == "503 Service Unavailable"
    assert lines["sku=2"][5] == "being sent"
    filters = {"--site": "shop", "--source": "other.kb.load", "--key": "KU=2", "--kind": "qa"}
    assert [listed("unresolved", *one) for one in filters.items()] == [["sku=2"]] * 4
    # Nobody has to look at these.
    fill.attempt("fine", "created")
    assert cli("ledger", "list", "--state", "created").code == 0


@pytest.mark.promise(
    "command line", "An id that the ledger does not know is refused, and never taken for the beginning of a key."
)
def test_a_document_is_settled_by_its_id(cli, fill, listed):
    key = fill.attempt("a", "created", remote_id="doc-1", gone=True)
    fill.attempt("b", "created", remote_id="doc-2", gone=True)
    for name in (key, key[:6], "doc", "123456"):
        ran = cli("ledger", "resolve", "--as", "removed", "--id", name)
        assert (ran.code, "has no entry with the id" in ran.err) == (2, True)
    nothing = cli("ledger", "resolve", "--as", "removed")
    assert (nothing.code, "no document selected" in nothing.err, set(listed("stale"))) == (2, True, {"a", "b"})
    done = cli("ledger", "resolve", "--as", "removed", "--id", "doc-1")
    assert (done.code, done.out) == (0, f"1 entry was settled as removed on {SITE}.\n")
    assert listed("stale") == ["b"]


def test_what_was_found_on_the_site_gets_its_id(cli, fill):
    fill.attempt("a", "ambiguous")
    fill.attempt("b", "ambiguous")
    several = cli("ledger", "resolve", "--as", "created", "--id", "doc-7")
    assert (several.code, "exactly one entry, and 2 entries match" in several.err) == (2, True)
    assert cli("ledger", "resolve", "--as", "created", "--id", "doc-7", "--key", "a").code == 0
    (entry,) = cli("ledger", "list", "--state", "created", "-o", "json").json
    assert (entry["key"], entry["document_id"]) == ("a", "doc-7")


@pytest.mark.promise(
    "command line",
    "A list is settled as a whole only after it was shown, and only if it has not changed.",
)
def test_all_of_a_list_are_settled_after_one_look(cli, fill, listed):
    for number in range(3):
        fill.attempt(f"sku={number}", "ambiguous")
    command = ("ledger", "resolve", "--as", "created", "--source", "mine.kb.load")
    shown = cli(*command, "-o", "json")
    assert (shown.code, shown.json["entries"], shown.json["changed"]) == (1, 3, False)
    refused = cli(*command, "--key", "2", "--confirm", shown.json["confirm"])
    assert (refused.code, "the list has changed" in refused.err) == (2, True)
    assert len(listed("unresolved")) == 3
    done = cli(*command, "--confirm", shown.json["confirm"])
    assert (done.code, "3 entries were settled as created" in done.out) == (0, True)
    assert listed("unresolved") == []


@pytest.mark.parametrize(("reply", "state"), [("yes", "stale"), ("no", None), (None, None)])
def test_a_person_is_asked(reply, state, cli, fill, listed, monkeypatch):
    def ask(_, __):
        if reply is None:
            raise EOFError
        return reply

    monkeypatch.setattr(Console, "ask", ask)
    fill.attempt("a", "created", gone=True)
    fill.attempt("b", "claimed", hours=0)
    ran = cli("ledger", "resolve", "--as", "removed", "--state", "stale")
    assert "1 entry would be settled as removed" in ran.out
    assert (ran.code, listed("stale")) == ((0, []) if state else (1, ["a"]))


def test_what_a_task_is_sending_stays(cli, fill, listed):
    fill.attempt("a", "claimed", hours=0)
    ran = cli("ledger", "resolve", "--as", "not-created", "-o", "json")
    assert (ran.json["entries"], ran.json["kept"]) == (0, {"A task may be sending it right now.": 1})
    assert listed("unresolved") == ["a"]


def test_a_service_gets_another_name(cli, fill):
    fill.attempt("a", "created")
    fill.attempt("b", "created", site=SHOP)
    command = ("ledger", "rename", "h.example", "new.example")
    assert cli(*command, "--site", "shop", "--dry-run", "-o", "json").json == {"entries": 1, "dry_run": True}
    assert cli(*command, "-o", "json").json["entries"] == 2
    services = {row["service"] for row in cli("ledger", "list", "-o", "json").json["states"]}
    assert services == {"new.example"}
    again = cli(*command)
    assert (again.code, "has no entry of service 'h.example'" in again.err) == (2, True)
    assert cli("ledger", "rename", "a", " ").code == 2


@pytest.mark.promise("command line", "The list of loads shows where the findings of each are.")
def test_loads_are_listed_with_their_findings(cli, fill):
    fill.load(hours=3, outcome="failed", error="1 row was rejected")
    fill.load(hours=2, outcome="succeeded with findings", findings=[Finding("rejected", "key", "reason")])
    fill.load("other.kb", hours=1, site=SHOP, outcome=None)
    found = cli("ledger", "loads", "-o", "json").json
    assert [(load["outcome"], load["findings"], load["error"]) for load in found] == [
        ("unfinished", None, None),
        ("succeeded with findings", "/findings.parquet", None),
        ("failed", None, "1 row was rejected"),
    ]
    lines = cli("ledger", "loads", "--site", "help", "--limit", "1", "-o", "plain").lines
    assert [line[-1] for line in lines] == ["findings", "/findings.parquet"]
    assert len(cli("ledger", "loads", "--source", "other.kb.load", "-o", "json").json) == 1


def test_what_is_old_and_no_longer_needed_is_pruned(cli, fill, ledger_home):
    for label, state in {"a": "created", "b": "rejected", "c": "ambiguous"}.items():
        fill.attempt(label, state, hours=24 * 100)
    fill.load(hours=24 * 100)
    folder = ledger_home / "assistant_loads"
    for name in ("old", "new"):
        with FindingsFile(folder / f"{name}.parquet") as file:
            file.add(Finding("rejected", "key", "reason"))
    moment = (fill.now - timedelta(days=100)).timestamp()
    os.utime(folder / "old.parquet", (moment, moment))
    expected = {"qa": 1, "tries": 1, "findings_files": 1}
    later = cli("ledger", "prune", "--older-than", "101", "-o", "json").json
    assert [later.get(name, 0) for name in expected] == [0] * 3
    for flags in (("--dry-run",), ()):
        ran = cli("ledger", "prune", "--older-than", "99", *flags, "-o", "json").json
        assert {name: ran[name] for name in expected} == expected
    assert [file.name for file in folder.iterdir()] == ["new.parquet"]
    states = cli("ledger", "list", "-o", "json").json["states"]
    kept = {("qa", "created"), ("qa", "ambiguous")}
    assert {(row["kind"], row["state"]) for row in states} == kept


@pytest.mark.parametrize("argv", [("prune", "--older-than"), ("loads", "--limit")])
@pytest.mark.parametrize("number", ["-1", "0", "9" * 25])
def test_numbers_are_bounded(cli, argv, number):
    ran = cli("ledger", argv[0], f"{argv[1]}={number}")
    assert (ran.code, argv[1] in ran.err) == (2, True)


COMMANDS = {
    "list": (),
    "resolve": ("--as", "not-created"),
    "rename": ("old", "new"),
    "loads": (),
    "prune": ("--older-than", "30"),
}


@pytest.mark.promise(
    "command line", "Every command uses the ledger that the workers share, and refuses a file of one machine."
)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_uses_the_ledger_that_the_workers_share(name, cli, ledger_home, tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "CeleryExecutor")
    refused = cli("ledger", name, *COMMANDS[name])
    assert (refused.code, refused.out, list(ledger_home.iterdir())) == (2, "", [])
    assert "ledger_file_is_shared = True" in refused.err
    monkeypatch.delenv("AIRFLOW__CORE__EXECUTOR")
    monkeypatch.setenv("AIRFLOW_CONN_SHARED", f"sqlite:///{tmp_path}/shared.db")
    monkeypatch.setenv("AIRFLOW__ASSISTANT__LEDGER_CONN_ID", "shared")
    cli("ledger", name, *COMMANDS[name])
    assert (tmp_path / "shared.db").is_file()
