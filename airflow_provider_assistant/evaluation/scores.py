"""The matrix of scores: a row per answer, a column per scorer. Earlier runs are the same matrix, read from Parquet."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_assistant.evaluation.arrays import Bools, Floats, Integers, np
from airflow_provider_assistant.evaluation.rules import COVERAGE, LATENCY, PASS_RATE, Condition
from airflow_provider_assistant.evaluation.runs import COLUMNS
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.texts import storable

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_assistant.evaluation.golden import Case
    from airflow_provider_assistant.evaluation.scorers import Scorer
    from airflow_provider_assistant.evaluation.verdicts import Judgement

_ERROR_LENGTH = 500


@dataclass(frozen=True, slots=True)
class Questions:
    """
    The questions of a run. A conversation is one unit, and so is a single question.

    :param unit_of: Number of the unit of each question.
    """

    keys: Sequence[str]
    hashes: Sequence[str]
    weights: Floats
    tags: Sequence[Sequence[str]]
    units: Sequence[str]
    unit_of: Integers

    @classmethod
    def of(cls, cases: Sequence[Case]) -> Questions:
        """Return the questions of cases, in their order. All repetitions of a question are one."""
        by_key: dict[str, Case] = {}
        for case in cases:
            by_key.setdefault(case.key, case)
        first = by_key.values()
        numbers: dict[str, int] = {}
        unit_of = [numbers.setdefault(case.unit, len(numbers)) for case in first]
        return cls(
            keys=list(by_key),
            hashes=[case.content_hash for case in first],
            weights=np.array([case.weight for case in first], dtype=float),
            tags=[case.tags for case in first],
            units=list(numbers),
            unit_of=np.array(unit_of, dtype=np.int64),
        )

    def with_tag(self, tag: str | None) -> Bools:
        """Return which questions have a tag, or all."""
        return np.array([tag is None or tag in tags for tags in self.tags], dtype=bool)


class Column(NamedTuple):
    """
    The values of a figure by unit; NaN: none.

    :param weights: Weight of each unit in the mean.
    :param counts: Number of its questions that have a value; 1 for the pass rate.
    """

    values: Floats
    weights: Floats
    counts: Integers


@dataclass(frozen=True, slots=True)
class Scores:
    """
    The scores of a run.

    :param question_of: Number of the question of each answer.
    :param values: Scores by scorer; NaN: not applicable, or no answer.
    :param seconds: Latency of each answer; NaN if not known.
    :param measured: Names of the scorers that should have a value for every answer.
    :param errors: Text by scorer, by number of the answer. Such an answer has the worst score.
    """

    questions: Questions
    question_of: Integers
    repetitions: Integers
    is_answered: Bools
    values: Mapping[str, Floats]
    seconds: Floats
    measured: frozenset[str]
    errors: Mapping[int, Mapping[str, str]]

    def passed(self, pass_if: Condition) -> Floats:
        """
        Return whether each answer passes: 1, 0, or NaN if it cannot be judged.

        A scorer that is not applicable is ignored. An answer is not judged if it is missing, if no scorer is applicable
        or if a measured value is not known.
        """
        is_judged, fails, lacks_measure = np.zeros((3, len(self.question_of)), dtype=bool)
        for term in pass_if.terms:
            values = self.values[term.name]
            has_value = ~np.isnan(values)
            is_judged |= has_value
            # Most scores have few different values.
            different, positions = np.unique(values[has_value], return_inverse=True)
            holds = np.array([term.holds(value) for value in different.tolist()], dtype=bool)
            fails[has_value] |= ~holds[positions]
            if term.name in self.measured:
                lacks_measure |= ~has_value
        is_judged &= self.is_answered
        return np.where(fails & is_judged, 0.0, np.where(is_judged & ~lacks_measure, 1.0, np.nan))

    def _units_passed(self, pass_if: Condition, tag: str | None = None) -> Column:
        """
        Return the share of its judged repetitions in which each unit passes.

        A conversation passes if all its turns pass to which a scorer applies. It is not judged if one of them is not or
        if a turn has no answer, unless another one fails.

        :param tag: Only units of which a question has this tag. Default: all.
        """
        questions, passed = self.questions, self.passed(pass_if)
        units = questions.unit_of[self.question_of]
        # One number for a unit and a repetition, which is at most the number of answers.
        most = int(self.repetitions.max(initial=0)) + 1
        pairs, of_row = np.unique(units * most + self.repetitions, return_inverse=True)
        names = pass_if.names
        applies = np.any([~np.isnan(self.values[name]) | (name in self.measured) for name in names], axis=0)
        has_failed = np.bincount(of_row, weights=passed == 0, minlength=len(pairs)) > 0
        has_passed = np.bincount(of_row, weights=passed == 1, minlength=len(pairs)) > 0
        # An answer to which nothing applies, such as that to a greeting, decides nothing.
        lacks_verdict = np.isnan(passed) & (applies | ~self.is_answered)
        is_unknown = np.bincount(of_row, weights=lacks_verdict, minlength=len(pairs)) > 0
        verdicts = np.where(has_failed, 0.0, np.where(is_unknown | ~has_passed, np.nan, 1.0))
        shares, _ = grouped(verdicts, pairs // most, len(questions.units))
        has_tag = np.bincount(questions.unit_of, weights=questions.with_tag(tag), minlength=len(questions.units)) > 0
        shares = np.where(has_tag, shares, np.nan)
        return Column(shares, np.ones(len(shares)), (~np.isnan(shares)).astype(np.int64))

    def by_unit(self, figure: str, tag: str | None = None, pass_if: Condition | None = None) -> Column:
        """
        Return the values of a figure, one of each unit.

        A question has the mean of its repetitions, and a conversation the weighted mean of its questions.

        :param tag: Only questions with this tag. Default: all.
        :param pass_if: The condition of the pass rate.
        """
        if figure == PASS_RATE and pass_if:
            return self._units_passed(pass_if, tag)
        questions = self.questions
        column, weights = self.seconds, questions.weights
        if figure == COVERAGE:
            column, weights = self.is_answered.astype(float), np.ones(len(weights))
        elif figure != LATENCY:
            column = self.values[figure]
        means, _ = grouped(column, self.question_of, len(questions.keys))
        tagged = np.where(questions.with_tag(tag), means, np.nan)
        values, totals = grouped(tagged, questions.unit_of, len(questions.units), weights)
        counts = np.bincount(questions.unit_of[~np.isnan(tagged)], minlength=len(questions.units))
        return Column(values, totals, counts)

    def answered(self, tag: str | None = None) -> Bools:
        """Return which questions with a tag have an answer in a repetition."""
        shares, _ = grouped(self.is_answered.astype(float), self.question_of, len(self.questions.keys))
        return (shares > 0) & self.questions.with_tag(tag)


def grouped(values: Floats, groups: Integers, size: int, weights: Floats | None = None) -> tuple[Floats, Floats]:
    """Return the weighted mean of the known values of each group, NaN without any, and their weight."""
    is_known = ~np.isnan(values)
    known_weights = np.ones(int(is_known.sum())) if weights is None else weights[is_known]
    totals = np.bincount(groups[is_known], weights=known_weights, minlength=size).astype(float)
    sums = np.bincount(groups[is_known], weights=known_weights * values[is_known], minlength=size)
    return np.divide(sums, totals, out=np.full(size, np.nan), where=totals > 0), totals


def score_cases(
    cases: Sequence[Case], scorers: Sequence[Scorer], judged: Mapping[str, Sequence[Judgement]] | None = None
) -> Scores:
    """
    Score the answers. An answer that a scorer cannot score gets its worst score, and the error is kept.

    :param judged: Judgements of each scorer that is a judge, one per case. Default: none.
    """
    errors: dict[int, dict[str, str]] = {}
    values = {}
    for scorer in scorers:
        column = np.full(len(cases), np.nan)
        for row, case in enumerate(cases):
            if case.answer is None:
                continue
            if scorer.is_judge:
                judgement = (judged or {})[scorer.name][row]
                score, error = judgement.score, judgement.error
            else:
                score, error = _scored(scorer, case)
            if error is not None:
                errors.setdefault(row, {})[scorer.name] = error[:_ERROR_LENGTH]
                score = scorer.worst
            if score is not None:
                column[row] = score
        values[scorer.name] = column
    questions = Questions.of(cases)
    numbers = {key: number for number, key in enumerate(questions.keys)}
    is_answered = np.array([case.answer is not None for case in cases], dtype=bool)
    seconds = np.array([math.nan if case.seconds is None else case.seconds for case in cases], dtype=float)
    return Scores(
        questions=questions,
        question_of=np.array([numbers[case.key] for case in cases], dtype=np.int64),
        repetitions=np.array([case.repetition for case in cases], dtype=np.int64),
        is_answered=is_answered,
        values=values,
        seconds=np.where(is_answered, seconds, np.nan),
        measured=frozenset(scorer.name for scorer in scorers if scorer.is_measured),
        errors=errors,
    )


def _scored(scorer: Scorer, case: Case) -> tuple[float | None, str | None]:
    """Return a score, None if the scorer is not applicable; and why there is none."""
    try:
        value: Any = scorer.score(case) if scorer.score else None
    except AssistantInputError:
        # A column that is not numeric is a mistake in all the data, not in one answer.
        raise
    except Exception as error:  # noqa: BLE001 (functions of users raise what they like)
        return None, f"{type(error).__name__}: {error}"
    # numpy's scalars become Python's numbers.
    plain = value.item() if hasattr(value, "item") else value
    if plain is None:
        return None, None
    if not isinstance(plain, bool | int | float):
        return None, f"it returned {plain!r}, not a number, a bool or None"
    if not math.isfinite(plain) or (scorer.is_share and not 0 <= plain <= 1):
        return None, f"it returned {plain}, which is not from 0 to 1; None means not applicable"
    return float(plain), None


def to_table(scores: Scores, cases: Sequence[Case], pass_if: Condition | None) -> pa.Table:
    """Return the content of ``scores.parquet``."""
    import pyarrow as pa

    passed = np.full(len(cases), np.nan) if pass_if is None else scores.passed(pass_if)
    columns = {
        "key": pa.array([case.key for case in cases], pa.string()),
        "repetition": pa.array(scores.repetitions, pa.int32()),
        "conversation": pa.array([case.conversation for case in cases], pa.string()),
        "case": pa.array(scores.questions.hashes, pa.string()).take(pa.array(scores.question_of)),
        "request_id": pa.array([case.request_id for case in cases], pa.string()),
        "status": pa.array([case.status for case in cases], pa.string()),
        "weight": pa.array([case.weight for case in cases], pa.float64()),
        "tags": pa.array([case.tags for case in cases], pa.list_(pa.string())),
        "passed": pa.array(passed, from_pandas=True).cast(pa.bool_()),
        "errors": pa.array([_error_text(scores.errors.get(row)) for row in range(len(cases))], pa.string()),
    }
    return pa.table(columns | {name: pa.array(values, from_pandas=True) for name, values in scores.values.items()})


def _error_text(errors: Mapping[str, str] | None) -> str | None:
    lines = [f"{name}: {' '.join(reason.split())}" for name, reason in (errors or {}).items()]
    return storable("\n".join(lines)) or None


def of_table(table: pa.Table, questions: Questions, measured: frozenset[str]) -> Scores:
    """
    Return the scores of an earlier run for the questions of this one.

    Answers to other questions are left out, and so are conversations of which a question has changed or was added.

    :raises ValueError: It is not a table of scores.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    missing = [name for name in COLUMNS if name not in table.column_names]
    if missing:
        raise ValueError(f"it has no column {', '.join(missing)}")
    found = pc.index_in(table["key"], value_set=pa.array(questions.keys, pa.string())).combine_chunks()
    is_same = pc.equal(table["case"], pa.array(questions.hashes, pa.string()).take(found)).fill_null(False).to_numpy()
    question_of = found.fill_null(-1).to_numpy().astype(np.int64)
    others = np.setdiff1d(np.arange(len(questions.keys)), question_of[is_same])
    is_kept = is_same & ~np.isin(questions.unit_of[question_of], questions.unit_of[others])
    kept = table.filter(pa.array(is_kept))
    names = [field.name for field in kept.schema if field.name not in COLUMNS and pa.types.is_floating(field.type)]
    values = {name: kept[name].to_numpy().astype(float) for name in names}
    return Scores(
        questions=questions,
        question_of=question_of[is_kept],
        repetitions=kept["repetition"].to_numpy().astype(np.int64),
        is_answered=pc.equal(kept["status"], "complete").fill_null(False).to_numpy().astype(bool),
        values=values,
        seconds=values.get(LATENCY, np.full(kept.num_rows, np.nan)),
        measured=measured,
        errors={},
    )
