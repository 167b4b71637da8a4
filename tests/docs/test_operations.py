"""Check the pages on operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from airflow_provider_assistant.ledger import Ledger, RunRef, Scope, Site, sqlite_engine
from airflow_provider_assistant.ledger.queries import ledger_id
from airflow_provider_assistant.ledger.schema import attempts as attempts_table
from tests.docs.pages import ROOT, blocks_of
from tests.live.postgres import PostgresServer
from tests.unit.ledger.attempts import created

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PAGE = ROOT / "docs" / "operate" / "ledger.md"


def all_attempts(connection: sa.Connection) -> list[dict[str, Any]]:
    rows = connection.execute(sa.select(attempts_table).order_by("kind")).mappings()
    return [dict(row) for row in rows]


def test_a_ledger_moves_to_postgresql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Ledger(sqlite_engine(tmp_path / "assistant_ledger.db")) as old:
        for kind in ("qa", "chat", "rating"):
            scope = Scope(Site("assistant.example.com", "acme-docs"), kind)
            with old.of(scope, "kb.load", RunRef("kb", "run", "load", -1)) as attempts:
                created(attempts, kind)
        before, old_id = old.read(all_attempts), old.read(ledger_id)
    (block,) = [block for block in blocks_of(PAGE) if block.language == "python"]

    with PostgresServer() as server:
        monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
        monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "server")
        monkeypatch.setenv("AIRFLOW__ASSISTANT__LEDGER_CONN_ID", "assistant_ledger")
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_LEDGER", server.airflow_url)
        exec(compile(block.code, block.name, "exec"), {})
        with Ledger.open() as new:
            assert new.engine.dialect.name == "postgresql"
            after, new_id = new.read(all_attempts), new.read(ledger_id)

    assert len(before) == 3
    # Its next exports replace its files.
    assert (after, new_id) == (before, old_id)
