"""Ask a golden set from the command line, with the engine of chat batches and without a scheduler."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from airflow_provider_assistant.asking.batch import Batch
from airflow_provider_assistant.asking.job import AskJob
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
    site = hook.site()
    job = AskJob(
        settings=hook.settings.client,
        site=site,
        output=object_storage_path(str(run.folder / ANSWERS)),
        task="airflow assistant evaluate",
        run=command_run(),
        scope=f"cli/{run.id}",  # every run opens new sessions
        mode=args.mode,
        timeout=args.timeout,
        poll_interval=args.poll_interval,
    )
    questions = _questions(golden, args)
    with run.ledger() as ledger, Batch(job, ledger, questions).opened() as batch, ending(batch.end):
        with out.progress(f"asking {site.site_id}") as shown:
            batch.run(on_progress=shown)
        table, _ = batch.finish()
    if "complete" not in table["status"].to_pylist():
        reason = next(filter(None, table["error"].to_pylist()), "no reason is known")
        raise AssistantIncompleteError(
            f"site {site.site_id}: no question has an answer ({table.num_rows} asked): {reason}"
        )
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
