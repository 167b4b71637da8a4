"""A client of loads without a network."""

from __future__ import annotations

from airflow_provider_assistant.client.client import AssistantClient
from airflow_provider_assistant.loading.load_client import LoadClient


class _Scripted(AssistantClient):
    async def _aexchange(self, call):
        return await self.answer(call)


class ScriptedClient(LoadClient, _Scripted):
    """
    Get every response from a coroutine function, behind the rate limiter.

    :param answer: Called with each call; returns its response.
    """

    def __init__(self, answer, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.answer = answer

    async def prepare(self):
        """Do nothing: there is no network."""
