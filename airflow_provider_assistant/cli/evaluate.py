"""``airflow assistant evaluate``: ask a golden set, score the answers and check a gate, without a scheduler."""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.asking.answers import site_of
from airflow_provider_assistant.cli.ask import ANSWERS, ask, check_questions
from airflow_provider_assistant.cli.golden_input import KEY, GateFile, cases_of, check_tags, read_gate, read_golden
from airflow_provider_assistant.cli.interruptions import Interruptions
from airflow_provider_assistant.cli.output import BAD, DIM, GOOD, Console
from airflow_provider_assistant.cli.runner import (
    BUG,
    INPUT,
    INTERRUPTED,
    OK,
    TERMINATED,
    WRONG,
    command,
    failed,
    open_hook,
)
from airflow_provider_assistant.cli.unfinished import unfinished_run
from airflow_provider_assistant.evaluation.cells import similar_expectation
from airflow_provider_assistant.evaluation.failing import failing_lines
from airflow_provider_assistant.evaluation.golden import Case
from airflow_provider_assistant.evaluation.junit import junit_xml
from airflow_provider_assistant.evaluation.report import render
from airflow_provider_assistant.evaluation.results import figures_of, means_text, notes_of
from airflow_provider_assistant.evaluation.run import Evaluation, EvaluationJob
from airflow_provider_assistant.evaluation.run import evaluate as run_evaluation
from airflow_provider_assistant.evaluation.runs import PREVIOUS, RunFolder, earlier_runs
from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.ledger.location import airflow_home
from airflow_provider_assistant.storage.opening import object_storage_path, usable_path, writable_file
from airflow_provider_assistant.storage.write import check_writable, replace, replace_bytes

if TYPE_CHECKING:
    import pyarrow as pa

DEFAULT_CONNECTION = "assistant_default"
BASE_URL, API_KEY = "ASSISTANT_BASE_URL", "ASSISTANT_API_KEY"
# Folder within that of --save for an unfinished run.
UNFINISHED = "unfinished"


@command
def evaluate(out: Console, args: argparse.Namespace) -> int:
    """
    Evaluate a golden set. Exit code 0: the gate passed; 1: it failed; 2: it could not be judged.

    After SIGINT and SIGTERM, the exit code is 130 and 143.
    """
    with Interruptions() as signals:
        try:
            return _evaluate(out, args, signals)
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 (all reasons for a missing verdict)
            if isinstance(error, Exception) and signals.number is None:
                code = failed(out, error)
                code = code if code == BUG else INPUT
            else:
                out.logged("Interrupted.", BAD)
                code = TERMINATED if signals.number == signal.SIGTERM else INTERRUPTED
            for note in getattr(error, "__notes__", ()):
                out.logged(note, DIM)
            return code


def _evaluate(out: Console, args: argparse.Namespace, signals: Interruptions) -> int:
    _check_arguments(args)
    gate = read_gate(args.gate, has_baseline=bool(args.against))
    golden = read_golden(args.file, args) if args.file else None
    saved = read_golden(args.answers, args) if args.answers else None
    hook = None
    if saved:
        cases = cases_of(args.answers, saved.table, golden, (golden or saved).key_columns)
    elif golden:
        cases = golden.cases()
        check_questions(golden, args)
    _check(args, gate, cases)
    if not saved:
        hook = open_hook(out, argparse.Namespace(conn_id=_connection(args.conn_id), site=args.site), waits=True)
    site = hook.resolve_site_id() if hook else site_of(object_storage_path(args.answers)).get("site_id")
    with unfinished_run(_unfinished_folder(args, hook)) as run:
        if run.is_resumed:
            out.note(f"Going on with the interrupted run in {run.folder}.")
        try:
            if saved:
                answers = saved.rows
            elif golden and hook:
                answers = ask(out, golden, args, hook, run, signals)
                # The golden set was checked before: what looks misspelt now is a key, or was sent.
                known = [name for name in answers.column_names if not similar_expectation(name)]
                cases = cases_of("answers", answers.select(known), None, [KEY])
            job = EvaluationJob(
                name=Path(args.file or args.answers).stem,
                cases=cases,
                folder=RunFolder(_output_path(args.save) if args.save else object_storage_path(str(run.folder))),
                scorers=gate.scorers,
                criteria=gate.criteria,
                baseline=_baseline(args),
                judges=gate.judge,
                site=site,
            )
            with signals.ending(gate.judge.cancel):
                evaluation = run_evaluation(job)
        except BaseException as error:
            error.add_note(f"Answers and verdicts so far are kept in {run.folder}: the same command goes on.")
            raise
        _write(args, evaluation, answers)
        run.is_complete = True
    return _shown(out, args, evaluation)


