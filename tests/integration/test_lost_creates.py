"""Creates whose answer is lost, at the embedded service: loads look them up in its list."""

from __future__ import annotations

from collections import Counter

import pytest

from airflow_provider_assistant.exceptions import AssistantIncompleteError
from airflow_provider_assistant.operators.documents import (
    AssistantLoadQAOperator,
    AssistantLoadTextOperator,
    AssistantUploadFilesOperator,
)
from tests.task_runs.context import execute_operator

NUMBERS = range(12)


def qa_rows(_folder):
    source = [{"id": n, "title": f"Title {n}", "question": f"Question {n}?", "answer": "Yes."} for n in NUMBERS]
    return AssistantLoadQAOperator, {"source": source, "key_columns": "id"}


def text_rows(_folder):
    source = [{"id": n, "title": f"Title {n}", "content": f"Text {n}."} for n in NUMBERS]
    return AssistantLoadTextOperator, {"source": source, "key_columns": "id"}


def files(folder):
    for number in NUMBERS:
        (folder / f"file {number}.txt").write_text(f"Text {number}.")
    return AssistantUploadFilesOperator, {"files": str(folder)}


@pytest.mark.promise("loads", "A create whose answer is lost is looked up in the list of the site, and not sent again.")
@pytest.mark.parametrize("arguments", [qa_rows, text_rows, files])
def test_no_document_exists_twice(arguments, service, connect, tmp_path):
    connect(manage_documents=True)
    folder = tmp_path / "files"
    folder.mkdir()
    kind, options = arguments(folder)
    for skip in (0, 3, 6):
        service.answer("store-then-status:503", path="/documents", method="POST", skip=skip)

    def load():
        return execute_operator(kind(task_id="load", **options))

    with pytest.raises(AssistantIncompleteError):
        load()
    result = load()
    assert (result["created"], result["unchanged"], result["possibly_duplicated"]) == (0, len(NUMBERS), 0)
    titles = Counter((document["title"], document.get("question")) for document in service.documents())
    assert set(titles.values()) == {1}
    assert len(titles) == len(NUMBERS)
