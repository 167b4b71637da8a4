"""The source of a document in its text, so that an answer can name it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from airflow_provider_assistant.knowledge.documents import DocumentRow, DocumentRows
from airflow_provider_assistant.source_account import AccountedRows, SourceAccount

# The API has no field for an address or a date: what an answer is to name must be in the text.
TEMPLATE = "{content}\n\nSource: {source}"


def with_source(rows: Iterable[DocumentRow], template: str = TEMPLATE) -> DocumentRows:
    """
    Append address and date to the text of each document. Call it after :func:`.split_documents`.

    A row without an address stays as it is.

    :param rows: The documents or chunks.
    :param template: Text with ``{content}`` and ``{source}``, the address and, if known, the date. Default: the text,
        an empty line, and ``Source:`` with both.
    :return: The rows.
    """

    def cited(_account: SourceAccount) -> Iterator[DocumentRow]:
        for row in rows:
            yield _with_source(row, template)

    return AccountedRows(cited, source=rows)


def _with_source(row: DocumentRow, template: str) -> DocumentRow:
    source = row["url"]
    if not source:
        return row
    if row["date"]:
        source = f"{source}, {row['date']}"
    # Not str.format: the text may contain braces.
    text = template.replace("{source}", source).replace("{content}", row["content"])
    return DocumentRow(**{**row, "content": text})
