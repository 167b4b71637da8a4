"""
Rows of documents from files, loaders and other objects, split into chunks.

Each function returns an iterator of rows, mappings with the keys :data:`COLUMNS`, and reads only as much as the next
row needs. Load the rows with ``AssistantLoadTextOperator`` and ``key_columns=["key"]``.
"""

from airflow_provider_assistant.knowledge.chunks import split_documents
from airflow_provider_assistant.knowledge.folder import file_documents
from airflow_provider_assistant.knowledge.parquet import write_documents
from airflow_provider_assistant.knowledge.records import documents_of
from airflow_provider_assistant.knowledge.rows import COLUMNS, DocumentRow, DocumentRows
from airflow_provider_assistant.knowledge.website import website_documents
from airflow_provider_assistant.parsing.html import DEFAULT_REMOVE

__all__ = [
    "COLUMNS",
    "DEFAULT_REMOVE",
    "DocumentRow",
    "DocumentRows",
    "documents_of",
    "file_documents",
    "split_documents",
    "website_documents",
    "write_documents",
]
