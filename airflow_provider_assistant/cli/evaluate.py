"""``airflow assistant evaluate``: ask a golden set, score the answers and check a gate, without a scheduler."""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant import lake
from airflow_provider_assistant.asking.answers import site_of
from airflow_provider_assistant.cli.ask import Asking
from airflow_provider_assistant.cli.evaluate_input import EvaluationInput, checked_input, name_of, output_path
from airflow_provider_assistant.cli.golden_input import cases_of
from airflow_provider_assistant.cli.interruptions import Interruptions
from airflow_provider_assistant.cli.kept_run import ANSWERS, OTHER_ANSWERS, Kept, KeptRun, kept_run
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
)
from airflow_provider_assistant.evaluation.excerpts import baseline_text, cost_of, figures_of, means_of, verdict_word
from airflow_provider_assistant.evaluation.failing import failing_lines
from airflow_provider_assistant.evaluation.junit import junit_xml
from airflow_provider_assistant.evaluation.report import render
from airflow_provider_assistant.evaluation.run_directory import RunDirectory
from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.ledger.location import airflow_home
from airflow_provider_assistant.operators.judging import OtherAnswers, write
from airflow_provider_assistant.operators.judging import evaluate as run_evaluation
from airflow_provider_assistant.storage.paths import object_storage_path
from airflow_provider_assistant.texts import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_assistant.evaluation.evaluate import Evaluation

STYLES = {"passed": GOOD, "failed": BAD}
# Folder within that of --save for unfinished runs.
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
    given = checked_input(out, args)
    if given.part and not given.part.keys:
        out.result({"name": name_of(args, given.part), "verdict": "none", "questions": 0, "part": given.part.text})
        out.line(f"No question is left to evaluate: {given.part.text}", GOOD)
        return OK
    base = _folder_of_runs(args, given)
    with kept_run(base, _arguments(args, given), resume=args.resume) as run:
        try:
            return _run(out, args, given, run, signals)
        except BaseException as error:
            _add_note(error, run, given)
            raise


def _folder_of_runs(args: argparse.Namespace, given: EvaluationInput) -> Path:
    """
    Return the local folder of unfinished runs of this evaluation.

    It is in the folder of ``--save`` if that is a local one, or else in AIRFLOW_HOME.
    """
    folder = given.directory.folder
    if args.save and folder.protocol in {"file", ""}:
        return Path(folder.path) / UNFINISHED
    # Not resolved: a link may lead to the newest export.
    file = Path(args.answers or args.file).absolute()
    sites = [str(hook.site()) for hook in given.hooks]
    identity = [str(file), args.file, args.save, sites, args.tag, args.only_failing]
    digest = hashlib.sha256(json.dumps(identity).encode()).hexdigest()
    return airflow_home() / "assistant_evaluations" / f"{file.stem}-{digest[:12]}"


def _arguments(args: argparse.Namespace, given: EvaluationInput) -> dict[str, Any]:
    """Return the arguments that must be the same when a run is resumed."""
    sites = [str(hook.site()) for hook in given.hooks]
    same = ("mode", "key", "session", "turn")
    return {"sites": sites, **{f"--{name}": getattr(args, name) for name in same}}


def _run(out: Console, args: argparse.Namespace, given: EvaluationInput, run: KeptRun, signals: Interruptions) -> int:
    """Ask what has no answer yet, evaluate, and write the files."""
    gate, cases, directory = given.gate, given.cases, given.directory
    tables = {}
    if given.golden is not None:
        if args.resume:
            _tell_resumed(out, run, directory if args.save else None)
        with run.ledger() as ledger:
            asking = Asking(out, given.golden, args, run, ledger, signals)
            for name, hook in zip((ANSWERS, OTHER_ANSWERS), given.hooks, strict=False):
                tables[name] = asking.ask(hook, name)
        cases = cases_of(tables[ANSWERS])
    other = None
    if OTHER_ANSWERS in tables:
        other = OtherAnswers(cases_of(tables[OTHER_ANSWERS]), name=f"site {args.against_site}")
    evaluation_directory = directory
    if not args.save:
        evaluation_directory = RunDirectory(object_storage_path(str(run.folder)))
    with signals.ending(gate.judges.cancel):
        evaluation = run_evaluation(
            cases,
            gate.scorers,
            gate.criteria,
            gate.judges,
            evaluation_directory,
            name=name_of(args, given.part),
            site=_site(args, given),
            baseline=given.baseline,
            other=other,
        )
    if given.part:
        summary = evaluation.summary.model_copy(update={"part": given.part.text})
        evaluation = dataclasses.replace(evaluation, summary=summary)
    saved = tables if given.answers is None else {ANSWERS: given.answers}
    _write(args, evaluation, directory, saved)
    if given.part:
        out.line(f"Only a part of the golden set: {len(given.part.keys)} of {counted(given.part.total, 'question')}")
    _show(out, args, evaluation)
    unanswered = 0
    for table in tables.values():
        unanswered += table.num_rows - table["status"].to_pylist().count("complete")
    run.is_evaluated, run.is_finished = True, not unanswered
    if unanswered:
        out.logged(
            f"{counted(unanswered, 'question')} without an answer. The same command with --resume asks only these; the "
            f"other answers are kept in {run.folder}",
            DIM,
        )
    return WRONG if evaluation.summary.gate.verdict == "failed" else OK


