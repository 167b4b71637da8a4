"""A client of loads without a network."""

from __future__ import annotations

from airflow_provider_assistant.loading.load_client import LoadClient
from tests.wire import FunctionTransport


class ScriptedClient(LoadClient):
    """
    Get every response from a coroutine function, behind the rate limiter.

    :param answer: Called with each call; returns its response.
    """

    def __init__(self, answer, *args, **kwargs) -> None:
        super().__init__(*args, async_transport=FunctionTransport(answer), **kwargs)
