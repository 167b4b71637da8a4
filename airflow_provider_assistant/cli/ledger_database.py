"""``airflow assistant ledger``: back up the file of the ledger, and print the statements that create its tables."""

from __future__ import annotations

import argparse
import sqlite3
from pathlib import Path

from airflow_provider_assistant.cli.output import GOOD, Console
from airflow_provider_assistant.cli.runner import OK, command, open_ledger
from airflow_provider_assistant.exceptions import AssistantInputError, AssistantLedgerError
from airflow_provider_assistant.ledger.migrate import creation_statements
from airflow_provider_assistant.ledger.sqlite_file import backup_file
from airflow_provider_assistant.storage.private_files import create_private


@command
def backup(out: Console, args: argparse.Namespace) -> int:
    """Write a consistent copy of a SQLite ledger, also while tasks use it."""
    target = Path(args.file)
    with open_ledger(args) as ledger:
        if ledger.engine.dialect.name != "sqlite":
            database = ledger.engine.url.database
            raise AssistantInputError(
                f"the ledger is in PostgreSQL ({ledger.name})",
                todo=f"Back it up with the tools of PostgreSQL: pg_dump -Fc -t 'assistant_*' {database}.",
                field="ledger_conn_id",
            )
        if target.exists():
            raise AssistantInputError(f"{target} exists", todo="Give the path of a new file.", field="file")
        create_private(target)
        try:
            backup_file(ledger.engine, target)
        except sqlite3.Error as error:
            target.unlink()
            raise AssistantLedgerError(f"{target} cannot be written, or {ledger.name} not be read: {error}") from error
        name = ledger.name
    size = target.stat().st_size
    out.result({"ledger": name, "file": str(target), "bytes": size})
    out.line(f"Wrote {target}, {size} bytes: a copy of {name}.", GOOD)
    return OK


@command
def ddl(out: Console, args: argparse.Namespace) -> int:  # noqa: ARG001 (every command takes its arguments)
    """Print the statements that create the ledger's tables in PostgreSQL."""
    statements = creation_statements()
    out.result(statements)
    for statement in statements:
        out.line(f"{statement};")
    return OK
