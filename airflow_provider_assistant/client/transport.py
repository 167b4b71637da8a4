"""
The interface between a client and the HTTP library that sends its requests.

:mod:`.httpx_transport` and :mod:`.aiohttp_transport` implement it. Tests implement it without a network, and give the
transport to the client's constructor. The client counts the requests of any transport and redacts the API key from
their outcomes; :mod:`.rate_limited` limits the request rate.
"""

from __future__ import annotations

from typing import Any, Protocol

from airflow_provider_assistant.api.call import Call, Response, TransportFailure


class Transport(Protocol):
    """Send calls one at a time per thread, from any number of threads. Subclasses inherit the other methods."""

    def exchange(self, call: Call[Any]) -> Response | TransportFailure:
        """
        Send a call once and wait for its response.

        :param call: The call.
        :return: The response with any status, or the reason why there is none.
        :raises AssistantInputError: The file of an upload cannot be read; nothing was sent.
        """
        ...

    def use_key(self, api_key: str) -> None:
        """
        Send another API key from now on: that of the settings was rotated.

        :param api_key: The new key.
        """

    def close(self) -> None:
        """Close the open connections. A later :meth:`exchange` opens new ones."""


class AsyncTransport(Protocol):
    """Send calls concurrently in one event loop. Subclasses inherit the other methods."""

    async def exchange(self, call: Call[Any]) -> Response | TransportFailure:
        """
        Send a call once and wait for its response.

        :param call: The call.
        :return: The response with any status, or the reason why there is none.
        :raises AssistantInputError: The file of an upload cannot be read; nothing was sent.
        """
        ...

    def use_key(self, api_key: str) -> None:
        """
        Send another API key from now on: that of the settings was rotated.

        :param api_key: The new key.
        """

    def has_sent(self) -> bool:
        """Return whether the service may have received the last request of this asyncio task."""
        return True

    def prepare(self) -> None:
        """
        Do the work that would block the event loop in the first :meth:`exchange`; may be called in a thread.

        :raises AssistantInputError: The settings cannot be used.
        """

    async def close(self) -> None:
        """Close the open connections. A later :meth:`exchange` opens new ones."""
