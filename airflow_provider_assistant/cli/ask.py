"""Ask a golden set from the command line, with the engine of chat batches and without a scheduler."""

from __future__ import annotations

import argparse
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from airflow_provider_assistant.asking.ask import Asking
from airflow_provider_assistant.asking.batch import AskJob, Batch
from airflow_provider_assistant.asking.questions import Questions, read_questions
from airflow_provider_assistant.cli.golden_input import GoldenSet
from airflow_provider_assistant.cli.interruptions import ending
from airflow_provider_assistant.cli.output import Console
from airflow_provider_assistant.cli.rows import command_run, pairs
from airflow_provider_assistant.cli.unfinished import Unfinished
from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantIncompleteError, AssistantInputError
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.storage.opening import object_storage_path
from airflow_provider_assistant.texts import counted

if TYPE_CHECKING:
    import pyarrow as pa

# Seconds between two updates of the progress bar.
TICK = 0.1
ANSWERS = "answers.parquet"


def check_questions(golden: GoldenSet, args: argparse.Namespace) -> None:
    """
    Check that every question can be asked.

    :raises AssistantInputError: One cannot; nothing was sent.
    """
    questions = _questions(golden, args).rows
    problems = [f"row {question.row}: {question.problem}" for question in questions if question.problem]
    if problems:
        raise AssistantInputError(
            f"{args.file}: {counted(len(problems), 'question')} cannot be asked, such as {problems[0]}",
            safe=NOTHING_SENT,
            todo="Correct the golden set, or remove the rows.",
            field="file",
        )


def ask(
    out: Console,
    golden: GoldenSet,
    args: argparse.Namespace,
    hook: AssistantHook,
    run: Unfinished,
) -> pa.Table:
    """
    Ask the questions that have no answer yet, wait, and return all answers.

    A signal ends the asking; what was answered is kept.

    :raises AssistantError: No question got an answer.
    """
    site_id = hook.resolve_site_id()
    job = AskJob(
        settings=hook.settings.client,
        site_id=site_id,
        mode=args.mode,
        scope=f"cli/{run.id}",  # every run opens new sessions
        timeout=args.timeout,
        poll_interval=args.poll_interval,
    )
    questions = _questions(golden, args)
    output = object_storage_path(str(run.folder / ANSWERS))
    with run.ledger() as ledger:
        asking = Asking(job, questions, output, ledger, hook.site(), "airflow assistant evaluate", command_run())
        progress = out.progress(f"asking {site_id}")
        with asking.opened() as batch, ending(batch.end):
            with progress as shown, _watched(batch, len(questions.rows), shown):
                batch.run()
            table = asking.finish().table
    if "complete" not in table["status"].to_pylist():
        reason = next(filter(None, table["error"].to_pylist()), "no reason is known")
        raise AssistantIncompleteError(f"site {site_id}: no question has an answer ({table.num_rows} asked): {reason}")
    return table


def _questions(golden: GoldenSet, args: argparse.Namespace) -> Questions:
    return read_questions(
        golden.rows,
        columns=pairs("--column", args.column),
        constants=None,
        key_columns=golden.key_columns_of_rows,
        session=args.session,
        repeat=args.repeat,
        turn=args.turn,
    )


@contextlib.contextmanager
def _watched(batch: Batch, total: int, shown: Callable[[int, int], None]) -> Iterator[None]:
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
