"""The address of a document in its text, so that an answer can name it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from airflow_provider_assistant.knowledge.documents import DocumentRow, DocumentRows
from airflow_provider_assistant.source_account import AccountedRows, SourceAccount

# The API has no field for an address: what an answer is to name must be in the text. The date is not in
# it, because some websites write the time of each build on every page: every document would be created
# again.
TEMPLATE = "{content}\n\nSource: {source}"


def with_source(rows: Iterable[DocumentRow], template: str = TEMPLATE) -> DocumentRows:
    """
    Append the address to the text of each document. Call it after :func:`.split_documents`.

    A row without an address or without text stays as it is.

    :param rows: The documents or chunks.
    :param template: Text with ``{content}``, ``{source}``, the address, and ``{date}``, the date of the row or nothing.
        With the date, a document is created again whenever its source has another date. Default: the text, an empty
        line, and ``Source:`` with the address.
    :return: The rows.
    """

    def cited(_account: SourceAccount) -> Iterator[DocumentRow]:
        for row in rows:
            yield _with_source(row, template)

    return AccountedRows(cited, source=rows)


def _with_source(row: DocumentRow, template: str) -> DocumentRow:
    if not row["url"] or not row["content"]:
        return row
    # Not str.format: the text may contain braces.
    text = template.replace("{source}", row["url"]).replace("{date}", row["date"] or "")
    return DocumentRow(**{**row, "content": text.replace("{content}", row["content"])})
