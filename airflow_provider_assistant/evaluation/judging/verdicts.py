"""The verdicts of an evaluation: what is known, what failed, and the file that a retry continues from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

from airflow_provider_assistant.exceptions import AssistantInputError

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_assistant.evaluation.judging.requests import JudgeRequest


class Verdict(BaseModel):
    """
    The verdict of a judge on one answer, or on two.

    :param score: From 0 to 1; of two answers: 1 if the first is better, 0 if the second is, and 0.5 for a tie.
    :param verdict: ``pass`` or ``fail``; of two answers ``first``, ``second`` or ``tie``.
    :param reason: Why, with the words that decide; empty if the model gave none.
    :param input_tokens: Number of tokens of the prompt; 0 if the host does not report it.
    """

    model_config = ConfigDict(frozen=True)

    score: float = Field(ge=0, le=1)
    verdict: Literal["pass", "fail", "first", "second", "tie"]
    reason: str
    input_tokens: int = 0
    output_tokens: int = 0


def verdicts_schema() -> pa.Schema:
    """
    Return the schema of the verdicts, one row per answer and judge, and two per pair of answers.

    ``hash`` covers everything that the verdict depends on. ``is_label`` is true for an answer that only a label is
    about. ``score``, ``verdict`` and ``reason`` are those of the judge.
    """
    import pyarrow as pa

    return pa.schema(
        {
            "key": pa.string(),
            "scorer": pa.string(),
            "is_label": pa.bool_(),
            "hash": pa.string(),
            "score": pa.float64(),
            "verdict": pa.string(),
            "reason": pa.string(),
            "input_tokens": pa.int64(),
            "output_tokens": pa.int64(),
        }
    )


def verdicts_table(requests: Iterable[tuple[str, JudgeRequest]], known: Mapping[str, Verdict]) -> pa.Table:
    """
    Return the known verdicts as a table, in the order of the requests, whatever the order of the replies.

    :param requests: The requests, each after its content hash.
    """
    import pyarrow as pa

    rows = []
    for content_hash, request in requests:
        if content_hash not in known:
            continue
        row = known[content_hash].model_dump()
        row["key"] = request.key
        row["scorer"] = request.rubric.scorer
        row["is_label"] = request.is_label
        row["hash"] = content_hash
        rows.append(row)
    return pa.Table.from_pylist(rows, verdicts_schema())


def known_verdicts(table: pa.Table) -> dict[str, Verdict]:
    """
    Return the verdicts of an earlier attempt by content hash.

    :param table: The table that :func:`verdicts_table` returned.
    :raises AssistantInputError: A column is missing.
    """
    missing = [name for name in verdicts_schema().names if name not in table.column_names]
    if missing:
        names = ", ".join(missing)
        raise AssistantInputError(f"the file of verdicts has no column {names}", todo="Delete it.")
    # Verdict ignores the columns about the answer.
    return {row["hash"]: Verdict.model_validate(row) for row in table.to_pylist()}
