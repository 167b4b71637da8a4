"""Tell the files that this package writes from those of other programs, which are never changed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pydantic import ValidationError

from airflow_provider_assistant.evaluation.report import GENERATOR
from airflow_provider_assistant.evaluation.runs import COLUMNS, SCORES, SUMMARY, VERDICTS
from airflow_provider_assistant.evaluation.summary import Summary
from airflow_provider_assistant.lake import DATASETS
from airflow_provider_assistant.lake.partitions import FOLDER
from airflow_provider_assistant.loading.findings import findings_schema
from airflow_provider_assistant.storage.paths import StoragePath

if TYPE_CHECKING:
    import pyarrow as pa

# Files with the requests of an evaluation. Only they know which questions of its other files are the person's.
ANSWERS = (SCORES,)
BATCH_STATE = ".chat-batch"
# End of the name of the rows that a deferred load keeps beside its findings.
KEPT_ROWS = ".parquet.rows.jsonl"
# Beginning of the names of an evaluation's folders: the time of the run.
RUN = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{6}Z(_|$)")


def is_our_table(path: StoragePath, schema: pa.Schema) -> bool:
    """
    Return whether this package has written a Parquet file.

    Exports and answers of chat batches say so in their metadata. Other files are known by their folder or columns.
    """
    if any(name.startswith(b"assistant.") for name in schema.metadata or {}):
        return True
    names = set(schema.names)
    folder = path.parent
    dataset = DATASETS.get(folder.parent.name)
    if dataset is not None and FOLDER.fullmatch(folder.name):
        return names >= set(dataset.columns)
    if folder.name.endswith(BATCH_STATE) or (path.name in ANSWERS and RUN.match(folder.name)):
        return True
    if schema.names == findings_schema().names:
        return True
    return names >= set(COLUMNS) or (path.name == VERDICTS and RUN.match(folder.name) is not None)


def kind_of_text(path: StoragePath, text: str) -> str | None:
    """
    Return what a text file of this package is; None for a file of another program.

    :return: ``json lines`` (of a chat batch, or rows that a load keeps), ``summary`` (of an evaluation), or
        ``page`` (a report or a JUnit file).
    """
    name = path.name
    if name.endswith(KEPT_ROWS) or (name.endswith(".jsonl") and path.parent.name.endswith(BATCH_STATE)):
        return "json lines"
    if name == SUMMARY and _is_summary(text):
        return "summary"
    start = text[:1000]
    # The JUnit file of an evaluation shows questions and answers in failures of this type only.
    is_junit = name.endswith(".xml") and "<testsuites" in start and 'type="question"' in text
    if GENERATOR in start or is_junit:
        return "page"
    return None


def _is_summary(text: str) -> bool:
    try:
        Summary.model_validate_json(text.encode("utf-8", "surrogateescape"))
    except ValidationError:
        return False
    return True
