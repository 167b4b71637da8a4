"""Which database is the ledger, and that a file is refused if the workers do not share it."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
import sqlalchemy as sa
from airflow.providers.common.compat.sdk import BaseHook, Connection

from airflow_provider_assistant.exceptions import AssistantLedgerError
from airflow_provider_assistant.ledger import Ledger
from airflow_provider_assistant.ledger.location import CONFIGURED, CONTAINER_VARIABLES
from tests.task_runs.finals import is_final

CONN_ID, SHARED = "AIRFLOW__ASSISTANT__LEDGER_CONN_ID", "AIRFLOW__ASSISTANT__LEDGER_FILE_IS_SHARED"


@pytest.fixture
def cluster(monkeypatch):
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "CeleryExecutor")


def refused():
    with pytest.raises(AssistantLedgerError, check=is_final) as caught:
        Ledger.open()
    return str(caught.value)


def test_connections_that_cannot_be_used_are_refused_with_what_to_do(ledger_home, monkeypatch):
    secret = "sesame-1234"
    query = f'{{"conn_type": "postgres", "password": "{secret}", "extra": {{"sqlalchemy_query": "x"}}}}'
    values = {
        f"postgresql://me:{secret}@h:notaport/db": "it does not exist, or its value cannot be read",
        f'{{"conn_type": "postgres", "port": "notaport", "password": "{secret}"}}': "its port is not a number",
        f"{{{secret}": "it does not exist, or its value cannot be read",
        f"http://me:{secret}@h/": "it cannot be used for SQL",
        f'{{"conn_type": "nothing", "password": "{secret}"}}': "it cannot be used for SQL",
        f'{{"conn_type": "generic", "password": "{secret}"}}': "it cannot be used for SQL",
        query: "it cannot be used for SQL",
    }
    monkeypatch.setenv(CONN_ID, "team")
    for value, words in values.items():
        monkeypatch.setenv("AIRFLOW_CONN_TEAM", value)
        message = refused()
        assert f"connection 'team', from {CONFIGURED}: " in message
        assert words in message
        assert "Nothing was sent" in message
        assert secret not in message


def test_a_file_is_refused_with_what_to_set(ledger_home, cluster):
    message = refused()
    assert f"{ledger_home}/assistant_ledger.db on this machine" in message
    assert "[core] executor is 'CeleryExecutor'" in message
    assert "Nothing was sent." in message
    assert list(ledger_home.iterdir()) == []


def test_what_to_set_can_be_pasted(ledger_home, cluster):
    message = refused()
    conn_id, name, uri = re.search(rf"{CONN_ID}=(\S+) and AIRFLOW_CONN_(\w+)=(\S+) ", message).groups()
    assert name == conn_id.upper()
    assert Connection.from_uri(uri, conn_id=conn_id).conn_type == "postgres"
    section, option, value = re.search(r"\[(\w+)\] (\w+) = (\w+)", message).groups()
    assert f"AIRFLOW__{section}__{option}".upper() == SHARED
    assert value == "True"


@pytest.mark.parametrize("variable", CONTAINER_VARIABLES)
def test_a_file_is_refused_in_a_container_for_one_task(variable, ledger_home, monkeypatch):
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "LocalExecutor")
    monkeypatch.setenv(variable, "True")
    assert variable in refused()


def test_a_file_may_be_shared(ledger_home, cluster, monkeypatch):
    monkeypatch.setenv(SHARED, "True")
    Ledger.open().close()
    assert (ledger_home / "assistant_ledger.db").is_file()


def test_sqlite_behind_a_connection_is_a_file_too(ledger_home, cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_TEAM", f"sqlite:///{tmp_path}/team.db")
    monkeypatch.setenv(CONN_ID, "team")
    assert f"{tmp_path}/team.db (connection 'team', from {CONFIGURED})" in refused()
    assert not (tmp_path / "team.db").exists()
    monkeypatch.setenv(SHARED, "True")
    Ledger.open().close()
    assert (tmp_path / "team.db").exists()


def test_a_server_is_not_refused(ledger_home, cluster, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_TEAM", "postgresql://me:sesame-1234@127.0.0.1:1/none?connect_timeout=1")
    monkeypatch.setenv(CONN_ID, "team")
    monkeypatch.setattr("tenacity.nap.time", SimpleNamespace(sleep=lambda _: None))
    with pytest.raises(Exception, match="cannot be opened") as caught:
        Ledger.open()
    assert caught.value.retryable


def test_other_databases_are_refused_by_name(monkeypatch):
    class MySqlHook:
        def get_sqlalchemy_engine(self):
            return sa.create_mock_engine("mysql://", lambda *_: None)

    monkeypatch.setenv(CONN_ID, "team")
    monkeypatch.setattr(BaseHook, "get_hook", lambda _: MySqlHook())
    text = r"cannot use mysql \(connection 'team'.*Nothing was sent. Only SQLite and PostgreSQL are supported"
    with pytest.raises(AssistantLedgerError, match=text):
        Ledger.open()


def test_a_task_that_only_records_goes_on(ledger_home, cluster, caplog):
    with Ledger.open_optional() as ledger:
        assert ledger is None
    assert "Going on without the ledger" in caplog.text


def test_the_file_is_logged_once(ledger_home, caplog, monkeypatch, tmp_path):
    caplog.set_level("INFO")
    for _ in range(3):
        Ledger.open().close()
    said = [record for record in caplog.records if record.levelname == "INFO"]
    assert sum("is the file" in record.getMessage() for record in said) == 1
    assert str(ledger_home / "assistant_ledger.db") in caplog.text
    caplog.clear()
    monkeypatch.setenv("AIRFLOW_CONN_TEAM", f"sqlite:///{tmp_path}/team.db")
    monkeypatch.setenv(CONN_ID, "team")
    Ledger.open().close()
    assert "on this machine" not in caplog.text
