"""Transports around other transports that count and time every request, and redact the API key from its outcome."""

from __future__ import annotations

import time
from typing import Any

from airflow_provider_assistant.api.call import Call, Response, TransportFailure
from airflow_provider_assistant.client.redaction import Redactor
from airflow_provider_assistant.client.transport import AsyncTransport, Transport
from airflow_provider_assistant.observability.metrics import Requests


class _Instrumented:
    def __init__(self, redactor: Redactor, requests: Requests) -> None:
        self._redactor = redactor
        self._requests = requests

    def _finish(
        self, call: Call[Any], outcome: Response | TransportFailure, started: float
    ) -> Response | TransportFailure:
        status = str(outcome.status) if isinstance(outcome, Response) else outcome.kind
        self._requests.add(call.endpoint, status, time.perf_counter() - started)
        return self._redactor.outcome(outcome)


class InstrumentedTransport(_Instrumented, Transport):
    """
    Measure and redact the outcomes of a transport.

    :param transport: Transport that sends the requests.
    :param redactor: Redactor of the API key.
    :param requests: Metrics of the client's requests.
    """

    def __init__(self, transport: Transport, redactor: Redactor, requests: Requests) -> None:
        super().__init__(redactor, requests)
        self._inner = transport

    def exchange(self, call: Call[Any]) -> Response | TransportFailure:
        """Send a call once, see :meth:`.Transport.exchange`."""
        started = time.perf_counter()
        return self._finish(call, self._inner.exchange(call), started)

    def close(self) -> None:
        """Close the inner transport."""
        self._inner.close()


class AsyncInstrumentedTransport(_Instrumented, AsyncTransport):
    """
    Measure and redact the outcomes of a transport under asyncio.

    :param transport: Transport that sends the requests.
    :param redactor: Redactor of the API key.
    :param requests: Metrics of the client's requests.
    """

    def __init__(self, transport: AsyncTransport, redactor: Redactor, requests: Requests) -> None:
        super().__init__(redactor, requests)
        self._inner = transport

    async def exchange(self, call: Call[Any]) -> Response | TransportFailure:
        """Send a call once, see :meth:`.AsyncTransport.exchange`."""
        started = time.perf_counter()
        return self._finish(call, await self._inner.exchange(call), started)

    def prepare(self) -> None:
        """Compile the redaction, and prepare the inner transport."""
        self._redactor.prepare()
        self._inner.prepare()

    async def close(self) -> None:
        """Close the inner transport."""
        await self._inner.close()
