"""The input of ``evaluate``: its golden set or saved answers, checked before the first question, and parts of it."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.chat_batch.questions import QuestionRows
from airflow_provider_assistant.cli.ask import key_columns_of, questions_of, read_rows
from airflow_provider_assistant.cli.rows import pairs
from airflow_provider_assistant.evaluation.case import Case, Identity
from airflow_provider_assistant.evaluation.cases import EXPECTATIONS, read_cases
from airflow_provider_assistant.evaluation.column_names import misspelt_names
from airflow_provider_assistant.evaluation.rules import Condition, Rule, parse_condition
from airflow_provider_assistant.evaluation.run_directory import SCORES, RunDirectory
from airflow_provider_assistant.evaluation.scoring import NOT_APPLICABLE
from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.storage.paths import reading
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
    rows = QuestionRows(questions_of(golden, args, "check"), lambda message: endpoints.chat("check", message))
    prepared = rows.prepared(lambda _number: True)
    with_reason = [f"{row.place}: {row.problem}" for row in prepared if row.problem]
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


def part_of(args: argparse.Namespace, cases: Sequence[Case], condition: Condition | None) -> Part | None:
    """
    Return the part that ``--tag`` and ``--only-failing`` select; None without them.

    If one turn of a conversation is selected, all its turns are: an answer depends on the turns before it.

    :param cases: All questions.
    :param condition: Condition for passing of the gate file.
    :raises AssistantInputError: No question has a tag, or the saved evaluation does not say which questions failed.
    """
    texts = []
    keys = {case.key for case in cases}
    total = len(keys)
    if args.tag:
        keys = _tagged(cases, args.tag)
        texts.append(f"tag {', '.join(args.tag)}")
    if args.only_failing:
        saved = args.against or args.save
        keys &= _failing(str(saved), condition)
        texts.append(f"questions that did not pass in {saved}")
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


def check_tags(rules: Iterable[Rule], cases: Iterable[Case]) -> None:
    """
    Check that questions have the tags of the rules.

    :raises AssistantInputError: No question has the tag of a rule.
    """
    tags = {tag for case in cases for tag in case.tags}
    for rule in rules:
        if rule.tag is not None and rule.tag not in tags:
            raise AssistantInputError(
                f"gate: {rule.text!r}: no question has the tag {rule.tag!r}; there are {_listed(tags)}",
                safe=NOTHING_SENT,
                field="gate",
            )


def _listed(tags: Iterable[str]) -> str:
    return ", ".join(sorted(tags)[:LISTED]) or "no tags"


def _tagged(cases: Iterable[Case], tags: Sequence[str]) -> set[str]:
    keys_by_tag = defaultdict(set)
    for case in cases:
        for tag in case.tags:
            keys_by_tag[tag].add(case.key)
    keys = set()
    for tag in tags:
        if tag not in keys_by_tag:
            raise AssistantInputError(
                f"--tag: no question has the tag {tag!r}; there are {_listed(keys_by_tag)}",
                safe=NOTHING_SENT,
                field="--tag",
            )
        keys |= keys_by_tag[tag]
    return keys


def _failing(path: str, condition: Condition | None) -> set[str]:
    """
    Return the keys of the questions that did not pass in a saved evaluation.

    :param path: Its folder, or its file of scores.
    :param condition: Condition for passing. Default: None, that of the evaluation, or else its failed rules.
    """
    folder = ObjectStoragePath(path)
    if folder.name == SCORES:
        folder = folder.parent
    directory = RunDirectory(folder)
    summary = directory.read_summary()
    if summary is None:
        raise AssistantInputError(f"--only-failing: {path} has no complete evaluation", field="--only-failing")
    if condition is None and summary.passes:
        condition = parse_condition(summary.passes.condition, None)
    if condition is None:
        return _named_by_rules(path, summary)
    return _not_passed(path, _read_scores(directory.scores), condition)


def _read_scores(file: ObjectStoragePath) -> pa.Table:
    import pyarrow.parquet as pq

    with reading(file), file.open("rb") as opened:
        return pq.ParquetFile(opened).read()


def _not_passed(path: str, scores: pa.Table, condition: Condition) -> set[str]:
    missing = set(condition.names) - set(scores["scorer"].unique().to_pylist())
    if missing:
        raise AssistantInputError(
            f"--only-failing: {path} has no scores of {', '.join(sorted(missing))}, which pass_if needs",
            field="--only-failing",
        )
    scores_by_answer: defaultdict[Identity, dict[str, float | None]] = defaultdict(dict)
    columns = ["key", "repetition", "scorer", "score", "outcome"]
    for row in scores.select(columns).to_pylist():
        if row["scorer"] in condition.names and row["outcome"] != NOT_APPLICABLE:
            scores_by_answer[row["key"], row["repetition"]][row["scorer"]] = row["score"]
    return {key for (key, _), scores in scores_by_answer.items() if not condition.holds(scores)}


def _named_by_rules(path: str, summary: Summary) -> set[str]:
    """Return the questions that decided the failed rules of a gate without a condition for passing."""
    if summary.gate.verdict == "passed":
        return set()
    keys: set[str] = set()
    for rule in summary.gate.rules:
        if rule.verdict != "failed":
            continue
        if not rule.questions or rule.concerned != len(rule.questions):
            raise AssistantInputError(
                f"--only-failing: {path} does not name all questions for which {rule.rule!r} failed",
                todo="Give pass_if in the gate file.",
                field="--only-failing",
            )
        keys |= {question.key for question in rule.questions}
    if not keys:
        raise AssistantInputError(
            f"--only-failing: {path} does not say which questions did not pass: it had neither pass_if nor rules",
            todo="Give pass_if in the gate file.",
            field="--only-failing",
        )
    return keys
