"""Ask a golden set from the command line, with the engine of chat batches and without a scheduler."""

from __future__ import annotations

import argparse
import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.chat_batch.answers import has_own_sessions
from airflow_provider_assistant.chat_batch.batch import ChatBatch
from airflow_provider_assistant.chat_batch.questions import read_questions
from airflow_provider_assistant.cli.output import Console
from airflow_provider_assistant.cli.rows import csv_options, pairs
from airflow_provider_assistant.exceptions import AssistantIncompleteError
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.loading.columns import ColumnSelection
from airflow_provider_assistant.loading.sources import open_source
from airflow_provider_assistant.loading.tables import table_of

if TYPE_CHECKING:
    import pyarrow as pa

# Seconds between two updates of the progress bar.
TICK = 0.1


def read_rows(file: str, args: argparse.Namespace) -> pa.Table:
    """Read a golden set, or documents."""
    with open_source(file, ColumnSelection((), rest=True), csv_options=csv_options(args)) as source:
        return table_of(source)


def key_columns_of(golden: pa.Table, args: argparse.Namespace) -> list[str]:
    """Return the columns that identify a question: ``--key``, else ``key``, else none."""
    return args.key or (["key"] if "key" in golden.column_names else [])


def ask(out: Console, hook: AssistantHook, golden: pa.Table, args: argparse.Namespace, folder: Path) -> pa.Table:
    """
    Ask all questions of a golden set on the hook's site, and wait for the answers.

    :param folder: Folder for the batch state.
    :return: The answers, as the operator writes them.
    :raises AssistantInputError: The golden set has no question, or a column is missing.
    :raises AssistantError: No question got an answer.
    """
    site_id = hook.resolve_site_id()
    scope = f"cli/{uuid.uuid4().hex}"  # every run opens new sessions
    questions = read_questions(
        golden,
        columns=pairs("--column", args.column),
        constants=None,
        key_columns=key_columns_of(golden, args),
        session=args.session,
        scope=scope,
        repeat=args.repeat,
        turn=args.turn,
    )
    output = ObjectStoragePath(str(folder / f"{uuid.uuid4().hex}.parquet"))
    batch = ChatBatch(hook.settings.client, site_id=site_id, mode=args.mode, output=output, scope=scope, ledger=None)
    with out.progress(f"asking {site_id}") as shown, _watched(batch, len(questions), shown):
        for turn in range(1, questions.last_turn + 1):
            batch.submit(questions, turn)
            batch.collect(interval=args.poll_interval, deadline=time.time() + args.timeout)
    table = batch.table()
    if has_own_sessions(table):
        batch.close_sessions(table)
    if "complete" not in table["status"].to_pylist():
        reasons = [reason for reason in table["error"].to_pylist() if reason]
        reason = reasons[0] if reasons else "no reason is known"
        raise AssistantIncompleteError(f"site {site_id}: none of {table.num_rows} questions has an answer: {reason}")
    return table


@contextlib.contextmanager
def _watched(batch: ChatBatch, total: int, shown: Callable[[int, int], None]) -> Iterator[None]:
    """Show the progress of a batch while the block runs."""
    has_ended = threading.Event()

    def watch() -> None:
        while not has_ended.wait(TICK):
            shown(batch.answered, total)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        has_ended.set()
        watcher.join()
