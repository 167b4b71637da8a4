"""Join answers and a golden set of expectations into cases, which scorers score."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, SkipValidation, ValidationError
from pydantic.dataclasses import dataclass

from airflow_provider_assistant.api.confidence import finite
from airflow_provider_assistant.evaluation.cells import (
    EXPECTATIONS,
    as_addresses,
    as_answers,
    as_phrases,
    as_tags,
    as_text,
    check_column_names,
    is_blank,
)
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.keys import hash_of, key_column, key_label, key_names
from airflow_provider_assistant.texts import counted

if TYPE_CHECKING:
    import pyarrow as pa

NOT_ASKED = "not_asked"
# Number of values that a message lists.
_SHOWN = 5
_TEXT = BeforeValidator(as_text)
_PHRASES = BeforeValidator(as_phrases)
# A text in a cell for a number or a truth may be padded.
_PADDED = BeforeValidator(lambda value: value.strip() if isinstance(value, str) else value)


@dataclass(frozen=True, slots=True)
class Case:
    """
    One answer with what is expected of it. Cells are converted and checked when the case is created.

    :param message: The key if the tables have no column ``message``.
    :param answer: None unless the status is ``complete``.
    :param status: Status of the chat batch, or ``not_asked``: in the golden set, but not among the answers.
    :param seconds: Latency; None if not known.
    :param expected: The accepted answers, of which one is enough.
    :param expect_no_answer: Whether a correct answer says that it does not know; None if not specified.
    :param row: All columns of both tables, for functions of the user; with the list ``transcript`` in a conversation.
    :param conversation: Key of the first turn; None for a single question.
    :param transcript: Message and answer of the earlier turns.
    """

    key: str
    message: Annotated[str, _TEXT]
    answer: str | None
    repetition: Annotated[int, Field(ge=1), _PADDED] = 1
    status: Annotated[str, _TEXT] = "complete"
    error: Annotated[str | None, _TEXT] = None
    seconds: Annotated[float | None, Field(ge=0, allow_inf_nan=False), _PADDED] = None
    request_id: Annotated[str | None, _TEXT] = None
    session_id: Annotated[str | None, _TEXT] = None
    turn: Annotated[int | None, _PADDED] = None
    confidence_level: Annotated[str | None, _TEXT] = None
    # The service decides what it sends here, so a text is not an error of the user.
    confidence_score: Annotated[float | None, BeforeValidator(finite)] = None
    expected: Annotated[tuple[str, ...], BeforeValidator(as_answers)] = ()
    must_include: Annotated[tuple[str, ...], _PHRASES] = ()
    must_not_include: Annotated[tuple[str, ...], _PHRASES] = ()
    expected_url: Annotated[tuple[str, ...], BeforeValidator(as_addresses)] = ()
    expect_no_answer: Annotated[bool | None, _PADDED] = None
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False), _PADDED] = 1.0
    tags: Annotated[tuple[str, ...], BeforeValidator(as_tags)] = ()
    row: SkipValidation[Mapping[str, Any]] = field(default_factory=dict)
    conversation: str | None = None
    transcript: tuple[tuple[str, str | None], ...] = ()

    @property
    def identity(self) -> tuple[str, int]:
        """Key and number of the repetition."""
        return self.key, self.repetition

    @property
    def unit(self) -> str:
        """Key of what passes or fails as one: the question, or the first turn of its conversation."""
        return self.conversation or self.key

    @property
    def reference(self) -> str | None:
        """The accepted answers as one text for a person or a judge; None without any."""
        if len(self.expected) < 2:
            return self.expected[0] if self.expected else None
        answers = "\n".join(f"- {answer}" for answer in self.expected)
        return f"One of these answers:\n{answers}"

    @property
    def content_hash(self) -> str:
        """Hash of question and expectations. Runs compare questions with equal hashes."""
        content = [
            self.message,
            self.expected,
            self.must_include,
            self.must_not_include,
            self.expected_url,
            self.expect_no_answer,
            [message for message, _answer in self.transcript],
        ]
        return hash_of(json.dumps(content))


# Columns that an evaluation reads.
_CELLS = frozenset(Case.__dataclass_fields__) - {"key", "answer", "status", "row", "conversation", "transcript"}


def read_cases(
    answers: pa.Table, expectations: pa.Table | None = None, *, key_columns: str | Sequence[str] = "key"
) -> list[Case]:
    """
    Return the cases in the order of the answers, then the questions of the golden set that were not asked.

    Columns in ``EXPECTATIONS`` are taken from the expectations if both tables have them, others from the answers.

    :param expectations: Table with the key and some of ``EXPECTATIONS``. Default: None, columns of ``answers``.
    :raises AssistantInputError: A column is missing or misspelt, a key is empty or repeated, the tables do not belong
        together, or a cell cannot be read.
    """
    import pyarrow as pa

    # A reader of files leaves free memory of about the size of the table. Without this, Python cannot use it.
    pa.default_memory_pool().release_unused()
    names = key_names(key_columns)
    if "answer" not in answers.column_names:
        raise AssistantInputError(f"answers have no column 'answer', only {_listed(answers.column_names)}")
    golden = _golden_rows(expectations, names)
    if expectations is None:
        check_column_names(answers.column_names, names)
    cases = []
    for key, row in _keyed(answers, names, "answers"):
        expected = golden.get(key, {})
        decided = {name: expected[name] for name in EXPECTATIONS if name in expected}
        cases.append(_case(key, {**expected, **row, **decided}))
    _check_repetitions(cases)
    if golden and cases:
        _check_pair(cases, golden)
    cases = _with_transcripts(cases)
    asked = {case.key for case in cases}
    missing = {"answer": None, "status": NOT_ASKED, "error": "it is not among the answers"}
    return cases + [_case(key, {**row, **missing}) for key, row in golden.items() if key not in asked]


def _golden_rows(expectations: pa.Table | None, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the rows of the golden set by key."""
    if expectations is None:
        return {}
    check_column_names(expectations.column_names, names)
    if not set(expectations.column_names) & set(EXPECTATIONS):
        raise AssistantInputError(
            f"expectations have none of the columns {_listed(EXPECTATIONS)}, only {_listed(expectations.column_names)}",
            field="expectations",
        )
    rows = list(_keyed(expectations, names, "expectations"))
    _check_repeated(((key, 1) for key, _row in rows), "expectations")
    return dict(rows)


