"""The answers that an evaluation keeps, so that a later one can show both side by side."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_assistant.evaluation.case import Case
from airflow_provider_assistant.evaluation.cases import read_cases
from airflow_provider_assistant.exceptions import AssistantInputError

if TYPE_CHECKING:
    import pyarrow as pa
    from airflow.providers.common.compat.sdk import ObjectStoragePath

# Columns of the file; they have the names and meanings of a chat batch.
COLUMNS = ("key", "repetition", "session_id", "request_id", "message", "answer", "status", "error")

log = logging.getLogger(__name__)


def answers_table(cases: Sequence[Case]) -> pa.Table:
    """Return the questions with their answers, without expectations and scores."""
    import pyarrow as pa

    columns: dict[str, list[Any]] = {name: [getattr(case, name) for case in cases] for name in COLUMNS}
    # Only a turn of a conversation needs its number.
    columns["turn"] = [float(case.row["turn"]) if case.conversation else None for case in cases]
    types = dict.fromkeys(columns, pa.string()) | {"repetition": pa.int32(), "turn": pa.float64()}
    return pa.table(columns, pa.schema(types))


def read_answers(file: ObjectStoragePath) -> list[Case]:
    """Return the kept answers of an earlier evaluation; none if it kept none, or if they cannot be read."""
    import pyarrow.parquet as pq

    try:
        with file.open("rb") as parquet_file:
            return read_cases(pq.ParquetFile(parquet_file).read())
    except FileNotFoundError:
        return []
    except (OSError, ValueError, AssistantInputError) as error:
        # Only the report needs them: it then shows no answers of the baseline.
        log.warning("%s cannot be read, so the report shows no answers of the baseline: %s", file, error)
        return []
