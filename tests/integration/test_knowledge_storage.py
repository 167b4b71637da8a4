"""A folder of documents in object storage: one file that is refused is a finding, an outage stops the load."""

from __future__ import annotations

import pytest
from airflow.sdk import ObjectStoragePath

from airflow_provider_assistant.exceptions import AssistantStorageError
from airflow_provider_assistant.knowledge import file_documents
from tests.storage_server import DENIED


@pytest.fixture
def folder(bucket):
    for name in ("a.md", "b.md", "guide/c.txt"):
        with (ObjectStoragePath(bucket.root) / name).open("wb") as file:
            file.write(f"Text of {name}.".encode())
    return bucket.root


def test_a_folder_in_object_storage_is_read(folder):
    rows = list(file_documents(folder, base_url="https://x.org"))
    assert [(row["key"], row["url"]) for row in rows] == [
        ("a.md", "https://x.org/a.md"),
        ("b.md", "https://x.org/b.md"),
        ("guide/c.txt", "https://x.org/guide/c.txt"),
    ]


def test_a_file_that_is_refused_does_not_stop_the_folder(folder, bucket):
    bucket.fail("get", status=403, body=DENIED)
    rows = file_documents(folder, on_error="skip")
    assert [row["key"] for row in rows] == [None, None, None]
    assert [(one.reason, one.count) for one in rows.account.unexpected] == [("cannot be read", 3)]


def test_an_outage_stops_the_folder_and_may_be_retried(folder, bucket):
    bucket.fail("get", status=500)
    with pytest.raises(AssistantStorageError, match=r"a\.md"):
        list(file_documents(folder, on_error="skip"))
