"""``airflow assistant findings``: show the findings of a load."""

from __future__ import annotations

import argparse
from typing import Any

from airflow_provider_assistant.cli.output import GOOD, Console
from airflow_provider_assistant.cli.runner import OK, command
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.storage.opening import usable_path

# Columns of every findings file. Those of versions without groups have no others.
COLUMNS = ("kind", "row", "key", "reason", "document_ids")


@command
def findings(out: Console, args: argparse.Namespace) -> int:
    """Show the rows of a findings file."""
    rows = read_findings(args.file)
    if args.finding:
        rows = [row for row in rows if row["kind"] in args.finding]
    out.result(rows)
    if rows:
        cells = []
        for row in rows:
            document_ids = " ".join(row["document_ids"])
            cells.append((row["kind"], row["row"], row["key"], row["reason"], document_ids, row["group"]))
        out.table(("finding", "row", "key", "reason", "documents", "group"), cells)
    else:
        out.line("No findings.", GOOD)
    return OK


def read_findings(path: str) -> list[dict[str, Any]]:
    """
    Return the rows of a findings file.

    :return: One dict per finding, with the keys ``COLUMNS``, and ``group``, which is None if the row has none.
    :raises AssistantInputError: The file cannot be read, or is not a findings file.
    """
    import pyarrow.parquet as pq

    try:
        with usable_path(path).open("rb") as file:
            shown_columns = {*COLUMNS, "group"}
            columns = [name for name in pq.read_schema(file).names if name in shown_columns]
            # Reading the schema has moved the position in the file.
            file.seek(0)
            rows: list[dict[str, Any]] = pq.read_table(file, columns=columns).to_pylist()
    except (OSError, ValueError) as error:
        raise AssistantInputError(f"{path} is not a findings file or cannot be read: {error}", field="file") from error
    if rows and not rows[0].keys() >= set(COLUMNS):
        raise AssistantInputError(f"{path} is not a findings file: it needs the columns {COLUMNS}", field="file")
    # A file without groups has no such column.
    return [{"group": None, **row} for row in rows]
