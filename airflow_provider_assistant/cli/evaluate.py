"""``airflow assistant evaluate``: ask a golden set, score the answers and check a gate, without a scheduler."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant import lake
from airflow_provider_assistant.cli.ask import ask, read_rows
from airflow_provider_assistant.cli.gate_file import read_gate
from airflow_provider_assistant.cli.output import BAD, GOOD, Console
from airflow_provider_assistant.cli.runner import BUG, INPUT, OK, WRONG, command, failed, open_hook
from airflow_provider_assistant.evaluation.cases import read_cases
from airflow_provider_assistant.evaluation.excerpts import figures_of
from airflow_provider_assistant.evaluation.extra import check_extra
from airflow_provider_assistant.evaluation.failing import failing_lines
from airflow_provider_assistant.evaluation.junit import junit_xml
from airflow_provider_assistant.evaluation.report import render
from airflow_provider_assistant.evaluation.rules import ANSWERS, check_pairwise
from airflow_provider_assistant.evaluation.run_directory import RunDirectory, find_baseline
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.operators.judging import OtherAnswers, write
from airflow_provider_assistant.operators.judging import evaluate as run_evaluation

if TYPE_CHECKING:
    from airflow_provider_assistant.evaluation.evaluate import Evaluation
    from airflow_provider_assistant.evaluation.summary import Difference

DEFAULT_CONNECTION = "assistant_default"
BASE_URL, API_KEY = "ASSISTANT_BASE_URL", "ASSISTANT_API_KEY"
STYLES = {"passed": GOOD, "failed": BAD}


@command
def evaluate(out: Console, args: argparse.Namespace) -> int:
    """Evaluate a golden set. Exit code 0: the gate passed; 1: it failed; 2: it could not be judged."""
    try:
        return _evaluate(out, args)
    except Exception as error:  # noqa: BLE001 (every reason for a missing verdict has the same exit code)
        code = failed(out, error)
        return code if code == BUG else INPUT


def _evaluate(out: Console, args: argparse.Namespace) -> int:
    if args.against and args.against_site:
        raise AssistantInputError("give --against or --against-site, not both", field="--against")
    if args.repeat < 1:
        raise AssistantInputError(f"--repeat must be at least 1, not {args.repeat}", field="--repeat")
    check_extra()
    gate = read_gate(args.gate, has_baseline=bool(args.against or args.against_site))
    scorer_names = [scorer.name for scorer in gate.scorers]
    other_site = {ANSWERS: args.against_site} if args.against_site else None
    check_pairwise(scorer_names, other_site)
    golden = read_rows(args.file, args)
    # Without --save, the directory is used only to find the baseline.
    run_folder = args.save or str(Path(args.file).parent)
    directory = RunDirectory(ObjectStoragePath(run_folder))
    # Before the first request: a baseline that cannot be read must not cost a run.
    baseline = find_baseline(directory, args.against)
    conn_id = _connection(args.conn_id)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        answers = ask(out, _hook(out, conn_id, args.site), golden, args, folder)
        other = None
        if args.against_site:
            other_hook = _hook(out, conn_id, args.against_site)
            other_answers = ask(out, other_hook, golden, args, folder)
            other = OtherAnswers(read_cases(other_answers), name=f"site {args.against_site}")
        evaluation_directory = directory
        if not args.save:
            evaluation_directory = RunDirectory(ObjectStoragePath(temporary))
        evaluation = run_evaluation(
            read_cases(answers),
            gate.scorers,
            gate.criteria,
            gate.judges,
            evaluation_directory,
            name=Path(args.file).stem,
            baseline=baseline,
            other=other,
        )
    page = render(evaluation)
    if args.junit:
        Path(args.junit).write_text(junit_xml(evaluation), encoding="utf-8")
    if args.report:
        Path(args.report).write_text(page, encoding="utf-8")
    if args.save:
        lake.replace(answers.replace_schema_metadata(None), directory.folder / "answers.parquet")
        write(evaluation, directory, page)
    _show(out, args, evaluation)
    return WRONG if evaluation.summary.gate.verdict == "failed" else OK


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


def _hook(out: Console, conn_id: str, site_id: str | None) -> AssistantHook:
    return open_hook(out, argparse.Namespace(conn_id=conn_id, site=site_id))


def _show(out: Console, args: argparse.Namespace, evaluation: Evaluation) -> None:
    summary = evaluation.summary
    out.result(_result(args, evaluation))
    rules = [(rule.rule, rule.word, rule.reason) for rule in summary.gate.rules]
    out.table(("rule", "verdict", "reason"), rules)
    for line in failing_lines(evaluation):
        out.line(line)
    if summary.comparison and summary.comparison.scorers:
        titles = ("scorer", "wins", "ties", "losses", "difference", "low", "high")
        cells = []
        for scorer, difference in summary.comparison.scorers.items():
            cells.append(_difference_cells(scorer, difference))
        out.table(titles, cells)
    pairs = summary.pairs
    if pairs:
        preferred = _number(pairs.first_preferred)
        out.table(
            ("pairs", "identical", "order changed", "errors", "first preferred"),
            [(pairs.pairs, pairs.identical, pairs.order_changed, pairs.errors, preferred)],
        )
    means = ", ".join(f"{name} {_number(mean)}" for name, mean in summary.means.items())
    verdict = summary.gate.verdict
    shown_verdict = "no gate" if verdict == "none" else verdict
    answered = f"{summary.questions.answered} of {summary.questions.total} answered"
    out.line(f"{shown_verdict}: {summary.name}, {answered}; {means}", STYLES.get(verdict, ""))


def _difference_cells(scorer: str, difference: Difference) -> list[object]:
    """Return the cells of a row: wins, ties and losses, and the difference with its interval."""
    return [
        scorer,
        difference.better,
        difference.unchanged,
        difference.worse,
        _number(difference.mean),
        _number(difference.low),
        _number(difference.high),
    ]


def _result(args: argparse.Namespace, evaluation: Evaluation) -> dict[str, Any]:
    summary = evaluation.summary
    comparison = None
    if summary.comparison:
        shown_fields = {"paired", "mean", "low", "high", "better", "unchanged", "worse"}
        comparison = {}
        for scorer, difference in summary.comparison.scorers.items():
            comparison[scorer] = difference.model_dump(include=shown_fields)
    pairs = None
    if summary.pairs:
        pairs = summary.pairs.model_dump()
    return {
        **figures_of(summary),
        "rules": [rule.model_dump() for rule in summary.gate.rules],
        "failing": summary.failing.model_dump() if summary.failing else None,
        "newly_failing": summary.newly_failing.model_dump() if summary.newly_failing else None,
        "comparison": comparison,
        "pairs": pairs,
        "junit": args.junit,
        "report": args.report,
        "saved": args.save,
    }


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
