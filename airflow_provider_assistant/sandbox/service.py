"""The components of a running sandbox."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from airflow_provider_assistant.sandbox.assistant import Assistant
from airflow_provider_assistant.sandbox.chats import Chats
from airflow_provider_assistant.sandbox.database import Database
from airflow_provider_assistant.sandbox.documents import Documents
from airflow_provider_assistant.sandbox.faults import Faults
from airflow_provider_assistant.sandbox.journal import Journal
from airflow_provider_assistant.sandbox.limits import Quotas, RateLimiter
from airflow_provider_assistant.sandbox.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_assistant.sandbox.settings import Settings

RESETTABLE = ("data", "journal", "faults")


class Service:
    """Hold the components that requests use.

    :param settings: initial settings.
    :param clock: returns the current time in seconds since the epoch.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self.in_flight = 0  # API requests in flight
        self.data_resets = 0
        self.faults = Faults(settings)
        self.journal = Journal()
        self.database = Database(settings.data)
        self.documents = Documents(self.database, self.faults)
        self.chats = Chats(self.database)
        self.assistant = Assistant(self.documents, self.chats, self.faults, clock)
        self.rate = RateLimiter()
        self.quotas = Quotas(self.documents, self.chats, self.faults)
        self.worker = Worker(self.database, self.chats, self.assistant, self.faults, clock)

    @property
    def settings(self) -> Settings:
        """Return the settings in force now."""
        return self.faults.settings

    def reset(self, *what: str) -> None:
        """Reset components to their initial state.

        :param what: any of ``data``, ``journal`` and ``faults``. Empty resets all.
        """
        chosen = what or RESETTABLE
        unknown = sorted(set(chosen) - set(RESETTABLE))
        if unknown:
            raise ValueError(f"{unknown[0]!r} cannot be reset; {', '.join(RESETTABLE)} can")
        if "data" in chosen:
            self.data_resets += 1  # first: a request in flight must see it before it is released
            self.database.clear()
            self.documents.recount()
            self.chats.recount()
        if "journal" in chosen:
            self.journal.clear()
        if "faults" in chosen:
            self.faults.reset()
            self.rate.clear()
