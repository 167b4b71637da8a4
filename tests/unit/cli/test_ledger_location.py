"""Which ledger the commands use, and that they refuse a file that the workers do not share."""

from __future__ import annotations

import sqlite3

import pytest

from tests.unit.cli.test_definition import ACTIONS

LOAD = ("--key", "id")
COMMANDS = {
    "list": (),
    "resolve": ("--as", "not-created"),
    "rename": ("old", "new"),
    "loads": (),
    "prune": ("--older-than", "30"),
}


@pytest.fixture
def ledgers(tmp_path, monkeypatch):
    """Connections to three ledgers. Return a function that counts their documents."""
    for name in ("by_flag", "by_team", "by_config"):
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", f"sqlite:///{tmp_path}/{name}.db")

    def counted():
        found = {}
        for path in tmp_path.glob("by_*.db"):
            with sqlite3.connect(path) as raw:
                found[path.stem] = raw.execute("SELECT count(*) FROM assistant_attempts").fetchone()[0]
        return found

    return counted


@pytest.fixture
def cluster(monkeypatch):
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "CeleryExecutor")


def test_every_command_that_uses_the_ledger_takes_its_connection():
    using = {name for name in ACTIONS if " ledger " in name} | {
        "assistant load",
        "assistant documents reconcile",
        "assistant erase",
    }
    taking = {
        name for name, command in ACTIONS.items() if "--ledger-conn-id" in str([arg.flags for arg in command.args])
    }
    assert taking == using
    assert set(COMMANDS) == {name.split()[-1] for name in using if " ledger " in name}


def test_the_flag_wins_over_the_connection(cli, connect, faq, ledgers, service):
    connect(ledger_conn_id="by_team")
    assert cli("load", faq, *LOAD, "--ledger-conn-id", "by_flag").code == 0
    assert ledgers() == {"by_flag": 3}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_uses_the_ledger_of_the_flag(name, cli, ledgers, monkeypatch):
    monkeypatch.setenv("AIRFLOW__ASSISTANT__LEDGER_CONN_ID", "by_config")
    cli("ledger", name, *COMMANDS[name], "--ledger-conn-id", "by_flag")
    assert ledgers() == {"by_flag": 0}


def test_an_error_names_the_flag(cli):
    ran = cli("ledger", "list", "--ledger-conn-id", "gone")
    assert ran.code == 5
    assert "connection 'gone', from --ledger-conn-id: it does not exist" in ran.err


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_refuses_a_file_of_this_machine(name, cli, cluster, ledger_home):
    ran = cli("ledger", name, *COMMANDS[name])
    assert (ran.code, ran.out) == (5, "")
    assert "ledger_file_is_shared = True" in ran.err
    assert list(ledger_home.iterdir()) == []
