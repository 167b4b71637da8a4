"""``airflow assistant evaluate``: ask a golden set, score the answers and check a gate, without a scheduler."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.asking.answers import site_of
from airflow_provider_assistant.cli.ask import ANSWERS, ask, check_questions
from airflow_provider_assistant.cli.golden_input import KEY, GateFile, cases_of, check_gate, read_gate, read_golden
from airflow_provider_assistant.cli.interruptions import ending
from airflow_provider_assistant.cli.output import BAD, GOOD, Console
from airflow_provider_assistant.cli.runner import OK, WRONG, command, open_hook
from airflow_provider_assistant.cli.unfinished import folder_of, unfinished_run
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
from airflow_provider_assistant.ledger.location import airflow_home
from airflow_provider_assistant.storage.opening import object_storage_path, usable_path, writable_file
from airflow_provider_assistant.storage.write import check_writable, replace, replace_bytes

if TYPE_CHECKING:
    import pyarrow as pa


@command
def evaluate(out: Console, args: argparse.Namespace) -> int:
    """Evaluate a golden set. Exit code 0: the gate passed; 1: it failed; 2: it could not be judged."""
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
    check_gate(gate, cases, None if saved else golden)
    _check(args, gate, cases)
    if not saved:
        hook = open_hook(out, args, waits=True)
    site = hook.resolve_site_id() if hook else site_of(object_storage_path(args.answers)).get("site_id")
    save = _output_path(args.save) if args.save else None
    with unfinished_run(folder_of(args, save, hook.site() if hook else None)) as run:
        if run.is_resumed:
            out.note(f"Going on with the interrupted run in {run.folder}.")
        try:
            if saved:
                answers = saved.rows
            elif golden and hook:
                answers = ask(out, golden, args, hook, run)
                # The golden set was checked before: what looks misspelt now is a key, or was sent.
                known = [name for name in answers.column_names if not similar_expectation(name)]
                cases = cases_of("answers", answers.select(known), None, [KEY])
            job = EvaluationJob(
                name=Path(args.file or args.answers).stem,
                cases=cases,
                folder=RunFolder(save or object_storage_path(str(run.folder))),
                scorers=gate.scorers,
                criteria=gate.criteria,
                baseline=_baseline(args),
                judges=gate.judge,
                site=site,
            )
            with ending(gate.judge.cancel):
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
    verdict = "not judged" if summary.gate.verdict == "none" else summary.gate.verdict
    answered = f"{summary.questions.answered} of {summary.questions.total} answered"
    sentence = f"{verdict}: {summary.name}, {answered}; {means_text(summary)}"
    out.result(
        {
            **figures_of(summary),
            **summary.model_dump(include={"failing", "newly_failing", "figures"}),
            "rules": [rule.model_dump() for rule in rules],
            "judge_tokens": summary.judge_tokens,
            **{name: getattr(args, name) for name in ("junit", "report", "save")},
        },
        [{"rule": rule.rule, "verdict": rule.word, "reason": rule.reason} for rule in rules],
        text="\n".join([*failing_lines(evaluation), *notes_of(summary), sentence]),
        style={"passed": GOOD, "failed": BAD}.get(verdict, ""),
    )
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


def _output_path(path: object) -> ObjectStoragePath:
    return object_storage_path(str(usable_path(path)))
