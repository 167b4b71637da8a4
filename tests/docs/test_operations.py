"""Check the pages on operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_assistant.ledger import Ledger, sqlite_engine
from tests.docs.pages import ROOT, blocks_of
from tests.live.postgres import PostgresServer
from tests.unit.ledger.single import chats, claim_rating, rated, submit

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PAGE = ROOT / "docs" / "operate" / "backup.md"


def test_a_ledger_moves_to_postgresql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Ledger(sqlite_engine(tmp_path / "assistant_ledger.db")) as old:
        submit(old)
        key = claim_rating(old)
        before = [chats(old).find("k"), rated(old).find(key)]
    (block,) = [block for block in blocks_of(PAGE) if block.language == "python"]

    with PostgresServer() as server:
        monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
        monkeypatch.setenv("AIRFLOW__ASSISTANT__LEDGER_CONN_ID", "assistant_ledger")
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_LEDGER", server.airflow_url)
        exec(compile(block.code, block.name, "exec"), {})
        with Ledger.open() as new:
            assert new.engine.dialect.name == "postgresql"
            after = [chats(new).find("k"), rated(new).find(key)]

    assert None not in before
    assert after == before
