"""Judges: scorers that ask a model. A judge may decide only if it agrees with people."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.evaluation.golden import Case, read_cases
from airflow_provider_assistant.evaluation.labels import Label, agreement, labels_of, lower
from airflow_provider_assistant.evaluation.rubrics import JudgeOptions, Rubric, Subject, Task
from airflow_provider_assistant.evaluation.run import Judgement
from airflow_provider_assistant.evaluation.summary import Agreement, JudgeFacts
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.texts import counted

if TYPE_CHECKING:
    import pyarrow as pa
    from airflow.providers.common.compat.sdk import ObjectStoragePath
    from pydantic_ai import Agent

    from airflow_provider_assistant.evaluation.rules import Rule, Term
    from airflow_provider_assistant.evaluation.verdicts import Reply, Verdicts

log = logging.getLogger(__name__)


class Judge:
    """
    The judges of one evaluation.

    :param options: The parameter ``judge``.
    :param scorers: Names of all scorers.
    :param create_agent: See :class:`.Verdicts`.
    :raises AssistantInputError: An option is invalid, or a judge has no text.
    """

    def __init__(
        self,
        options: Mapping[str, Any] | None,
        scorers: Sequence[str],
        *,
        create_agent: Callable[..., Agent[Any, Reply]] | None = None,
    ) -> None:
        self._options = JudgeOptions.parse(options)
        self._rubrics = {rubric.scorer: rubric for rubric in self._options.rubrics_of(scorers)}
        self._create_agent = create_agent
        self._labels: dict[str, list[Label]] = {}
        self._verdicts: Verdicts | None = None
        self._is_cancelled = False

    def check(self, cases: Sequence[Case], rules: Sequence[Rule] = ()) -> None:
        """
        Check everything that does not need a verdict, before anything is paid for.

        :raises AssistantInputError: The connection cannot be used, a label is unclear, or a rule needs more labels.
        """
        if not self._rubrics:
            return
        self._open()
        self._labels = self._all_labels(cases)
        for rule in rules:
            count = len(self._labels.get(rule.base, ()))
            if rule.is_agreement and count < max(rule.labels, 1):
                raise AssistantInputError(
                    f"gate: {rule.text!r} needs {counted(max(rule.labels, 1), 'label')}, and there are {count}",
                    todo="Label more answers, in the column human of the golden set or in a table of "
                    "judge={'labels': …}, or require fewer.",
                    field="gate",
                )

    def judge(
        self, names: Sequence[str], cases: Sequence[Case], saved: ObjectStoragePath
    ) -> Mapping[str, Sequence[Judgement]]:
        """
        Return the judgements of each judge, one per case; a case without answer has no score.

        :param saved: File of the verdicts so far, from which a retry continues.
        :raises AssistantError: See :meth:`.Verdicts.ask`.
        """
        if not names:
            return {}
        verdicts = self._verdicts = self._open(saved)
        self._labels = self._all_labels(cases)
        tasks: dict[str, list[Task | None]] = {}
        for name in names:
            tasks[name] = [_task(self._rubrics[name], case) for case in cases]
        labelled = [task for name in names for _label, task in self._label_tasks(name)]
        verdicts.ask([*filter(None, (task for column in tasks.values() for task in column)), *labelled])
        return {name: [_judgement(verdicts, task) for task in column] for name, column in tasks.items()}

    def facts(self, name: str) -> JudgeFacts:
        """Return the model, the rubric and the tokens of a judge that has judged."""
        verdicts, rubric = self._open(), self._rubrics[name]
        input_tokens, output_tokens = verdicts.tokens(name)
        return JudgeFacts(
            model=verdicts.model,
            fingerprint=rubric.fingerprint(verdicts.model),
            rubric=rubric.text,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
        )

    def agreement(self, name: str, terms: Sequence[Term] = ()) -> Agreement | None:
        """
        Return how well a judge agrees with the labels of people; None without labels.

        It is measured on what decides: the score, and each condition on the score. The lowest of these counts.

        :param terms: Conditions on the score of the judge by which an answer passes.
        """
        pairs: list[tuple[bool, float]] = []
        for label, task in self._label_tasks(name):
            judgement = _judgement(self._open(), task)
            # An answer that could not be judged has the worst score, here too.
            if judgement.score is not None or judgement.error is not None:
                pairs.append((label.passes, judgement.score or 0.0))
        if not pairs:
            return None
        found = [agreement((passes, float(term.holds(score))) for passes, score in pairs) for term in terms]
        return lower([agreement(pairs), *found])

    def cancel(self) -> None:
        """Stop asking. A signal handler may call this."""
        self._is_cancelled = True
        if self._verdicts:
            self._verdicts.cancel()

    def _open(self, saved: ObjectStoragePath | None = None) -> Verdicts:
        """Return the verdicts; with a file, those that it has."""
        from airflow_provider_assistant.evaluation.verdicts import Verdicts

        if self._verdicts is None or saved is not None:
            table, save = (None, _ignore) if saved is None else _file(saved)
            self._verdicts = Verdicts(self._options, create_agent=self._create_agent, saved=table, save=save)
        if self._is_cancelled:
            self._verdicts.cancel()
        return self._verdicts

    def _all_labels(self, cases: Sequence[Case]) -> dict[str, list[Label]]:
        """Return the labels of each judge: those of the golden set, and of the tables of labels."""
        from airflow_provider_assistant.tables import Columns, read_rows
        from airflow_provider_assistant.tables.whole import table_of

        rows = list(cases)
        options = self._options
        for path in [options.labels] if isinstance(options.labels, str) else options.labels:
            rows += read_cases(table_of(read_rows(path, Columns(rest=True))))
        is_only = len(self._rubrics) == 1
        return {name: labels_of(rows, rubric.name, is_only=is_only) for name, rubric in self._rubrics.items()}

    def _label_tasks(self, name: str) -> Iterator[tuple[Label, Task]]:
        for label in self._labels.get(name, ()):
            task = _task(self._rubrics[name], label.case)
            if task is not None and task.is_applicable:
                yield label, task


def _task(rubric: Rubric, case: Case) -> Task | None:
    if case.answer is None:
        return None
    subject = Subject(case.message, case.answer, case.reference, case.expect_no_answer, case.transcript)
    return Task(rubric, subject)


def _judgement(verdicts: Verdicts, task: Task | None) -> Judgement:
    verdict = verdicts.verdict(task) if task else None
    if verdict is None:
        return Judgement()
    if isinstance(verdict, str):
        return Judgement(error=verdict)
    return Judgement(verdict.score, verdict.reason)


def _ignore(_table: pa.Table) -> None:
    """Save nothing."""


def _file(path: ObjectStoragePath) -> tuple[pa.Table | None, Callable[[pa.Table], object]]:
    """Return the verdicts that a file has, None if there is none, and the function that replaces it."""
    import pyarrow.parquet as pq

    from airflow_provider_assistant.storage.opening import reading
    from airflow_provider_assistant.storage.write import check_writable, replace

    # Verdicts that cannot be saved would be paid for again.
    check_writable(path.parent)
    saved = None
    with reading(path):
        if path.exists():
            with path.open("rb") as file:
                saved = pq.read_table(file)
    return saved, lambda table: replace(table, path)