def _write(args: argparse.Namespace, evaluation: Evaluation, answers: pa.Table) -> None:
    """Write the files that the arguments name, besides those of the evaluation."""
    if args.save:
        replace(answers.replace_schema_metadata(None), _output_path(args.save) / ANSWERS)
    if args.report:
        replace_bytes(render(evaluation, files=args.save).encode(), _output_path(args.report))
    if args.junit:
        replace_bytes(junit_xml(evaluation).encode(), _output_path(args.junit))


def _shown(out: Console, args: argparse.Namespace, evaluation: Evaluation) -> int:
    """Write the result, and return the exit code."""
    summary = evaluation.summary
    rules = summary.gate.rules
    out.result(
        {
            **figures_of(summary),
            **summary.model_dump(include={"failing", "newly_failing", "figures"}),
            "rules": [rule.model_dump() for rule in rules],
            "judge_tokens": summary.judge_tokens,
            **{name: getattr(args, name) for name in ("junit", "report", "save")},
        }
    )
    if rules:
        out.table(("rule", "verdict", "reason"), [(rule.rule, rule.word, rule.reason) for rule in rules])
    for line in (*failing_lines(evaluation), *notes_of(summary)):
        out.line(line)
    verdict = "not judged" if summary.gate.verdict == "none" else summary.gate.verdict
    answered = f"{summary.questions.answered} of {summary.questions.total} answered"
    style = {"passed": GOOD, "failed": BAD}.get(verdict, "")
    out.line(f"{verdict}: {summary.name}, {answered}; {means_text(summary)}", style)
    return WRONG if verdict == "failed" else OK


def _check_arguments(args: argparse.Namespace) -> None:
    problem = None
    if not args.file and not args.answers:
        problem = "give FILE, the golden set, or --answers"
    elif args.repeat < 1:
        problem = f"--repeat must be at least 1, not {args.repeat}"
    for name in ("timeout", "poll_interval"):
        seconds = getattr(args, name)
        if not 0 < seconds < math.inf:
            problem = f"--{name.replace('_', '-')} must be more than 0 seconds, not {seconds:g}"
    if problem:
        raise AssistantInputError(problem, safe=NOTHING_SENT)


def _check(args: argparse.Namespace, gate: GateFile, cases: list[Case]) -> None:
    """
    Check everything that does not need an answer.

    :raises AssistantInputError: Something is wrong; nothing was sent.
    """
    check_tags(gate.criteria.rules, cases)
    gate.judge.check(cases, gate.criteria.rules)
    for name in ("junit", "report"):
        path = getattr(args, name)
        if path:
            check_writable(_output_path(writable_file(path, f"--{name}")).parent)
    if args.save:
        check_writable(_output_path(args.save))
    if args.against:
        earlier_runs(RunFolder(_output_path(args.save or str(airflow_home()))), _baseline(args))


def _baseline(args: argparse.Namespace) -> str | None:
    """Return the folder of ``--against``, which is never the word of the operator for the runs before."""
    return f"./{PREVIOUS}" if args.against == PREVIOUS else args.against


def _unfinished_folder(args: argparse.Namespace, hook: AssistantHook | None) -> Path:
    """Return the local folder in which this evaluation is kept until it is complete."""
    # Not resolved: a link may lead to the newest export.
    file = Path(args.answers or args.file).absolute()
    # Other arguments ask other questions.
    names = ("key", "column", "session", "turn", "repeat", "mode", "save")
    asked = [str(file), str(hook.site()) if hook else None, *(getattr(args, name) for name in names)]
    digest = hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:12]
    folder = _output_path(args.save) if args.save else None
    if folder is not None and folder.protocol in {"file", ""}:
        return Path(folder.path) / UNFINISHED / digest
    return airflow_home() / "assistant_evaluations" / f"{file.stem}-{digest}"


def _output_path(path: object) -> ObjectStoragePath:
    return object_storage_path(str(usable_path(path)))


def _connection(conn_id: str | None) -> str:
    """Return the id of the connection: the argument, or else that of the environment's variables, or the default."""
    if conn_id:
        return conn_id
    if not os.environ.get(BASE_URL):
        return DEFAULT_CONNECTION
    # A connection in the environment needs no database, which CI does not have.
    fields = {"conn_type": "assistant", "host": os.environ[BASE_URL], "password": os.environ.get(API_KEY)}
    os.environ["AIRFLOW_CONN_ASSISTANT_ENVIRONMENT"] = json.dumps(fields)
    return "assistant_environment"
