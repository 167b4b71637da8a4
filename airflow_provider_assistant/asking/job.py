"""A batch to ask, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.ledger import RunRef, Site
from airflow_provider_assistant.loading.options import OnAmbiguous

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import ObjectStoragePath

Mode: TypeAlias = Literal["async", "sync"]


@dataclass(frozen=True, slots=True)
class AskJob:
    """
    Describe a batch.

    :param settings: Settings of the client; ``max_concurrency`` applies to this batch.
    :param site: The site that is asked.
    :param output: The Parquet file to write.
    :param task: Name of the task, for the ledger.
    :param run: The task instance, for the ledger.
    :param scope: The task instance, of which sessions are made.
    :param mode: ``async`` submits questions and polls their requests (``POST …/chat/async``); ``sync`` waits for each
        answer in its own round trip (``POST …/chat``).
    :param timeout: Longest wait for answers after the last question was sent, in seconds.
    :param poll_interval: Longest time between two polls of one request, in seconds.
    :param on_ambiguous: What to do with a question that may have been asked although no usable reply came back.
    """

    settings: ClientSettings
    site: Site
    output: ObjectStoragePath
    task: str
    run: RunRef
    scope: str
    mode: Mode
    timeout: float
    poll_interval: float
    on_ambiguous: OnAmbiguous = "retry"
