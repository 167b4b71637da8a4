"""The API key of a client, which may be rotated while a task waits."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from airflow_provider_assistant.client.redaction import redactor_of
from airflow_provider_assistant.client.settings import ClientSettings
from airflow_provider_assistant.client.transport import AsyncTransport, Transport
from airflow_provider_assistant.exceptions import AssistantError
from airflow_provider_assistant.texts import escaped

log = logging.getLogger(__name__)

# Seconds in which the connection is not read again after a read that found no new key.
QUIET_SECONDS = 10.0


class ApiKey:
    """
    Hold the API key of a client, and read it again once the service refuses it.

    :param settings: Settings of the client. Without ``read_again``, the key never changes.
    :param transports: Transports to give a new key to.
    :param clock: Returns seconds that only grow. Default: :func:`time.monotonic`.
    :ivar value: The key.
    :ivar redactor: Redactor of this key and of the one before, which a late reply may repeat.
    :ivar note: What the last read of the connection has shown, as sentences for an error; empty before.
    """

    def __init__(
        self,
        settings: ClientSettings,
        transports: Sequence[Transport | AsyncTransport],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.value = settings.api_key
        self.note = ""
        self.redactor = redactor_of(settings.base_url, settings.api_key)
        self._transports = transports
        self._settings = settings
        self._clock = clock
        self._quiet_until = clock()
        self._lock = threading.Lock()

    def renew(self, refused: str) -> None:
        """
        Read the connection again after a 401, unless another request has just done it. Blocks.

        :param refused: The key that the service refused.
        """
        with self._lock:
            if self.value == refused and self._clock() >= self._quiet_until:
                self._read()

    def _read(self) -> None:
        if self._settings.read_again is None:
            return
        try:
            current = self._settings.read_again()
        except Exception as error:  # noqa: BLE001 (Airflow's errors differ; the 401 is what fails the task)
            reason = error.happened if isinstance(error, AssistantError) else f"{type(error).__name__}: {error}"
            self.note = f"The connection could not be read again: {escaped(reason)}."
        else:
            if current.base_url != self._settings.base_url:
                # The key of another service must not be sent to this one.
                self.note = "The connection was read again and has another base URL now: run the task again."
            elif current.api_key == self.value:
                self.note = "The connection was read again; its API key has not changed."
            else:
                self._use(current.api_key)
                return
        self._quiet_until = self._clock() + QUIET_SECONDS

    def _use(self, api_key: str) -> None:
        # The transports come first: a request that starts now may send the new key and take it for the old one, which
        # does no harm. The other way round, its 401 would be about a key that it did not send.
        self.redactor = redactor_of(self._settings.base_url, api_key, self.value)
        for transport in self._transports:
            transport.use_key(api_key)
        self.value = api_key
        self.note = "The connection was read again and had a new API key, which is refused as well."
        log.info("The service refused the API key. The connection has a new one, which is used from now on.")
