"""Which ledger the commands use, and that they refuse a file that the workers do not share."""

from __future__ import annotations

import pytest

COMMANDS = {
    "list": (),
    "resolve": ("--as", "not-created"),
    "rename": ("old", "new"),
    "loads": (),
    "prune": ("--older-than", "30"),
}


@pytest.fixture
def cluster(monkeypatch):
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "CeleryExecutor")


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_uses_the_ledger_of_the_configuration(name, cli, tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_SHARED", f"sqlite:///{tmp_path}/shared.db")
    monkeypatch.setenv("AIRFLOW__ASSISTANT__LEDGER_CONN_ID", "shared")
    cli("ledger", name, *COMMANDS[name])
    assert (tmp_path / "shared.db").is_file()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_refuses_a_file_of_this_machine(name, cli, cluster, ledger_home):
    ran = cli("ledger", name, *COMMANDS[name])
    assert (ran.code, ran.out) == (5, "")
    assert "ledger_file_is_shared = True" in ran.err
    assert list(ledger_home.iterdir()) == []
