"""Ask a golden set from the command line, with the engine of chat batches and without a scheduler."""

from __future__ import annotations

import argparse
import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_assistant.asking.ask import Asking as Batch
from airflow_provider_assistant.asking.batch import AskJob
from airflow_provider_assistant.asking.batch import Batch as Asked
from airflow_provider_assistant.asking.questions import Questions, read_questions
from airflow_provider_assistant.cli.interruptions import Interruptions
from airflow_provider_assistant.cli.kept_run import KeptRun
from airflow_provider_assistant.cli.output import Console
from airflow_provider_assistant.cli.rows import command_run, csv_options, pairs
from airflow_provider_assistant.evaluation.column_names import compared
from airflow_provider_assistant.exceptions import AssistantIncompleteError, AssistantInputError
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.ledger import Ledger
from airflow_provider_assistant.tables import Columns
from airflow_provider_assistant.tables import read_rows as rows_of
from airflow_provider_assistant.tables.whole import table_of

if TYPE_CHECKING:
    import pyarrow as pa

# Seconds between two updates of the progress bar.
TICK = 0.1
KEY = "key"


def read_rows(file: str, args: argparse.Namespace) -> pa.Table:
    """Read a golden set, or documents."""
    return table_of(rows_of(file, Columns(rest=True), csv_options=csv_options(args)))


def key_columns_of(golden: pa.Table, args: argparse.Namespace) -> list[str]:
    """
    Return the columns that identify a question: ``--key``, else ``key``, else none.

    :raises AssistantInputError: The name of a column differs from ``key`` only in its case, or the like.
    """
    if args.key:
        return list(args.key)
    if KEY in golden.column_names:
        return [KEY]
    for name in golden.column_names:
        if compared(name) == KEY:
            raise AssistantInputError(
                f"column {name!r}: did you mean {KEY!r}? With this name, it does not identify the questions",
                todo=f"Rename it, or give --key {name!r}.",
                field="--key",
            )
    return []


def questions_of(golden: pa.Table, args: argparse.Namespace) -> Questions:
    """
    Return the questions of a golden set.

    :raises AssistantInputError: The golden set has no question, or a column is missing.
    """
    return read_questions(
        golden,
        columns=pairs("--column", args.column),
        constants=None,
        key_columns=key_columns_of(golden, args),
        session=args.session,
        repeat=args.repeat,
        turn=args.turn,
    )


@dataclass(frozen=True, slots=True)
class Asking:
    """
    Ask a golden set.

    :param run: Where the answers are kept as they arrive.
    :param signals: End the asking; what was sent is kept.
    """

    out: Console
    golden: pa.Table
    args: argparse.Namespace
    run: KeptRun
    ledger: Ledger
    signals: Interruptions

    def ask(self, hook: AssistantHook, name: str) -> pa.Table:
        """
        Ask the questions on the hook's site that have no answer yet, and wait for the answers.

        :param name: Name of the table of answers, one of ``OUTPUTS``.
        :return: The answers, as the operator writes them.
        :raises AssistantError: No question got an answer.
        """
        args = self.args
        site_id = hook.resolve_site_id()
        job = AskJob(
            settings=hook.settings.client,
            site_id=site_id,
            mode=args.mode,
            scope=f"cli/{self.run.id}/{name}",  # every run opens new sessions
            timeout=args.timeout,
            poll_interval=args.poll_interval,
        )
        questions = questions_of(self.golden, args)
        task = "airflow assistant evaluate"
        batch = Batch(job, questions, self.run.output(name), self.ledger, hook.site(), task, command_run())
        progress = self.out.progress(f"asking {site_id}")
        with batch.opened() as asked, self.signals.ending(asked.end):
            with progress as shown, _watched(asked, len(questions.rows), shown):
                asked.run()
            table = batch.finish().table
        if "complete" not in table["status"].to_pylist():
            reason = next(filter(None, table["error"].to_pylist()), "no reason is known")
            raise AssistantIncompleteError(
                f"site {site_id}: no question has an answer ({table.num_rows} asked): {reason}"
            )
        return table


@contextlib.contextmanager
def _watched(batch: Asked, total: int, shown: Callable[[int, int], None]) -> Iterator[None]:
    """Show the progress of a batch while the block runs."""
    has_ended = threading.Event()

    def watch() -> None:
        while not has_ended.wait(TICK):
            shown(len(batch.ends), total)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        has_ended.set()
        watcher.join()
