"""Judges: scorers that ask a model. A judge may decide only if it agrees with people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_assistant.client.cancellation import GRACE, CancellableRunner
from airflow_provider_assistant.evaluation.cells import is_blank
from airflow_provider_assistant.evaluation.golden import Case, read_cases
from airflow_provider_assistant.evaluation.rubrics import JudgeOptions, Task
from airflow_provider_assistant.evaluation.summary import Agreement, JudgeFacts
from airflow_provider_assistant.exceptions import AssistantError, AssistantInputError
from airflow_provider_assistant.storage.opening import reading
from airflow_provider_assistant.texts import counted

if TYPE_CHECKING:
    import pyarrow as pa
    from airflow.providers.common.compat.sdk import ObjectStoragePath
    from pydantic_ai import Agent

    from airflow_provider_assistant.evaluation.rubrics import Rubric
    from airflow_provider_assistant.evaluation.rules import Condition, Rule
    from airflow_provider_assistant.evaluation.verdicts import Judgement, Reply, Verdicts


HUMAN, HUMAN_ANSWER = "human", "human_answer"
_WORDS = {
    **dict.fromkeys(("true", "pass", "yes", "good", "1", "1.0"), True),
    **dict.fromkeys(("false", "fail", "no", "bad", "0", "0.0"), False),
}


class Judged(NamedTuple):
    """
    What judges said, by scorer.

    :param judgements: One per case.
    :param facts: What each judge is.
    :param agreements: How well it agrees with people; without those that have no labels.
    """

    judgements: dict[str, list[Judgement]]
    facts: dict[str, JudgeFacts]
    agreements: dict[str, Agreement]


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
        self._rubrics = self._options.rubrics_of(scorers)
        self._create_agent = create_agent
        self._labels: dict[str, list[tuple[Case, bool]]] = {}
        self._runner = CancellableRunner(
            "judging was stopped from outside; a retry judges the answers that have no verdict yet",
            grace=GRACE,
            on_cancel=self._end,
        )

    def check(self, cases: Sequence[Case], rules: Sequence[Rule] = ()) -> None:
        """
        Check everything that does not need a verdict, before anything is paid for.

        :raises AssistantInputError: The connection cannot be used, a label is unclear, or a rule needs more labels.
        """
        if not self._rubrics:
            return
        self._verdicts  # noqa: B018 (opens the connection)
        labelled = [*cases, *self._labelled_elsewhere()]
        is_only = len(self._rubrics) == 1
        self._labels = {one.scorer: labels_of(labelled, one.name, is_only=is_only) for one in self._rubrics}
        for rule in rules:
            count = len(self._labels.get(rule.base, ()))
            if rule.is_agreement and count < max(rule.labels, 1):
                raise AssistantInputError(
                    f"gate: {rule.text!r} needs {counted(max(rule.labels, 1), 'label')}, and there are {count}",
                    todo="Label more answers, in the column human of the golden set or in a table of "
                    "judge={'labels': …}, or require fewer.",
                    field="gate",
                )

    def judge(self, cases: Sequence[Case], path: ObjectStoragePath, pass_if: Condition | None = None) -> Judged:
        """
        Return what the judges say about the answers, and about those that people have labelled: see :meth:`check`.

        :param path: File of the verdicts so far, from which a retry continues.
        :raises AssistantError: See :meth:`.Verdicts.ask`.
        """
        if not self._rubrics:
            return Judged({}, {}, {})
        from airflow_provider_assistant.storage.write import check_writable
        from airflow_provider_assistant.storage.write import replace as replace_file

        verdicts, judged = self._verdicts, Judged({}, {}, {})
        needed = []
        for rubric in self._rubrics:
            labelled = [case for case, _passes in self._labels.get(rubric.scorer, ())]
            needed += [Task(rubric, case) for case in (*cases, *labelled)]
        # Verdicts that cannot be saved would be paid for again.
        check_writable(path.parent)
        self._runner.run(verdicts.ask(needed, _table_at(path), lambda table: replace_file(table, path)))
        for rubric in self._rubrics:
            judged.judgements[rubric.scorer] = [verdicts.judgement(Task(rubric, case)) for case in cases]
            judged.facts[rubric.scorer] = verdicts.facts(rubric)
            if agreed := self._agreement(rubric, pass_if):
                judged.agreements[rubric.scorer] = agreed
        return judged

    def cancel(self) -> None:
        """Stop asking. A signal handler may call this."""
        self._runner.cancel()

    def _end(self, error: AssistantError) -> None:
        self._verdicts.end(error)

    @cached_property
    def _verdicts(self) -> Verdicts:
        from airflow_provider_assistant.evaluation.verdicts import Verdicts

        return Verdicts(self._options, create_agent=self._create_agent)

    def _labelled_elsewhere(self) -> list[Case]:
        """Return the answers in the tables of labels."""
        from airflow_provider_assistant.tables import Columns, read_rows
        from airflow_provider_assistant.tables.whole import table_of

        labels = self._options.labels
        paths = [labels] if isinstance(labels, str) else labels
        return [case for path in paths for case in read_cases(table_of(read_rows(path, Columns(rest=True))))]

    def _agreement(self, rubric: Rubric, pass_if: Condition | None) -> Agreement | None:
        """
        Return how well a judge agrees with the labels of people; None without labels.

        It is measured on what decides: the score, and each condition on the score. The lowest of these counts.
        """
        from airflow_provider_assistant.evaluation.agreement import agreement, lower

        pairs = []
        for case, passes in self._labels.get(rubric.scorer, ()):
            score, _reason, error = self._verdicts.judgement(Task(rubric, case))[:3]
            # An answer that could not be judged has the worst score, here too.
            if score is not None or error is not None:
                pairs.append((passes, score or 0.0))
        if not pairs:
            return None
        terms = [term for term in pass_if.terms if term.name == rubric.scorer] if pass_if else []
        found = [agreement((passes, float(term.holds(score))) for passes, score in pairs) for term in terms]
        return lower([agreement(pairs), *found])


def labels_of(cases: Iterable[Case], judge: str, *, is_only: bool) -> list[tuple[Case, bool]]:
    """
    Return the answers that have a label for a judge, each once, with whether it passes.

    A label in the column ``human`` is about the text in the column ``human_answer``, or without it about the answer of
    the row.

    :param judge: Name of the rubric. With several judges, its column is ``human.<name>``.
    :param is_only: Whether there is only one judge, so that the column ``human`` must be about it.
    :raises AssistantInputError: A label is unclear, or could be about several judges.
    """
    labels: dict[tuple[str, str | None], tuple[Case, bool]] = {}
    own = f"{HUMAN}.{judge}"
    for case in cases:
        if not is_only and not is_blank(case.row.get(HUMAN)):
            raise AssistantInputError(
                f"question {case.key!r}: with several judges, the column {HUMAN} could be about any of them",
                todo=f"Name it {own!r}.",
                field=HUMAN,
            )
        column = own if own in case.row or not is_only else HUMAN
        if is_blank(case.row.get(column)):
            continue
        labelled = case.row.get(HUMAN_ANSWER)
        answer = case.answer if is_blank(labelled) else str(labelled)
        passes = _WORDS.get(str(case.row[column]).strip().lower())
        if passes is None:
            raise AssistantInputError(
                f"question {case.key!r}: {column} must be pass or fail, not {case.row[column]!r}", field=HUMAN
            )
        labels[case.key, answer] = replace(case, answer=answer), passes
    return list(labels.values())


def _table_at(path: ObjectStoragePath) -> pa.Table | None:
    """Return the table in a file, or None if there is none."""
    import pyarrow.parquet as pq

    with reading(path):
        if not path.exists():
            return None
        with path.open("rb") as file:
            return pq.ParquetFile(file).read()
