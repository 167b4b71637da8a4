"""AssistantParquetToIcebergOperator: its arguments, results and errors, and the secret of its connection."""

from __future__ import annotations

import json
import sys
import threading
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from airflow_provider_assistant.exceptions import AssistantInputError, AssistantWarehouseError
from airflow_provider_assistant.lake import iceberg
from airflow_provider_assistant.transfers.parquet_to_iceberg import AssistantParquetToIcebergOperator
from tests.unit.lake.nights import FIRST, capture, rating, write_rows, write_statistics

pytest.importorskip("pyiceberg")
SECOND = FIRST + timedelta(days=1)


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "lake"
    for day in (FIRST, SECOND):
        write_statistics(root, day, capture(day, {"a": 1, "b": 2}))
    write_rows(root, "feedback", SECOND, [rating(SECOND, "good")])
    return root


@pytest.fixture
def properties(tmp_path):
    return {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": (tmp_path / "tables").as_uri()}


@pytest.fixture
def load(run_operator, root):
    def load(**arguments):
        return run_operator(AssistantParquetToIcebergOperator, output_path=str(root), **arguments)

    return load


def test_the_result_counts_what_was_loaded(load, root, properties, monkeypatch, capsys):
    secret = {"s3.secret-access-key": "canary-key"}
    connection = {"conn_type": "iceberg", "password": "canary-password", "extra": {**properties, **secret}}
    monkeypatch.setenv("AIRFLOW_CONN_MY_ICEBERG", json.dumps(connection))
    arguments = {"conn_id": "my_iceberg", "catalog": "lake", "namespace": "team.assistant"}
    tables = ["team.assistant.statistics", "team.assistant.feedback"]
    result = {"kept": 0, "missing": 0, "date": SECOND.isoformat(), "tables": tables}
    results = [
        {"rows": 5, "datasets": {"statistics": 4, "feedback": 1}, "partitions": 3, "unchanged": 0, "replaced": 0},
        {"rows": 0, "datasets": {"statistics": 0, "feedback": 0}, "partitions": 0, "unchanged": 3, "replaced": 0},
    ]
    for expected in results:
        run = load(**arguments)
        assert run.xcom() == {**result, **expected}
    again = load(**arguments, datasets=["statistics", "statistics"], date=SECOND.isoformat(), days=4)
    expected = {"rows": 4, "datasets": {"statistics": 4}, "partitions": 2, "unchanged": 0, "replaced": 4, "missing": 2}
    assert again.xcom() == {**result, **expected, "tables": tables[:1]}
    log = capsys.readouterr().out
    assert f"what the tables have of them stays: statistics/date={FIRST - timedelta(days=2)}" in log
    assert "canary" not in log + json.dumps([run.xcom(), again.xcom()])
    with iceberg.open_catalog("lake", properties) as catalog:
        assert catalog.load_table(tables[0]).scan().count() == 4


class Refusal(BaseHTTPRequestHandler):
    """A catalog that refuses its users, and repeats what they sent."""

    def do_POST(self):
        sent = self.rfile.read(int(self.headers["Content-Length"])).decode()
        body = json.dumps({"error": "invalid_client", "error_description": sent}).encode()
        self.send_response(401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


def test_a_catalog_that_refuses_its_user_does_not_show_the_secret(load, monkeypatch, capsys):
    with HTTPServer(("127.0.0.1", 0), Refusal) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        host = f"http://127.0.0.1:{server.server_port}"
        connection = {"conn_type": "iceberg", "host": host, "login": "id", "password": "canary-password"}
        monkeypatch.setenv("AIRFLOW_CONN_MY_ICEBERG", json.dumps(connection))
        run = load(conn_id="my_iceberg")
        server.shutdown()
    assert isinstance(run.error, AssistantWarehouseError)
    assert "Iceberg catalog 'my_iceberg'" in str(run.error)
    assert "canary" not in str(run.error)
    assert "canary" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"catalog": "nowhere"}, AssistantWarehouseError, "Iceberg catalog 'nowhere': ValueError: URI missing"),
        ({"properties": {"type": "sql", "uri": "no"}}, AssistantWarehouseError, "Iceberg catalog 'default'"),
        ({"namespace": "{{ '' }}"}, AssistantInputError, "namespace is empty"),
        ({"datasets": ["limits"]}, AssistantInputError, "has no limits. Nothing was changed"),
        ({"datasets": ["answer"]}, AssistantInputError, "datasets must be a list of some of statistics, .*'answer'"),
    ],
)
def test_what_is_wrong_is_said(arguments, kind, message, load):
    run = load(**arguments)
    assert isinstance(run.error, kind)
    with pytest.raises(kind, match=message):
        raise run.error


def test_a_worker_without_pyiceberg(load, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog", None)
    error = load().error
    assert isinstance(error, AssistantInputError)
    assert "pip install 'airflow-provider-assistant[iceberg]'" in str(error)
