"""Rows of documents from the pages of a website."""

from airflow_provider_assistant.knowledge.website.documents import website_documents

__all__ = ["website_documents"]
