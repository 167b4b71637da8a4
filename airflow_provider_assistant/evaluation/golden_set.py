"""Check a golden set: duplicates, missing expectations, tags without questions, and questions that were loaded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from airflow_provider_assistant.evaluation.case import Case
from airflow_provider_assistant.evaluation.cases import read_cases
from airflow_provider_assistant.evaluation.extra import require_extra
from airflow_provider_assistant.evaluation.losses import (
    NOTABLE_LOSS,
    USUALLY_VARYING,
    noticed_loss,
    questions_needed,
)
from airflow_provider_assistant.evaluation.phrases import has_phrase, regular_expression
from airflow_provider_assistant.evaluation.rules import MEASURED, Rule
from airflow_provider_assistant.evaluation.text import normalise
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.keys import key_column, key_label
from airflow_provider_assistant.texts import counted, shortened

if TYPE_CHECKING:
    import pyarrow as pa

Kind: TypeAlias = Literal[
    "no_key",
    "duplicate_key",
    "duplicate",
    "near_duplicate",
    "no_expectation",
    "contradiction",
    "tag_without_questions",
    "too_few_questions",
    "leaked",
]
# Similarity of two normalised questions from which they are near duplicates, in percent.
NEAR = 95
# Questions that are compared with all later ones at once; limits the memory of the comparison.
CHUNK = 500
# Characters of an expected answer in a reason
_QUOTED = 60
# Name of an added column, which no table of a user has.
_ROW_NUMBER = "\0row"
# The expectation without which a scorer is not applicable.
_EXPECTATION_OF = {
    **dict.fromkeys(("exact_match", "token_f1", "ratio", "token_set_ratio", "chrf"), "expected"),
    "must_include": "must_include",
    "must_not_include": "must_not_include",
    "cites": "expected_url",
}
_EXPECTATIONS = ("expected", "must_include", "must_not_include", "expected_url", "expect_no_answer")


@dataclass(frozen=True, slots=True)
class GoldenSetFinding:
    """
    Something in a golden set that a person should look at.

    :param keys: Keys of the questions concerned; empty for a tag.
    :param rows: Numbers of their rows, from 1.
    """

    finding: Kind
    keys: tuple[str, ...]
    rows: tuple[int, ...]
    reason: str


def check_golden_set(
    golden: pa.Table, *, key_columns: Sequence[str], rules: Sequence[Rule] = (), documents: Iterable[str] = ()
) -> list[GoldenSetFinding]:
    """
    Return what a person should look at, grouped by kind, in the order of the rows.

    :param golden: The golden set, with a column ``message`` and some of the expectations.
    :param key_columns: Columns that identify a question; if empty, the message does.
    :param rules: Rules of a gate.
    :param documents: Questions of the loaded Q&A documents.
    :return: The findings: ``no_key`` and ``duplicate_key``; ``duplicate`` and ``near_duplicate`` (at least 95 %
        similar) questions; ``no_expectation``, a question that no scorer can score; ``contradiction``, expectations
        that the expected answer does not fulfil, or no answer; ``tag_without_questions`` and ``too_few_questions``, of
        a rule; and ``leaked``, a question that is also a document word by word: the assistant can only look it up.
    :raises AssistantInputError: A column is missing, or a cell of the expectations is invalid.
    """
    key_names = tuple(key_columns) or ("message",)
    # A dict, because "message" may also be a column of the key.
    required = dict.fromkeys(("message", *key_names))
    missing = ", ".join(name for name in required if name not in golden.column_names)
    if missing:
        raise AssistantInputError(f"the golden set has no column {missing}", field="file")
    keys = _keys(golden, key_names)
    cases = golden_cases(golden)
    texts = [normalise(case.message) for case in cases]
    return [
        *_key_findings(keys),
        *_duplicates(keys, texts),
        *_near_duplicates(keys, texts),
        *_without_expectation(keys, cases),
        *_contradictions(keys, cases),
        *_tags_without_questions(cases, [rule.tag for rule in rules if rule.tag]),
        *_too_few_questions(cases, rules),
        *_leaked(keys, texts, documents),
    ]


def _keys(golden: pa.Table, key_names: Sequence[str]) -> list[str | None]:
    """Return the key of each row, or None if a part of it is empty."""
    columns = []
    for name in key_names:
        key_texts, _ = key_column(golden[name].to_pylist())
        columns.append(key_texts)
    keys: list[str | None] = []
    for parts in zip(*columns, strict=True):
        if None in parts:
            keys.append(None)
        else:
            keys.append(key_label(key_names, parts))
    return keys


def golden_cases(golden: pa.Table) -> list[Case]:
    """
    Return the questions with the number of their row as the key.

    :raises AssistantInputError: A cell of the expectations is invalid.
    """
    import pyarrow as pa

    # The number of the row is the key here, because duplicate keys are a finding and not an error.
    row_numbers = pa.array(range(1, golden.num_rows + 1))
    numbered = golden.append_column(_ROW_NUMBER, row_numbers)
    if "answer" not in golden.column_names:
        numbered = numbered.append_column("answer", pa.nulls(golden.num_rows, pa.string()))
    return read_cases(numbered, key_columns=_ROW_NUMBER)


def _finding(kind: Kind, keys: Sequence[str | None], positions: Sequence[int], reason: str) -> GoldenSetFinding:
    return GoldenSetFinding(
        finding=kind,
        keys=tuple(keys[position] or "" for position in positions),
        rows=tuple(position + 1 for position in positions),
        reason=reason,
    )


def _repeated(texts: Sequence[str | None]) -> Iterator[list[int]]:
    """Yield the positions of each text that occurs several times."""
    positions_by_text: defaultdict[str, list[int]] = defaultdict(list)
    for position, text in enumerate(texts):
        if text:
            positions_by_text[text].append(position)
    for positions in positions_by_text.values():
        if len(positions) > 1:
            yield positions


def _key_findings(keys: Sequence[str | None]) -> Iterator[GoldenSetFinding]:
    for position, key in enumerate(keys):
        if key is None:
            yield _finding("no_key", keys, [position], "the key is empty")
    for positions in _repeated(keys):
        yield _finding("duplicate_key", keys, positions, f"{counted(len(positions), 'row')} with this key")


def _duplicates(keys: Sequence[str | None], texts: Sequence[str]) -> Iterator[GoldenSetFinding]:
    for positions in _repeated(texts):
        yield _finding("duplicate", keys, positions, f"{counted(len(positions), 'row')} with the same question")


def _near_duplicates(keys: Sequence[str | None], texts: Sequence[str]) -> Iterator[GoldenSetFinding]:
    import numpy as np

    process = require_extra("rapidfuzz.process")
    ratio = require_extra("rapidfuzz.fuzz").ratio
    for start in range(0, len(texts), CHUNK):
        chunk = texts[start : start + CHUNK]
        later_texts = texts[start:]
        # A matrix with a row per text of the chunk. Below the cutoff, a similarity is 0.
        similarities = process.cdist(
            chunk,
            later_texts,
            scorer=ratio,
            score_cutoff=NEAR,
            dtype=np.float32,
            workers=-1,
        )
        for row, column in np.argwhere(similarities):
            # Visit each pair of the chunk once, and compare no text with itself.
            if row >= column:
                continue
            # Equal texts are already a finding of the kind "duplicate".
            if chunk[row] != later_texts[column]:
                positions = [start + int(row), start + int(column)]
                reason = f"the questions are {similarities[row, column]:.0f} % similar"
                yield _finding("near_duplicate", keys, positions, reason)


def _without_expectation(keys: Sequence[str | None], cases: Sequence[Case]) -> Iterator[GoldenSetFinding]:
    for position, case in enumerate(cases):
        given = [name for name in _EXPECTATIONS if getattr(case, name) not in {None, ()}]
        if not given:
            reason = f"none of {', '.join(_EXPECTATIONS)} is given"
            yield _finding("no_expectation", keys, [position], reason)


def _contradictions(keys: Sequence[str | None], cases: Sequence[Case]) -> Iterator[GoldenSetFinding]:
    for position, case in enumerate(cases):
        for answer in case.accepted:
            for phrase in case.must_include:
                if not has_phrase(answer, phrase):
                    reason = f"the expected answer {shortened(answer, _QUOTED)!r} lacks {phrase!r} of must_include"
                    yield _finding("contradiction", keys, [position], reason)
        phrases = [phrase for phrase in case.must_include if regular_expression(phrase) is None]
        for text in (*case.accepted, *phrases):
            for forbidden in case.must_not_include:
                if has_phrase(text, forbidden):
                    reason = f"{shortened(text, _QUOTED)!r} is expected and has {forbidden!r} of must_not_include"
                    yield _finding("contradiction", keys, [position], reason)


def _tags_without_questions(
    cases: Sequence[Case],
    tags: Iterable[str],
) -> Iterator[GoldenSetFinding]:
    used = {tag for case in cases for tag in case.tags}
    for tag in dict.fromkeys(tags):
        if tag not in used:
            reason = f"a rule of the gate names the tag {tag!r}, and no question has it"
            yield GoldenSetFinding("tag_without_questions", keys=(), rows=(), reason=reason)


def _too_few_questions(cases: Sequence[Case], rules: Sequence[Rule]) -> Iterator[GoldenSetFinding]:
    for loss in losses_of(cases, rules):
        if loss.questions and loss.needed > loss.questions:
            reason = (
                f"{loss.rule} compares {counted(loss.questions, 'question')}, and {loss.needed} are needed to notice a "
                f"loss of {loss.limit:g} within three runs if {100 * USUALLY_VARYING:g} % of the answers vary"
            )
            yield GoldenSetFinding("too_few_questions", keys=(), rows=(), reason=reason)


class RuleLoss(NamedTuple):
    """
    What a rule that limits a loss can notice.

    :param questions: Number of questions that the rule compares.
    :param noticed: Loss that it notices within three runs, see
        :func:`~airflow_provider_assistant.evaluation.losses.noticed_loss`.
    :param limit: Loss that it should notice: its threshold, but at least a loss of 0.1.
    :param needed: Number of questions that this needs.
    """

    rule: str
    questions: int
    noticed: float | None
    limit: float
    needed: int


def losses_of(cases: Sequence[Case], rules: Sequence[Rule]) -> list[RuleLoss]:
    """Return what the rules that limit the loss of a share can notice with these questions."""
    drops = [rule for rule in rules if rule.is_drop]
    losses = []
    for rule in drops:
        if rule.name in MEASURED:
            # How much a latency varies is not known.
            continue
        questions = sum(_is_compared(case, rule) for case in cases)
        limit = max(rule.term.threshold, NOTABLE_LOSS)
        losses.append(
            RuleLoss(
                rule=rule.text,
                questions=questions,
                noticed=noticed_loss(questions, drops=len(drops)) if questions else None,
                limit=limit,
                needed=questions_needed(limit, drops=len(drops)),
            )
        )
    return losses


def _is_compared(case: Case, rule: Rule) -> bool:
    if rule.tag is not None and rule.tag not in case.tags:
        return False
    expectation = _EXPECTATION_OF.get(rule.name)
    return expectation is None or getattr(case, expectation) not in {None, ()}


def _leaked(keys: Sequence[str | None], texts: Sequence[str], documents: Iterable[str]) -> Iterator[GoldenSetFinding]:
    loaded_texts = {normalise(document) for document in documents}
    # An empty question is not a copy of an empty document.
    loaded_texts.discard("")
    reason = "a loaded document has this question word by word"
    for position, text in enumerate(texts):
        if text in loaded_texts:
            yield _finding("leaked", keys, [position], reason)
