"""Join answers and a golden set of expectations into cases, which scorers score."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from airflow_provider_assistant.evaluation.cells import EXPECTATIONS, Row, as_text, check_column_names, read_row
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.keys import key_column, key_label, key_names
from airflow_provider_assistant.texts import counted

if TYPE_CHECKING:
    import pyarrow as pa

NOT_ASKED = "not_asked"
# Number of values that a message lists.
_SHOWN = 5
# Key and number of the repetition.
Identity: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Case:
    """
    One answer with what is expected of it.

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
    message: str
    answer: str | None
    repetition: int = 1
    status: str = "complete"
    error: str | None = None
    seconds: float | None = None
    request_id: str | None = None
    session_id: str | None = None
    confidence_level: str | None = None
    confidence_score: float | None = None
    expected: tuple[str, ...] = ()
    must_include: tuple[str, ...] = ()
    must_not_include: tuple[str, ...] = ()
    expected_url: tuple[str, ...] = ()
    expect_no_answer: bool | None = None
    weight: float = 1.0
    tags: tuple[str, ...] = ()
    row: Mapping[str, Any] = field(default_factory=dict)
    conversation: str | None = None
    transcript: tuple[tuple[str, str | None], ...] = ()

    @property
    def identity(self) -> Identity:
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
        return hashlib.blake2b(json.dumps(content).encode(), digest_size=16).hexdigest()


class _Asked(NamedTuple):
    """A row of the answers, joined with that of the golden set."""

    columns: Mapping[str, Any]
    cells: Row


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
    answered = _answered_rows(answers, names, golden)
    asked_keys = {key for key, _repetition in answered}
    if golden and answered:
        _check_pair(answered, golden, asked_keys)
    cases = [_case(key, repetition, asked) for (key, repetition), asked in answered.items()]
    cases = _with_transcripts(cases)
    for key, row in golden.items():
        if key not in asked_keys:
            columns = {**row, "answer": None, "status": NOT_ASKED, "error": "it is not among the answers"}
            cases.append(_case(key, 1, _Asked(columns, read_row(key, columns))))
    return cases


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
    counts = Counter(key for key, _row in rows)
    _check_repeated([key for key, count in counts.items() if count > 1], "expectations")
    return dict(rows)


def _answered_rows(
    answers: pa.Table, names: Sequence[str], golden: Mapping[str, Mapping[str, Any]]
) -> dict[Identity, _Asked]:
    """Return the rows of the answers by key and repetition, joined with those of the golden set."""
    answered: dict[Identity, _Asked] = {}
    repeated = []
    for key, row in _keyed(answers, names, "answers"):
        expected = golden.get(key, {})
        columns = {**expected, **row, **{name: expected[name] for name in EXPECTATIONS if name in expected}}
        cells = read_row(key, columns)
        identity = (key, cells.repetition or 1)
        if identity[1] > answers.num_rows:
            raise AssistantInputError(
                f"question {key!r}: repetition is {identity[1]:,}, of {counted(answers.num_rows, 'answer')} in all",
                field="repetition",
            )
        if identity in answered:
            repeated.append(key)
        answered[identity] = _Asked(columns, cells)
    _check_repeated(repeated, "answers")
    return answered


def _keyed(table: pa.Table, names: Sequence[str], what: str) -> Iterable[tuple[str, dict[str, Any]]]:
    """Yield the rows with their keys in readable form."""
    missing = [name for name in names if name not in table.column_names]
    if missing or not names:
        raise AssistantInputError(
            f"{what} have no column {_listed(missing)}, only {_listed(table.column_names)}",
            todo="Give key_columns the columns that identify a question, in answers and in expectations.",
            field="key_columns",
        )
    columns = [key_column(table.column(name).to_pylist())[0] for name in names]
    keys = list(zip(*columns, strict=True))
    without_key = [position for position, parts in enumerate(keys, 1) if None in parts]
    if without_key:
        raise AssistantInputError(
            f"{what}: {_listed(names)} is empty in {counted(len(without_key), 'row')}, such as number "
            f"{_listed(without_key)}",
            field="key_columns",
        )
    for parts, row in zip(keys, table.to_pylist(), strict=True):
        yield key_label(names, parts), row


def _check_repeated(keys: Sequence[str], what: str) -> None:
    if keys:
        raise AssistantInputError(
            f"{what}: {counted(len(keys), 'duplicate key')}, such as {_listed(keys)}",
            todo="Give key_columns the columns that identify a question.",
            field="key_columns",
        )


def _check_pair(
    answered: Mapping[Identity, _Asked], golden: Mapping[str, Mapping[str, Any]], asked_keys: set[str]
) -> None:
    """Check that the golden set belongs to the answers."""
    if not asked_keys & golden.keys():
        raise AssistantInputError(
            f"answers and expectations have no key in common: {_listed(asked_keys)} in the answers, "
            f"{_listed(golden)} in the expectations",
            todo="Give key_columns the columns that identify a question.",
            field="key_columns",
        )
    differing: dict[str, None] = {}
    for (key, _repetition), asked in answered.items():
        expected = as_text(golden.get(key, {}).get("message"))
        # Differences in white space do not matter.
        if expected and asked.cells.message and expected.split() != asked.cells.message.split():
            differing[key] = None
    if differing:
        raise AssistantInputError(
            f"{counted(len(differing), 'question')} with a different text in the expectations, such as "
            f"{_listed(differing)}: their answers cannot be scored against these expectations",
            todo="Ask them again.",
            field="expectations",
        )


def _case(key: str, repetition: int, asked: _Asked) -> Case:
    cells, answer = asked.cells, asked.columns["answer"]
    status = cells.status
    if status is None:
        status = "failed" if as_text(answer) is None else "complete"
    return Case(
        key=key,
        message=cells.message or key,
        # A complete request without text has an empty answer.
        answer=(as_text(answer) or "") if status == "complete" else None,
        repetition=repetition,
        status=status,
        error=cells.error,
        seconds=cells.seconds,
        request_id=cells.request_id,
        session_id=cells.session_id,
        confidence_level=cells.confidence_level,
        confidence_score=cells.confidence_score,
        expected=cells.expected,
        must_include=cells.must_include,
        must_not_include=cells.must_not_include,
        expected_url=cells.expected_url,
        expect_no_answer=cells.expect_no_answer,
        weight=cells.weight or 1.0,
        tags=cells.tags,
        row=asked.columns,
    )


def _with_transcripts(cases: Sequence[Case]) -> list[Case]:
    """Return the cases, each turn of a conversation with the turns before it."""
    numbered: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for position, case in enumerate(cases):
        turn = case.row.get("turn")
        if case.session_id is not None and isinstance(turn, int | float):
            numbered[case.session_id].append((turn, position))
    completed = list(cases)
    for turns in numbered.values():
        positions = [position for _turn, position in sorted(turns)]
        if len(positions) < 2:
            continue
        transcript: list[tuple[str, str | None]] = []
        for position in positions:
            case = cases[position]
            earlier = [{"message": message, "answer": answer} for message, answer in transcript]
            completed[position] = replace(
                case,
                conversation=cases[positions[0]].key,
                transcript=tuple(transcript),
                row={**case.row, "transcript": earlier} if earlier else case.row,
            )
            transcript.append((case.message, case.answer))
    return completed


def _listed(values: Iterable[Any]) -> str:
    texts = [repr(value) for value in values]
    return ", ".join(texts[:_SHOWN]) + (", …" if len(texts) > _SHOWN else "")
