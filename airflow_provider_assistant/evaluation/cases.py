"""Join questions, answers and expectations into cases, the input of the scorers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.api.confidence import finite
from airflow_provider_assistant.evaluation import cells
from airflow_provider_assistant.evaluation.case import Case, Identity
from airflow_provider_assistant.evaluation.column_names import check_column_names
from airflow_provider_assistant.evaluation.transcripts import with_transcripts
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.keys import key_column, key_label, key_names
from airflow_provider_assistant.texts import counted

if TYPE_CHECKING:
    import pyarrow as pa

NOT_ASKED = "not_asked"
EXPECTATIONS = ("expected", "must_include", "must_not_include", "expected_url", "expect_no_answer", "weight", "tags")
# Number of values that a message lists.
_LISTED = 5


def read_cases(
    answers: pa.Table, expectations: pa.Table | None = None, *, key_columns: str | Sequence[str] = "key"
) -> list[Case]:
    """
    Return the questions in the order of the answers, followed by those that were not asked.

    If the answers have a column ``repetition``, each of its numbers is a case of its own; the expectations of a
    question are those of all its repetitions.

    If both tables have a column, those in ``EXPECTATIONS`` are taken from the expectations, others from the answers. A
    cell with several phrases or tags is a list, or text separated by ``|``. An empty cell means no expectation.

    :param answers: Table with the columns of the key, ``answer``, and optionally the other columns of a chat batch.
        Without the column ``status``, a question with an answer is ``complete`` and any other ``failed``.
    :param expectations: Table with the columns of the key and some of ``EXPECTATIONS``. Default: None, they are columns
        of ``answers``.
    :param key_columns: Column or columns that identify a question, in both tables. Default: ``key``.
    :return: The cases.
    :raises AssistantInputError: A column is missing or has almost the name of one of
        ``EXPECTATIONS``, a key is empty or a duplicate, the tables have no key in common, a question
        has a different text in the two tables, or a cell of ``EXPECTATIONS``, ``seconds`` or
        ``repetition`` is invalid.
    """
    import pyarrow as pa

    # A reader of files leaves free memory of about the size of the table. Without this, Python cannot use it.
    pa.default_memory_pool().release_unused()
    key_column_names = key_names(key_columns)
    if "answer" not in answers.column_names:
        raise AssistantInputError(f"answers have no column 'answer', only {_listed(answers.column_names)}")
    table_with_expectations = answers if expectations is None else expectations
    check_column_names(table_with_expectations.column_names, EXPECTATIONS, key_column_names)
    answer_rows = _rows_by_identity(answers, key_column_names, "answers")
    expectation_rows: dict[str, dict[str, Any]] = {}
    if expectations is not None:
        rows = _rows_by_identity(expectations, key_column_names, "expectations")
        for (key, _repetition), row in rows.items():
            expectation_rows[key] = row
        _check_pair(answer_rows, expectation_rows, expectations.column_names)
    cases = []
    for (key, repetition), answer_row in answer_rows.items():
        row_of_both = _joined(answer_row, expectation_rows.get(key))
        cases.append(_case(key, row_of_both, repetition))
    asked_keys = {key for key, _repetition in answer_rows}
    no_answer = {"answer": None, "status": NOT_ASKED, "error": "it is not among the answers"}
    not_asked = []
    for key, expectation_row in expectation_rows.items():
        if key not in asked_keys:
            not_asked.append(_case(key, {**expectation_row, **no_answer}))
    return with_transcripts(cases) + not_asked


def _rows_by_identity(
    table: pa.Table,
    names: Sequence[str],
    what: str,
) -> dict[Identity, dict[str, Any]]:
    """
    Return the rows by key, in its readable form, and repetition.

    :param names: Columns of the key.
    :param what: ``answers``, or ``expectations``, which have no repetitions.
    """
    missing = [name for name in names if name not in table.column_names]
    if missing:
        raise AssistantInputError(
            f"{what} have no column {_listed(missing)}, only {_listed(table.column_names)}",
            todo="Give key_columns the columns that identify a question, in answers and in expectations.",
            field="key_columns",
        )
    if not names:
        raise AssistantInputError("key_columns must name at least one column", field="key_columns")
    rows = table.to_pylist()
    columns = []
    for name in names:
        key_texts, _ = key_column(row[name] for row in rows)
        columns.append(key_texts)
    rows_without_key: list[int] = []
    # A dict keeps the order of the rows.
    duplicate_keys: dict[str, None] = {}
    rows_by_identity: dict[Identity, dict[str, Any]] = {}
    for position, row in enumerate(rows):
        key_parts = [key_texts[position] for key_texts in columns]
        if None in key_parts:
            rows_without_key.append(position + 1)
            continue
        key = key_label(names, key_parts)
        repetition = 1
        if what == "answers":
            repetition = _repetition(key, row)
        if (key, repetition) in rows_by_identity:
            duplicate_keys[key] = None
        rows_by_identity[key, repetition] = row
    if rows_without_key:
        raise AssistantInputError(
            f"{what}: {_listed(names)} is empty in {counted(len(rows_without_key), 'row')}, "
            f"such as number {_listed(rows_without_key)}",
            field="key_columns",
        )
    if duplicate_keys:
        duplicates = counted(len(duplicate_keys), "duplicate key")
        raise AssistantInputError(
            f"{what}: {duplicates}, such as {_listed(duplicate_keys)}",
            todo="Give key_columns the columns that identify a question.",
            field="key_columns",
        )
    return rows_by_identity


def _repetition(key: str, row: Mapping[str, Any]) -> int:
    """Return the number of a repetition. An answer without the column is the first."""
    number = cells.as_number(key, "repetition", row.get("repetition"))
    if number is None:
        return 1
    if number < 1 or not number.is_integer():
        raise cells.cell_error(key, "repetition", row.get("repetition"), "a whole number from 1")
    return int(number)


def _check_pair(
    answer_rows: Mapping[Identity, Mapping[str, Any]],
    expectation_rows: Mapping[str, Mapping[str, Any]],
    columns: Sequence[str],
) -> None:
    """
    Check that the expectations belong to the answers.

    :param columns: Columns of the expectations.
    """
    if not set(columns) & set(EXPECTATIONS):
        raise AssistantInputError(
            f"expectations have none of the columns {_listed(EXPECTATIONS)}, only {_listed(columns)}",
            field="expectations",
        )
    # Of several repetitions, the last one stays.
    answer_rows_by_key = {}
    for (key, _repetition), row in answer_rows.items():
        answer_rows_by_key[key] = row
    common_keys = answer_rows_by_key.keys() & expectation_rows.keys()
    if answer_rows and expectation_rows and not common_keys:
        raise AssistantInputError(
            f"answers and expectations have no key in common: "
            f"{_listed(answer_rows_by_key)} in the answers, "
            f"{_listed(expectation_rows)} in the expectations",
            todo="Give key_columns the columns that identify a question.",
            field="key_columns",
        )
    differing = []
    for key, row in expectation_rows.items():
        if key in common_keys and _have_different_messages(row, answer_rows_by_key[key]):
            differing.append(key)
    if differing:
        questions = counted(len(differing), "question")
        raise AssistantInputError(
            f"{questions} with a different text in the expectations, such as {_listed(differing)}: "
            "their answers cannot be scored against these expectations",
            todo="Ask them again.",
            field="expectations",
        )


def _have_different_messages(
    expectation_row: Mapping[str, Any],
    answer_row: Mapping[str, Any],
) -> bool:
    expected_message = cells.as_text(expectation_row.get("message"))
    asked_message = cells.as_text(answer_row.get("message"))
    if expected_message is None or asked_message is None:
        return False
    # Differences in white space do not matter.
    return expected_message.split() != asked_message.split()


def _joined(
    answer_row: Mapping[str, Any],
    expectation_row: Mapping[str, Any] | None,
) -> Mapping[str, Any]:
    """Return the columns of both rows: the expectations of one, everything else of the other."""
    if expectation_row is None:
        return answer_row
    expectations = {name: expectation_row[name] for name in EXPECTATIONS if name in expectation_row}
    return {**expectation_row, **answer_row, **expectations}


def _case(key: str, row: Mapping[str, Any], repetition: int = 1) -> Case:
    status = cells.as_text(row.get("status"))
    if status is None:
        status = "complete" if cells.as_text(row["answer"]) else "failed"
    answer = None
    if status == "complete":
        # A complete request without text counts as an empty answer.
        answer = "" if row["answer"] is None else str(row["answer"])
    expected, *also_expected = cells.as_answers(key, row.get("expected")) or (None,)
    return Case(
        key=key,
        message=cells.as_text(row.get("message")) or key,
        answer=answer,
        status=status,
        error=cells.as_text(row.get("error")),
        seconds=cells.as_number(key, "seconds", row.get("seconds")),
        session_id=cells.as_text(row.get("session_id")),
        request_id=cells.as_text(row.get("request_id")),
        expected=expected,
        must_include=cells.as_phrases(key, "must_include", row.get("must_include")),
        must_not_include=cells.as_phrases(key, "must_not_include", row.get("must_not_include")),
        expected_url=cells.as_addresses(key, row.get("expected_url")),
        expect_no_answer=cells.truth(key, "expect_no_answer", row.get("expect_no_answer")),
        weight=cells.as_weight(key, row.get("weight")),
        tags=cells.as_texts(key, "tags", row.get("tags")),
        row=row,
        noticed_after=cells.as_number(key, "noticed_after", row.get("noticed_after")),
        repetition=repetition,
        seconds_source=cells.as_text(row.get("seconds_source")),
        seconds_error=cells.as_number(key, "seconds_error", row.get("seconds_error")),
        confidence_level=cells.as_text(row.get("confidence_level")),
        # The service decides what it sends here, so a text is not an error of the user.
        confidence_score=finite(row.get("confidence_score")),
        also_expected=tuple(also_expected),
    )


def _listed(values: Iterable[Any]) -> str:
    texts = [repr(value) for value in values]
    listed = ", ".join(texts[:_LISTED])
    return f"{listed}, …" if len(texts) > _LISTED else listed
