"""The input of ``evaluate``: its golden set or saved answers, checked before the first question, and parts of it."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.cli.ask import key_columns_of, questions_of, read_rows
from airflow_provider_assistant.cli.rows import pairs
from airflow_provider_assistant.evaluation.case import Case
from airflow_provider_assistant.evaluation.cases import EXPECTATIONS, read_cases
from airflow_provider_assistant.evaluation.column_names import misspelt_names
from airflow_provider_assistant.evaluation.rules import Condition, Rule, parse_condition
from airflow_provider_assistant.evaluation.run_directory import SCORES, RunDirectory
from airflow_provider_assistant.evaluation.scored import of_scorer, passed_answers
from airflow_provider_assistant.evaluation.scoring import NOT_APPLICABLE
from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.texts import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_assistant.evaluation.baseline import Baseline
    from airflow_provider_assistant.evaluation.summary import Summary

MESSAGE = "message"
# Number of tags that a message lists.
LISTED = 20


@dataclass(frozen=True, slots=True)
class Part:
    """
    A part of a golden set.

    :param text: What it is a part of, such as ``tag billing``.
    :param keys: Keys of its questions.
    :param total: Number of questions of the whole golden set.
    """

    text: str
    keys: frozenset[str]
    total: int

    def of(self, cases: Iterable[Case]) -> list[Case]:
        """Return those questions that belong to the part."""
        return [case for case in cases if case.key in self.keys]

    def rows(self, table: pa.Table | None, cases: Sequence[Case]) -> pa.Table | None:
        """Return the rows of the part; the first cases are those of the rows of the table."""
        if table is None:
            return None
        return table.filter([case.key in self.keys for case in cases[: table.num_rows]])

    def baseline(self, baseline: Baseline | None) -> Baseline | None:
        """Return what an earlier evaluation says about the part."""
        if baseline is None:
            return None
        runs = []
        for run in baseline.runs:
            scores = run.scores.filter([key in self.keys for key in run.scores["key"].to_pylist()])
            runs.append(run._replace(scores=scores))
        return baseline._replace(runs=runs, cases=self.of(baseline.cases))

    def rules(self, rules: Iterable[Rule], cases: Sequence[Case]) -> list[Rule]:
        """
        Return the rules that can be judged on the part alone.

        Rules about tags that no question of the part has are left out, and those about the agreement
        of a judge with people, which needs all labels.
        """
        tags = {tag for case in cases for tag in case.tags}
        return [rule for rule in rules if rule.labels is None and (rule.tag is None or rule.tag in tags)]


def read_golden(args: argparse.Namespace) -> tuple[pa.Table, list[Case]]:
    """
    Read a golden set to ask, and check every row of it; nothing is sent.

    :return: The table as it is in the file, and its questions without answers, in the same order.
    :raises AssistantInputError: A question cannot be asked, a cell is invalid, a key is a duplicate, or the name of a
        column is misspelt.
    """
    import pyarrow as pa

    golden = read_rows(args.file, args)
    questions = questions_of(golden, args)
    with_reason = [f"row {question.row}: {question.problem}" for question in questions.rows if question.problem]
    if with_reason:
        raise AssistantInputError(
            f"{args.file}: {counted(len(with_reason), 'question')} cannot be asked, such as {with_reason[0]}",
            safe=NOTHING_SENT,
            todo="Correct the golden set, or remove the rows.",
            field="file",
        )
    table = expectations_of(golden, args)
    unanswered = table.append_column("answer", pa.nulls(table.num_rows, pa.string()))
    return golden, _read_cases(args.file, unanswered, None, key_columns_of(golden, args))


def read_answered(args: argparse.Namespace) -> tuple[pa.Table, list[Case]]:
    """
    Read saved answers, and their expectations: those of the golden set, or else of the same file.

    :return: The table as it is in the file, and the questions: in the same order, followed by those that have no row.
    :raises AssistantInputError: A cell is invalid, a key is missing or a duplicate, the golden set does not belong to
        the answers, or the name of a column is misspelt.
    """
    answers = read_rows(args.answers, args)
    if not answers.num_rows:
        raise AssistantInputError(f"{args.answers} has no rows", safe=NOTHING_SENT, field="--answers")
    if not args.file:
        with_message = expectations_of(answers, args)
        return answers, _read_cases(args.answers, with_message, None, key_columns_of(answers, args))
    golden = read_rows(args.file, args)
    return answers, _read_cases(args.answers, answers, expectations_of(golden, args), key_columns_of(golden, args))


def cases_of(answers: pa.Table) -> list[Case]:
    """
    Return the questions with the answers to them that were just asked.

    Their columns were checked before. What is misspelt there was given as a key, or with ``--column``.
    """
    return read_cases(answers.drop_columns(list(misspelt_names(answers.column_names, EXPECTATIONS))))


def expectations_of(golden: pa.Table, args: argparse.Namespace) -> pa.Table:
    """Return a golden set with the question in the column ``message``, without the other columns of ``--column``."""
    column_by_field = pairs("--column", args.column)
    message = column_by_field.pop(MESSAGE, MESSAGE)
    sent_columns = set(column_by_field.values()) - {message}
    table = golden.drop_columns([name for name in golden.column_names if name in sent_columns])
    if message not in table.column_names:
        return table
    return table.rename_columns([MESSAGE if name == message else name for name in table.column_names])


def possible_answers(cases: Sequence[Case], repeat: int) -> list[Case]:
    """Return the questions as if each had an answer of its own, of which labels could be about."""
    answered: list[Case] = []
    for repetition in range(1, repeat + 1):
        answer = str(repetition)
        answered += [replace(case, answer=answer, status="complete", repetition=repetition) for case in cases]
    return answered


def _read_cases(file: str, answers: pa.Table, golden: pa.Table | None, key_columns: Sequence[str]) -> list[Case]:
    try:
        return read_cases(answers, golden, key_columns=key_columns or MESSAGE)
    except AssistantInputError as error:
        happened = error.happened.removeprefix("answers: ")
        todo = (error.todo or "").replace("key_columns", "--key")
        raise AssistantInputError(f"{file}: {happened}", safe=NOTHING_SENT, todo=todo, field=error.field) from error


def part_of(
    args: argparse.Namespace, cases: Sequence[Case], condition: Condition | None, baseline: Baseline | None
) -> Part | None:
    """
    Return the part that ``--tag`` and ``--only-failing`` select; None without them.

    If one turn of a conversation is selected, all its turns are: an answer depends on the turns before it.

    :param cases: All questions.
    :param condition: Condition for passing of the gate file.
    :param baseline: The evaluation of ``--only-failing``.
    :raises AssistantInputError: No question has a tag, or the saved evaluation does not say which questions failed.
    """
    texts = []
    keys = {case.key for case in cases}
    total = len(keys)
    if args.tag:
        for tag in args.tag:
            _check_tag(tag, cases, "--tag", "--tag")
        keys = {case.key for case in cases if not set(args.tag).isdisjoint(case.tags)}
        texts.append(f"tag {', '.join(args.tag)}")
    if args.only_failing and baseline:
        keys &= _failing(baseline, condition)
        texts.append(f"questions that did not pass in {args.against or args.save}")
    if not texts:
        return None
    conversations = {_conversation(case, args) for case in cases if case.key in keys}
    conversations.discard(None)
    keys |= {case.key for case in cases if _conversation(case, args) in conversations}
    return Part(" and ".join(texts), frozenset(keys), total)


def _conversation(case: Case, args: argparse.Namespace) -> str | None:
    """Return the conversation of a question: of the golden set, or of saved answers."""
    if args.turn and args.session in case.row:
        return str(case.row[args.session])
    if case.row.get("turn") is not None:
        return case.session_id
    return None


def check_tags(rules: Iterable[Rule], cases: Sequence[Case]) -> None:
    """
    Check that questions have the tags of the rules.

    :raises AssistantInputError: No question has the tag of a rule.
    """
    for rule in rules:
        if rule.tag is not None:
            _check_tag(rule.tag, cases, f"gate: {rule.text!r}", "gate")


def _check_tag(tag: str, cases: Iterable[Case], where: str, field: str) -> None:
    tags = {tag for case in cases for tag in case.tags}
    if tag not in tags:
        listed = ", ".join(sorted(tags)[:LISTED]) or "no tags"
        raise AssistantInputError(
            f"{where}: no question has the tag {tag!r}; there are {listed}", safe=NOTHING_SENT, field=field
        )


def _failing(baseline: Baseline, condition: Condition | None) -> set[str]:
    """
    Return the keys of the questions that did not pass in an earlier evaluation.

    :param condition: Condition for passing. Default: None, that of the evaluation, or else its failed rules.
    """
    path = str(baseline.about["path"])
    summary = None
    scores = ObjectStoragePath(path)
    # A file with another name is a copy, and a summary next to it may be of other scores.
    if scores.name == SCORES:
        summary = RunDirectory(scores.parent).read_summary()
    if condition is None and summary and summary.passes:
        condition = parse_condition(summary.passes.condition, None)
    if condition is None:
        return _named_by_rules(path, summary)
    rows_by_scorer = {name: of_scorer(baseline.runs[0].scores, name) for name in condition.names}
    missing = [name for name, rows in rows_by_scorer.items() if not rows]
    if missing:
        raise AssistantInputError(
            f"--only-failing: {path} has no scores of {', '.join(missing)}, which pass_if needs",
            field="--only-failing",
        )
    passed = passed_answers(rows_by_scorer, condition)
    rows = chain.from_iterable(rows_by_scorer.values())
    return {row.key for row in rows if row.outcome != NOT_APPLICABLE and not passed[row.identity]}


def _named_by_rules(path: str, summary: Summary | None) -> set[str]:
    """Return the questions that decided the failed rules of a gate without a condition for passing."""
    if summary and summary.gate.verdict == "passed":
        return set()
    rules = summary.gate.rules if summary else ()
    failed_rules = [rule for rule in rules if rule.verdict == "failed"]
    problem = None
    if not failed_rules:
        problem = "does not say which questions did not pass: it had neither pass_if nor rules"
    for rule in failed_rules:
        if not rule.questions or rule.concerned != len(rule.questions):
            problem = f"does not name all questions for which {rule.rule!r} failed"
    if problem:
        raise AssistantInputError(
            f"--only-failing: {path} {problem}", todo="Give pass_if in the gate file.", field="--only-failing"
        )
    return {question.key for rule in failed_rules for question in rule.questions}
