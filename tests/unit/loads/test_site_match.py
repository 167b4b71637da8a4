"""Which document of a list is that of a row."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random

import pytest

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.payloads import QADocument, TextDocument
from airflow_provider_assistant.api.site_documents import SiteDocument
from airflow_provider_assistant.loading.site_match import (
    ENOUGH,
    RowIndex,
    fit,
    matches,
    texts_of_call,
    texts_of_document,
)


def listed(title=None, content=None, question=None, document_id="d1"):
    return SiteDocument(document_id, title, None, "unknown", datetime.now(UTC), None, content, question, {})


def text_row(content, title=None):
    return texts_of_call(endpoints.create_text_document("s", TextDocument(title=title, content=content)))


def qa_row(question, answer, title=None):
    document = QADocument(title=title, question=question, answer=answer)
    return texts_of_call(endpoints.create_qa_document("s", document))


@pytest.mark.parametrize(
    ("row", "document", "expected"),
    [
        (text_row("Thirty days.", "Returns"), listed("Returns", "Thirty days."), "content"),
        (text_row("Thirty days.", "Returns"), listed("Returns"), "title"),
        (text_row("Thirty days.", "Returns"), listed(None, "Thirty days."), "content"),
        (text_row("Thirty days.", "Returns"), listed("Refunds", "Thirty days."), None),
        (text_row("Thirty days.", "Returns"), listed("Returns", "Forty days."), None),
        (text_row("Thirty days.", "Returns"), listed("Returns", "Thirty"), None),
        (text_row("Thirty days."), listed("Document 7", "Thirty days."), "content"),
        (text_row("Thirty days."), listed("Document 7"), None),
        (text_row("Yes.", "Paid?"), listed("Paid?", "Yes.", "Paid?"), None),
        (text_row("a \r\nb\rc\n\n"), listed(None, "a\nb  \nc"), "content"),
        (text_row("a b"), listed(None, "a  b"), None),
        (text_row("A"), listed(None, "a"), None),
        (qa_row("Paid?", "Yes."), listed(None, "Yes.", "Paid?"), "content"),
        (qa_row("Paid?", "Yes."), listed("Anything", "Yes.", "Paid?"), "content"),
        (qa_row("Paid?", "Yes."), listed("Paid?", "Yes."), "content"),
        (qa_row("Paid?", "Yes."), listed("Paid?"), "title"),
        (qa_row("Paid?", "Yes."), listed(None, "Yes."), None),
        (qa_row("Paid?", "Yes."), listed(None, "Yes.", "Open?"), None),
        (qa_row("Paid?", "Yes."), listed(None, "No.", "Paid?"), None),
        (qa_row("Paid?", "Yes.", "FAQ"), listed("FAQ", "Yes."), "title"),
        (qa_row("Paid?", "Yes.", "FAQ"), listed("FAQ", "Yes.", "Paid?"), "content"),
        (qa_row("Paid?", "Yes.", "FAQ"), listed("Paid?", "Yes."), None),
        (qa_row("Paid?", "Yes.", "FAQ"), listed("Help", "Yes.", "Paid?"), None),
    ],
)
def test_what_a_document_shows_of_a_row(row, document, expected):
    assert fit(row, texts_of_document(document)) == expected


@pytest.mark.parametrize("seed", range(10))
def test_the_index_finds_what_comparing_with_every_row_finds(seed):
    rng = Random(seed)
    words = ("FAQ", "Paid?", "Yes.")

    def one(*optional):
        return rng.choice([*words, *optional])

    rows = []
    for _ in range(30):
        if rng.random() < 0.5:
            rows.append(text_row(one(), one(None)))
        else:
            rows.append(qa_row(one(), one(), one(None)))
    index = RowIndex()
    for number, row in enumerate(rows):
        index.add(str(number), row)
    for _ in range(30):
        document = texts_of_document(listed(one(None), one(None), one(None)))
        expected = {str(number): fit(row, document) for number, row in enumerate(rows) if fit(row, document)}
        found = index.fits(document)
        assert found.items() <= expected.items()
        assert len(found) == min(len(expected), ENOUGH)


def test_only_pairs_without_another_choice_are_matches():
    """Row a has one document; b has two; c and d are equal, and have one; nothing is known of e."""
    index = RowIndex()
    for name, content in {"a": "1", "b": "2", "c": "3", "d": "3", "e": "4"}.items():
        index.add(name, text_row(content))
    documents = [listed(content=content, document_id=str(number)) for number, content in enumerate("1223")]
    assert [(match.row, match.document.document_id) for match in matches(index, documents)] == [("a", "0")]
    assert matches(index, documents, lambda row, _document: row in "bc") == matches(
        index, documents[3:], lambda row, _: row == "c"
    )
