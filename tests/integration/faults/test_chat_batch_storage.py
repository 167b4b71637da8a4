"""The batch state of a deferred chat batch in object storage."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_assistant.chat_batch.requests import PendingRequest
from airflow_provider_assistant.chat_batch.state import BatchState
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.triggers.chat_batch import AssistantChatBatchTrigger
from tests.integration.faults.storage import Bucket


async def test_a_triggerer_is_the_first_of_its_process_to_use_the_storage(
    bucket: Bucket, connection: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow remembers file systems by connection, so another connection stands for another process."""
    request_id = AssistantHook().submit_chat("s", "When?").request_id
    BatchState(f"{bucket.root}/state").write_pending([PendingRequest("question", request_id, time.time())])
    other = f"triggerer_of_{bucket.storage.conn_id}"
    monkeypatch.setenv(f"AIRFLOW_CONN_{other.upper()}", bucket.storage.connection())
    trigger = AssistantChatBatchTrigger(
        assistant_conn_id="assistant_default",
        site_id="acme-docs",
        folder=f"s3://{other}@{bucket.name}/lake/state",
        deadline=time.time() + 60,
        poll_interval=0.05,
        max_concurrency=1,
    )
    events: list[dict[str, Any]] = [event.payload async for event in trigger.run()]
    assert [(event.get("ended"), event.get("open")) for event in events] == [({"complete": 1}, 0)]
    (answer,) = BatchState(f"{bucket.root}/state").read_answers()
    assert (answer.request_id, answer.status) == (request_id, "complete")