def _case(key: str, row: Mapping[str, Any]) -> Case:
    """
    Return the case of a row.

    :raises AssistantInputError: A cell cannot be read; the error names the question and the column.
    """
    cells = {name: value for name, value in row.items() if name in _CELLS and not is_blank(value)}
    answer = as_text(row["answer"])
    status = as_text(row.get("status")) or ("failed" if answer is None else "complete")
    # A complete request without text has an empty answer.
    answer = (answer or "") if status == "complete" else None
    try:
        return Case(**{"message": key, **cells}, key=key, answer=answer, status=status, row=row)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        column = str(first["loc"][0])
        reason = first["msg"].removeprefix("Value error, ")
        shown = repr(row[column])
        raise AssistantInputError(
            f"question {key!r}: {column} {shown if len(shown) <= 100 else shown[:99] + '…'}: {reason}", field=column
        ) from None


def _keyed(table: pa.Table, names: Sequence[str], what: str) -> Iterable[tuple[str, dict[str, Any]]]:
    """Yield the rows with their keys in readable form."""
    missing = [name for name in names if name not in table.column_names]
    if missing or not names:
        raise _wrong_keys(f"{what} have no column {_listed(missing)}, only {_listed(table.column_names)}")
    columns = [key_column(table.column(name).to_pylist())[0] for name in names]
    keys = list(zip(*columns, strict=True))
    without_key = [position for position, parts in enumerate(keys, 1) if None in parts]
    if without_key:
        rows = f"{counted(len(without_key), 'row')}, such as number {_listed(without_key)}"
        raise _wrong_keys(f"{what}: {_listed(names)} is empty in {rows}")
    for parts, row in zip(keys, table.to_pylist(), strict=True):
        yield key_label(names, parts), row


def _check_repeated(identities: Iterable[tuple[str, int]], what: str) -> None:
    repeated = [key for (key, _repetition), count in Counter(identities).items() if count > 1]
    if repeated:
        raise _wrong_keys(f"{what}: {counted(len(repeated), 'duplicate key')}, such as {_listed(repeated)}")


def _check_repetitions(cases: Sequence[Case]) -> None:
    for case in cases:
        if case.repetition > len(cases):
            raise AssistantInputError(
                f"question {case.key!r}: repetition is {case.repetition:,}, of {counted(len(cases), 'answer')} in all",
                field="repetition",
            )
    _check_repeated((case.identity for case in cases), "answers")


def _check_pair(cases: Sequence[Case], golden: Mapping[str, Mapping[str, Any]]) -> None:
    """Check that the golden set belongs to the answers."""
    asked = dict.fromkeys(case.key for case in cases)
    if not asked.keys() & golden.keys():
        raise _wrong_keys(
            f"answers and expectations have no key in common: {_listed(asked)} in the answers, "
            f"{_listed(golden)} in the expectations"
        )
    differing: dict[str, None] = {}
    for case in cases:
        expected = as_text(golden.get(case.key, {}).get("message"))
        # Differences in white space do not matter.
        if expected and not is_blank(case.row.get("message")) and expected.split() != case.message.split():
            differing[case.key] = None
    if differing:
        raise AssistantInputError(
            f"{counted(len(differing), 'question')} with a different text in the expectations, such as "
            f"{_listed(differing)}: their answers cannot be scored against these expectations",
            todo="Ask them again.",
            field="expectations",
        )


def _with_transcripts(cases: Sequence[Case]) -> list[Case]:
    """Return the cases, each turn of a conversation with the turns before it."""
    sessions: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for position, case in enumerate(cases):
        if case.session_id is not None and case.turn is not None:
            sessions[case.session_id].append((case.turn, position))
    completed = list(cases)
    for turns in sessions.values():
        positions = [position for _turn, position in sorted(turns)]
        if len(positions) < 2:
            continue
        before: list[tuple[str, str | None]] = []
        for position in positions:
            case = cases[position]
            row = dict(case.row)
            if before:
                row["transcript"] = [{"message": message, "answer": answer} for message, answer in before]
            first = cases[positions[0]].key
            completed[position] = replace(case, conversation=first, transcript=tuple(before), row=row)
            before.append((case.message, case.answer))
    return completed


def _wrong_keys(happened: str) -> AssistantInputError:
    todo = "Give key_columns the columns that identify a question, in answers and in expectations."
    return AssistantInputError(happened, todo=todo, field="key_columns")


def _listed(values: Iterable[Any]) -> str:
    texts = [repr(value) for value in values]
    return ", ".join(texts[:_SHOWN]) + (", …" if len(texts) > _SHOWN else "")
