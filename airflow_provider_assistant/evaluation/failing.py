"""The questions that failed, and what each of them fails: for the report, JUnit and the terminal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from airflow_provider_assistant.evaluation.rules import CONFIDENCE_SCORE, OF_PASSING
from airflow_provider_assistant.texts import shortened

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_assistant.evaluation.case import Case, Identity
    from airflow_provider_assistant.evaluation.evaluate import Evaluation
    from airflow_provider_assistant.evaluation.summary import Summary
    from airflow_provider_assistant.evaluation.verdict import NamedQuestions, RuleVerdict

# Number of failing questions that the log and the terminal list, and length limits of a line and of a text in it.
LINES, LINE_LENGTH, NAME_LENGTH = 20, 240, 60
Row = TypeVar("Row")
# Scores by scorer of each question and repetition.
ScoresByCase: TypeAlias = Mapping["Identity", Mapping[str, float | None]]


@dataclass(frozen=True, slots=True)
class Some(Generic[Row]):
    """
    A shortened list.

    :param more: Number of rows that are not in it.
    """

    rows: Sequence[Row]
    more: int

    @classmethod
    def first(cls, rows: Sequence[Row], limit: int) -> Some[Row]:
        """Return the first rows."""
        return cls(rows[:limit], more=max(0, len(rows) - limit))


@dataclass(frozen=True, slots=True)
class FailingTurn:
    """
    A question, or a turn of a conversation.

    :param reasons: What it fails, such as ``must_include >= 1: 0``. Empty for a turn that does not fail.
    """

    case: Case
    reasons: Sequence[str]


@dataclass(frozen=True, slots=True)
class FailingQuestion:
    """
    A question that failed, or a conversation with a turn that failed.

    :param turns: One for a question; all of a conversation, in order.
    :param is_new: Whether it passed in the baseline. False also if that is not known.
    """

    turns: Sequence[FailingTurn]
    is_new: bool

    @property
    def key(self) -> str:
        """Key of the question, or of the first turn."""
        return self.turns[0].case.key

    @property
    def first(self) -> FailingTurn:
        """The question, or the first turn that fails."""
        return next((turn for turn in self.turns if turn.reasons), self.turns[0])


def failing_questions(evaluation: Evaluation, limit: int) -> Some[FailingQuestion]:
    """
    Return the failing questions, those that passed in the baseline first.

    If there are too many, every failed rule keeps its worst questions: a rule with many does not hide the others.

    :param limit: Maximum number of questions.
    """
    failed_rules = [rule for rule in evaluation.summary.gate.rules if rule.verdict == "failed"]
    reasons = _Reasons(evaluation, failed_rules)
    cases_by_key = _cases_by_key(evaluation.cases)
    cases: list[Case] = []
    for key in _keys_in_order(evaluation.summary, failed_rules):
        repetitions = cases_by_key.get(key)
        if repetitions:
            cases.append(max(repetitions, key=reasons.badness))
    newly_failing = set(_keys(evaluation.summary.newly_failing))
    questions = _with_all_turns(cases, evaluation.cases, reasons.of_turns, newly_failing)
    kept = sorted(questions[:limit], key=lambda question: not question.is_new)
    return Some(kept, more=max(len(questions), _count(evaluation.summary)) - len(kept))


def lowest_questions(evaluation: Evaluation, limit: int) -> Some[FailingQuestion]:
    """
    Return the answered questions with a mean score of less than 1, lowest first.

    The mean includes only scores from 0 to 1 for which higher is better.

    :param limit: Maximum number of questions.
    """
    scores = scores_by_case(evaluation.scores)
    imperfect = []
    for case in evaluation.cases:
        mean = mean_share(evaluation.summary, scores[case.identity])
        if case.answer is not None and mean is not None and mean < 1:
            imperfect.append((mean, case))
    imperfect.sort(key=lambda pair: pair[0])
    cases = [case for _mean, case in imperfect]
    questions = _with_all_turns(cases, evaluation.cases, _without_reasons, set())
    return Some.first(questions, limit)


def _without_reasons(turns: Sequence[Case]) -> list[FailingTurn]:
    return [FailingTurn(turn, ()) for turn in turns]


def failing_lines(evaluation: Evaluation) -> list[str]:
    """Return a line for each of the first failing questions: its key, its text, and what it fails."""
    questions = failing_questions(evaluation, LINES)
    lines = []
    for question in questions.rows:
        turn = question.first
        start = "newly failing" if question.is_new else "failing"
        key = shortened(question.key, NAME_LENGTH)
        if len(question.turns) > 1:
            key += f" (turn {question.turns.index(turn) + 1})"
        message = shortened(turn.case.message, NAME_LENGTH)
        reasons = "; ".join(turn.reasons) or "it decided a rule that failed"
        lines.append(shortened(f"{start}: {key} — {message} — {reasons}", LINE_LENGTH))
    if questions.more:
        lines.append(f"and {questions.more} more")
    return lines


def _with_all_turns(
    chosen: Sequence[Case],
    cases: Sequence[Case],
    turns_of: Callable[[Sequence[Case]], Sequence[FailingTurn]],
    newly_failing: set[str],
) -> list[FailingQuestion]:
    """
    Return the chosen questions, and of a turn the whole conversation, once.

    :param cases: All questions.
    """
    conversations = _conversations(cases)
    questions: list[FailingQuestion] = []
    shown: set[Identity] = set()
    for case in chosen:
        if case.identity in shown:
            continue
        turns = [case]
        if case.conversation:
            turns = conversations[case.unit, case.repetition]
        shown.update(turn.identity for turn in turns)
        is_new = any(turn.key in newly_failing for turn in turns)
        questions.append(FailingQuestion(turns_of(turns), is_new))
    return questions


def _count(summary: Summary) -> int:
    """Return the number of failing questions, of which the summary names only the first."""
    counts = [rule.concerned for rule in summary.gate.rules if rule.verdict == "failed"]
    if summary.failing:
        counts.append(summary.failing.count)
    return max(counts, default=0)


def _keys_in_order(summary: Summary, failed_rules: Sequence[RuleVerdict]) -> Iterable[str]:
    """Return the keys of the failing questions, without duplicates."""
    lists = [_keys(summary.newly_failing)]
    lists += [[question.key for question in rule.questions] for rule in failed_rules]
    keys = [*chain.from_iterable(zip_longest(*lists)), *_keys(summary.failing)]
    return dict.fromkeys(key for key in keys if key is not None)


def _keys(named: NamedQuestions | None) -> Sequence[str]:
    return named.keys if named else ()


class _Reasons:
    """What a question or turn fails: rules of the gate, and terms of ``pass_if``."""

    def __init__(self, evaluation: Evaluation, rules: Sequence[RuleVerdict]) -> None:
        self._summary = evaluation.summary
        self._scores = scores_by_case(evaluation.scores)
        self._terms = evaluation.pass_if.terms if evaluation.pass_if else ()
        self._by_key: defaultdict[str, list[str]] = defaultdict(list)
        for rule in rules:
            if self._terms and rule.rule.lstrip().startswith(OF_PASSING):
                # The terms of the condition say more.
                continue
            for question in rule.questions:
                self._by_key[question.key].append(_reason(rule.rule, question.before, question.value))

    def __call__(self, case: Case) -> list[str]:
        """Return what a question fails."""
        return list(dict.fromkeys([*self.of_rules(case), *self.of_condition(case)]))

    def of_rules(self, case: Case) -> list[str]:
        """Return the failed rules that name a question. No answer explains all of them."""
        return [] if case.answer is None else self._by_key[case.key]

    def of_condition(self, case: Case) -> list[str]:
        """Return the terms of ``pass_if`` that a question does not fulfil."""
        if case.answer is None:
            reason = f": {case.error}" if case.error else ""
            return [f"no answer: {case.status.replace('_', ' ')}{reason}"]
        reasons = []
        for term in self._terms:
            score = self._scores[case.identity].get(term.name)
            if score is not None and not term.holds(score):
                reasons.append(_reason(f"{term.name} {term.comparison} {term.threshold:g}", None, score))
        return reasons

    def of_turns(self, turns: Sequence[Case]) -> list[FailingTurn]:
        """
        Return the turns of a conversation with what they fail.

        Rules name a conversation by its first turn. Their reasons go to the turn that fails most.
        """
        first, *others = turns
        reasons = {turn.identity: self(turn) for turn in others}
        reasons[first.identity] = self.of_condition(first)
        worst = max(turns, key=lambda turn: (len(reasons[turn.identity]), *self.badness(turn)[1:]))
        reasons[worst.identity] = list(dict.fromkeys([*self.of_rules(first), *reasons[worst.identity]]))
        return [FailingTurn(turn, reasons[turn.identity]) for turn in turns]

    def badness(self, case: Case) -> tuple[int, float]:
        """Return the sort key of the repetitions of a question: the greatest is the one to show."""
        mean = mean_share(self._summary, self._scores[case.identity])
        return len(self(case)), -(mean or 0.0)


def _reason(condition: str, before: float | None, value: float | None) -> str:
    if value is None:
        return condition
    if before is None or before == value:
        return f"{condition}: {value:.4g}"
    return f"{condition}: {before:.4g} → {value:.4g}"


def scores_by_case(table: pa.Table) -> ScoresByCase:
    """Return the scores by key and repetition of the question, and by scorer; empty for an unknown question."""
    scores: defaultdict[Identity, dict[str, float | None]] = defaultdict(dict)
    columns = [table[name].to_pylist() for name in ("key", "repetition", "scorer", "score")]
    for key, repetition, scorer, score in zip(*columns, strict=True):
        scores[key, repetition][scorer] = score
    return scores


def mean_share(summary: Summary, scores: Mapping[str, float | None]) -> float | None:
    """Return the mean of the scores from 0 to 1 for which higher is better, without the confidence."""
    shares = []
    for name, scorer in summary.scorers.items():
        # The confidence is the service's own opinion of its answer, and not a mark for it.
        if name == CONFIDENCE_SCORE:
            continue
        score = scores.get(name)
        # Only scores from 0 to 1 have a histogram.
        if scorer.histogram and scorer.higher_is_better and score is not None:
            shares.append(score)
    if not shares:
        return None
    return sum(shares) / len(shares)


def _cases_by_key(cases: Iterable[Case]) -> Mapping[str, list[Case]]:
    cases_by_key: defaultdict[str, list[Case]] = defaultdict(list)
    for case in cases:
        cases_by_key[case.key].append(case)
    return cases_by_key


def _conversations(cases: Iterable[Case]) -> Mapping[Identity, list[Case]]:
    """Return the turns of each conversation, in order, by its key and repetition."""
    turns: defaultdict[Identity, list[Case]] = defaultdict(list)
    for case in cases:
        if case.conversation:
            turns[case.unit, case.repetition].append(case)
    for conversation in turns.values():
        conversation.sort(key=lambda turn: len(turn.transcript))
    return turns
