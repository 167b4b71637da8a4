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
from airflow_provider_assistant.cli.gate_file import GateFile, read_gate
from airflow_provider_assistant.cli.output import BAD, GOOD, Console
from airflow_provider_assistant.cli.runner import BUG, INPUT, OK, WRONG, command, failed, open_hook
from airflow_provider_assistant.evaluation.cases import read_cases
from airflow_provider_assistant.evaluation.evaluate import Baseline, summarise
from airflow_provider_assistant.evaluation.extra import check_extra
from airflow_provider_assistant.evaluation.junit import junit_xml
from airflow_provider_assistant.evaluation.report import render
from airflow_provider_assistant.evaluation.rules import ANSWERS, check_pairwise
from airflow_provider_assistant.evaluation.run_directory import RunDirectory, find_baseline
from airflow_provider_assistant.evaluation.scoring import score_cases
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.hooks.assistant import AssistantHook

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from airflow_provider_assistant.evaluation.case import Case
    from airflow_provider_assistant.evaluation.summary import Summary
    from airflow_provider_assistant.operators.judging import Judged

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
    check_pairwise(
        [scorer.name for scorer in gate.scorers], {ANSWERS: args.against_site} if args.against_site else None
    )
    golden = read_rows(args.file, args)
    directory = RunDirectory(ObjectStoragePath(args.save or str(Path(args.file).parent)))
    # Before the first request: a baseline that cannot be read must not cost a run.
    baseline = find_baseline(directory, args.against)
    conn_id = _connection(args.conn_id)
    with tempfile.TemporaryDirectory() as folder:
        answers = ask(out, _hook(out, conn_id, args.site), golden, args, Path(folder))
        verdicts = directory if args.save else RunDirectory(ObjectStoragePath(folder))
        others = None
        if args.against_site:
            others = read_cases(ask(out, _hook(out, conn_id, args.against_site), golden, args, Path(folder)))
        cases = read_cases(answers)
        judged = gate.judges.judged(cases, gate.scorers, gate.criteria.rules, verdicts.verdicts, others)
        if others is not None:
            name = f"site {args.against_site}"
            baseline = gate.judges.baseline(others, judged, verdicts.baseline_verdicts, name=name, path=None)
    summary, page, junit, scores = _judged(cases, gate, judged, baseline, name=Path(args.file).stem)
    _write(args, directory, answers, scores, summary, page, junit)
    _show(out, args, summary)
    return WRONG if summary.gate.verdict == "failed" else OK


def _judged(
    cases: Sequence[Case], gate: GateFile, judged: Judged, baseline: Baseline | None, *, name: str
) -> tuple[Summary, str, str, pa.Table]:
    """Return the summary, the report, the JUnit XML and the table of scores."""
    scores = score_cases(cases, judged.scorers)
    summary = summarise(
        cases,
        scores,
        gate.scorers,
        name=name,
        pass_if=gate.criteria.pass_if,
        rules=gate.criteria.rules,
        on_fail="fail",
        baseline=baseline,
        judges=judged.summaries,
    )
    others = baseline.cases if baseline else ()
    page = render(summary, cases, scores, (), judged.reasons, baseline_cases=others)
    return summary, page, junit_xml(summary, cases), scores


def _connection(conn_id: str | None) -> str:
    """Return the id of the connection: the argument, or else that of the environment's variables, or the default."""
    if conn_id or not os.environ.get(BASE_URL):
        return conn_id or DEFAULT_CONNECTION
    # A connection in the environment needs no database, which CI does not have.
    fields = {"conn_type": "assistant", "host": os.environ[BASE_URL], "password": os.environ.get(API_KEY)}
    os.environ["AIRFLOW_CONN_ASSISTANT_ENVIRONMENT"] = json.dumps(fields)
    return "assistant_environment"


def _hook(out: Console, conn_id: str, site_id: str | None) -> AssistantHook:
    return open_hook(out, argparse.Namespace(conn_id=conn_id, site=site_id))


def _write(
    args: argparse.Namespace,
    directory: RunDirectory,
    answers: pa.Table,
    scores: pa.Table,
    summary: Summary,
    page: str,
    junit: str,
) -> None:
    if args.junit:
        Path(args.junit).write_text(junit, encoding="utf-8")
    if args.report:
        Path(args.report).write_text(page, encoding="utf-8")
    if args.save:
        directory.summary.unlink(missing_ok=True)
        lake.replace(answers.replace_schema_metadata(None), directory.folder / "answers.parquet")
        lake.replace(scores, directory.scores)
        lake.replace_bytes(page.encode(), directory.report)
        lake.replace_bytes(f"{summary.model_dump_json(indent=1)}\n".encode(), directory.summary)


def _show(out: Console, args: argparse.Namespace, summary: Summary) -> None:
    compared = summary.comparison.scorers if summary.comparison else {}
    out.result(_result(args, summary))
    out.table(("rule", "verdict", "reason"), [(rule.rule, rule.verdict, rule.reason) for rule in summary.gate.rules])
    if compared:
        rows = [
            (name, found.better, found.unchanged, found.worse, *map(_number, (found.mean, found.low, found.high)))
            for name, found in compared.items()
        ]
        out.table(("scorer", "wins", "ties", "losses", "difference", "low", "high"), rows)
    if pairs := summary.pairs:
        titles = ("pairs", "identical", "order changed", "errors", "first preferred")
        cells = (pairs.pairs, pairs.identical, pairs.order_changed, pairs.errors, _number(pairs.first_preferred))
        out.table(titles, [cells])
    means = ", ".join(f"{name} {_number(scorer.mean)}" for name, scorer in summary.scorers.items())
    questions, verdict = summary.questions, summary.gate.verdict
    words = "no gate" if verdict == "none" else verdict
    answered = f"{questions.answered} of {questions.total} answered"
    out.line(f"{words}: {summary.name}, {answered}; {means}", STYLES.get(verdict, ""))


def _result(args: argparse.Namespace, summary: Summary) -> dict[str, Any]:
    comparison, pairs = summary.comparison, summary.pairs
    return {
        "name": summary.name,
        "verdict": summary.gate.verdict,
        "questions": summary.questions.total,
        "answered": summary.questions.answered,
        "coverage": summary.questions.coverage,
        "pass_rate": summary.passes.rate if summary.passes else None,
        "means": {name: scorer.mean for name, scorer in summary.scorers.items()},
        "rules": [rule.model_dump() for rule in summary.gate.rules],
        "comparison": comparison
        and {
            name: found.model_dump(include={"paired", "mean", "low", "high", "better", "unchanged", "worse"})
            for name, found in comparison.scorers.items()
        },
        "pairs": pairs and pairs.model_dump(),
        "junit": args.junit,
        "report": args.report,
        "saved": args.save,
    }


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