def _site(args: argparse.Namespace, given: EvaluationInput) -> str | None:
    """Return the id of the site that answered; None if not known."""
    if given.hooks:
        return given.hooks[0].resolve_site_id()
    return site_of(object_storage_path(args.answers)).get("site_id")


def _write(
    args: argparse.Namespace, evaluation: Evaluation, directory: RunDirectory, tables: dict[str, pa.Table]
) -> None:
    """Write the files that the arguments name."""
    page = render(evaluation, files=str(directory.folder) if args.save else None)
    if args.junit:
        lake.replace_bytes(junit_xml(evaluation).encode(), output_path(args.junit))
    if args.report:
        lake.replace_bytes(page.encode(), output_path(args.report))
    if args.save:
        for name, table in tables.items():
            lake.replace(table.replace_schema_metadata(None), directory.folder / f"{name}.parquet")
        write(evaluation, directory, page)


def _tell_resumed(out: Console, run: KeptRun, directory: RunDirectory | None) -> None:
    """
    Tell what is resumed.

    :param directory: Folder of the evaluation; None without ``--save``.
    :raises AssistantInputError: Nothing is, because the evaluation is complete.
    """
    kept = run.kept()
    if any(kept):
        out.note(f"Resuming {run.folder}: {_described(kept)}.")
        return
    if directory and directory.summary.exists():
        raise AssistantInputError(
            f"--resume: the evaluation in {directory.folder} is complete",
            safe=NOTHING_SENT,
            todo="To score its answers again, give --answers with its file answers.parquet. To ask all questions "
            "again, remove --resume.",
            field="--resume",
        )
    out.note("--resume: there is no unfinished run, so all questions are asked.")


def _add_note(error: BaseException, run: KeptRun, given: EvaluationInput) -> None:
    """Add to an error what the run has kept, and how to go on."""
    kept = run.kept()
    if any(kept):
        error.add_note(
            f"Kept in {run.folder}: {_described(kept)}. The same command with --resume goes on with the rest."
        )
    elif given.gate.judges.kept:
        error.add_note(f"The verdicts of the judges are kept in {given.gate.judges.kept}; the same command uses them.")


def _described(kept: Kept) -> str:
    texts = [counted(kept.answers, "answer")]
    if kept.open_requests:
        texts.append(counted(kept.open_requests, "open request"))
    if kept.has_verdicts:
        texts.append("the verdicts of the judges")
    return ", ".join(texts)


def _show(out: Console, args: argparse.Namespace, evaluation: Evaluation) -> None:
    summary = evaluation.summary
    out.result(_result(args, evaluation))
    rules = [(rule.rule, rule.word, rule.reason) for rule in summary.gate.rules]
    if rules:
        out.table(("rule", "verdict", "reason"), rules)
    for line in failing_lines(evaluation):
        out.line(line)
    compared = baseline_text(summary)
    if compared:
        out.line(compared)
    if summary.comparison and summary.comparison.scorers:
        titles = ("scorer", "wins", "ties", "losses", "difference", "low", "high")
        cells = []
        for scorer, found in summary.comparison.scorers.items():
            numbers = [_number(value) for value in (found.mean, found.low, found.high)]
            cells.append((scorer, found.better, found.unchanged, found.worse, *numbers))
        out.table(titles, cells)
    pairs = summary.pairs
    if pairs:
        preferred = _number(pairs.first_preferred)
        titles_of_pairs = ("pairs", "identical", "order changed", "errors", "first preferred")
        out.table(titles_of_pairs, [(pairs.pairs, pairs.identical, pairs.order_changed, pairs.errors, preferred)])
    cost = cost_of(summary)
    if cost:
        out.note(cost)
    answered = f"{summary.questions.answered} of {summary.questions.total} answered"
    out.line(
        f"{verdict_word(summary.gate)}: {summary.name}, {answered}; {means_of(summary.means)}",
        STYLES.get(summary.gate.verdict, ""),
    )


def _result(args: argparse.Namespace, evaluation: Evaluation) -> dict[str, Any]:
    summary = evaluation.summary
    comparison = None
    if summary.comparison:
        shown_fields = {"paired", "mean", "low", "high", "better", "unchanged", "worse"}
        scorers = summary.comparison.scorers
        comparison = {name: difference.model_dump(include=shown_fields) for name, difference in scorers.items()}
    return {
        **figures_of(summary),
        **summary.model_dump(include={"part", "failing", "newly_failing"}),
        "rules": [rule.model_dump() for rule in summary.gate.rules],
        "comparison": comparison,
        "pairs": summary.pairs.model_dump() if summary.pairs else None,
        "judge_tokens": summary.judge_tokens,
        "judge_cost": summary.judge_cost,
        "junit": args.junit,
        "report": args.report,
        "saved": args.save,
    }


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
