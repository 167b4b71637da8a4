"""The verdicts of an evaluation: what is known, what failed, and the file that a retry continues from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from airflow_provider_assistant.evaluation.judging.requests import JudgeRequest, Verdict
from airflow_provider_assistant.exceptions import AssistantInputError

if TYPE_CHECKING:
    import pyarrow as pa


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


def verdicts_table(requests: Sequence[JudgeRequest], hashes: Sequence[str], known: Mapping[str, Verdict]) -> pa.Table:
    """
    Return the known verdicts as a table, in the order of the requests, whatever the order of the replies.

    :param requests: The requests.
    :param hashes: The content hash of each.
    :param known: Verdicts by content hash.
    """
    import pyarrow as pa

    rows = [
        (request.key, request.rubric.scorer, request.is_label, content_hash, known[content_hash])
        for request, content_hash in zip(requests, hashes, strict=True)
        if content_hash in known
    ]
    columns = {name: [row[number] for row in rows] for number, name in enumerate(("key", "scorer", "is_label", "hash"))}
    columns |= {name: [getattr(row[-1], name) for row in rows] for name in Verdict.model_fields}
    return pa.table(columns, verdicts_schema())


def known_verdicts(table: pa.Table) -> dict[str, Verdict]:
    """
    Return the verdicts of an earlier attempt by content hash.

    :param table: The table that :func:`verdicts_table` returned.
    :raises AssistantInputError: A column is missing.
    """
    if missing := [name for name in verdicts_schema().names if name not in table.column_names]:
        raise AssistantInputError(f"the file of verdicts has no column {', '.join(missing)}", todo="Delete it.")
    columns = ["score", "verdict", "reason", "input_tokens", "output_tokens"]
    rows = table.select(columns).to_pylist()
    return {
        content_hash: Verdict.model_validate(row)
        for content_hash, row in zip(table["hash"].to_pylist(), rows, strict=True)
    }
