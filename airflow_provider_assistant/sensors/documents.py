"""Sensor that waits until documents are in use."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow.providers.common.compat.sdk import AirflowSensorTimeout, Context, PokeReturnValue

from airflow_provider_assistant import parameters
from airflow_provider_assistant.exceptions import (
    NOTHING_CHANGED,
    AssistantAuthenticationError,
    AssistantDocumentsFailedError,
    AssistantError,
    AssistantInputError,
)
from airflow_provider_assistant.failures import FailureContext, explained
from airflow_provider_assistant.hooks.task_parameters import check_given, check_rendered
from airflow_provider_assistant.ledger import Ledger
from airflow_provider_assistant.ledger.queries import ids_in_source
from airflow_provider_assistant.sensors.base import AssistantSensor
from airflow_provider_assistant.texts import counted
from airflow_provider_assistant.triggers.deferral import DEFERRAL_GRACE, restore_attributes

# Maximum number of documents that a message names.
NAMED = 20


class AssistantDocumentsReadySensor(AssistantSensor):
    """
    Wait until documents of a load are in use: active and ready, as the list of the site shows them.

    The connection must have ``manage_documents``, see :meth:`.AssistantHook.list_documents`. A document that the
    service could not process ends the wait with
    :class:`~airflow_provider_assistant.exceptions.AssistantDocumentsFailedError`. If ``timeout`` passes, Airflow's
    ``AirflowSensorTimeout`` names the documents that are not in use. A draft counts as one of them: somebody may
    activate it. Airflow retries neither. Transient errors are logged, and the sensor goes on.

    .. seealso::
        For more information on how to use this sensor, take a look at the guide:
        :doc:`/load/equal-site`

    :param source_name: Name of a source in the ledger, as in the load: ``dag_id.task_id`` for a load without
        ``source_name``. Default: None, all documents of the site in the ledger.
    :param document_ids: Ids of the documents to wait for, instead of those in the ledger. An empty list succeeds at
        once. Default: None.

    The other parameters are those of :class:`~airflow_provider_assistant.sensors.base.AssistantSensor`.
    """

    template_fields: Sequence[str] = (*AssistantSensor.template_fields, "source_name", "document_ids")

    _last_look = "the list could not be read"

    def __init__(
        self, *, source_name: str | None = None, document_ids: Sequence[str] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.source_name = source_name
        self.document_ids = document_ids
        check_given(self)
        if source_name is not None and document_ids is not None:
            raise AssistantInputError(
                f"{parameters.of_task(self.task_id)}source_name and document_ids exclude each other",
                todo="Give one of them.",
                field="document_ids",
            )

    @explained
    def execute(self, context: Context) -> Any:
        """
        Wait until the documents are in use.

        :return: ``site_id``, and ``documents``: the number of documents in use.
        :raises AssistantDocumentsFailedError: The service could not process a document.
        :raises AirflowSensorTimeout: Documents were not in use within ``timeout``.
        :raises AssistantInputError: The connection does not manage documents, the list shows no status, or the ledger
            knows none of the documents.
        :raises AssistantAPIError: The service refused to list the documents, or does not have the route.
        """
        return self._wait_in_any_mode(context)

    @explained
    def execute_complete(
        self,
        context: Context,
        event: Any = None,  # noqa: ARG002 (it only says that the time has passed)
        *,
        started: float | None = None,
        rendered: Mapping[str, Any] | None = None,
    ) -> Any:
        """
        Look again after a deferral; the result and the errors are those of :meth:`execute`.

        :param started: Time of the first look, in seconds since the epoch. Default: None, now: Airflow's ``dag.test()``
            loses it.
        :param rendered: Values of the template fields at the first look. Default: None.
        """
        restore_attributes(self, {"rendered": rendered})
        check_rendered(self, context)
        return self._poke_or_defer(context, started)

    def _poke_or_defer(self, context: Context, started: float | None = None) -> Any:
        started = started or time.time()
        looked = self.poke(context)
        if looked:
            return looked.xcom_value
        remaining = started + self.timeout - time.time()
        if remaining <= 0:
            raise self._timed_out()
        from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger

        # The last look comes at the timeout.
        wait = timedelta(seconds=min(self.poke_interval, remaining))
        self.defer(
            trigger=TimeDeltaTrigger(wait),
            method_name="execute_complete",
            kwargs={"started": started, "rendered": {name: getattr(self, name) for name in self.template_fields}},
            # A safeguard against a triggerer that never sends the event.
            timeout=wait + timedelta(seconds=DEFERRAL_GRACE),
        )
        raise AssertionError("unreachable: defer() raises")

    def _timed_out(self) -> AirflowSensorTimeout:
        return AirflowSensorTimeout(
            f"Not all documents were in use within {self.timeout:.0f} s: {self._last_look}. Activate the drafts, then "
            "clear the sensor. If processing takes longer, raise its timeout."
        )

    def failure_context(self, context: Context) -> FailureContext:  # noqa: ARG002
        """Return what the sensor was waiting for, for the log of a failure."""
        doing = f"wait until documents are in use on {self.hook.location()}"
        return FailureContext(doing, "The documents stay as they are: a sensor only reads.")

    def poke(self, context: Context) -> PokeReturnValue:  # noqa: ARG002
        """Look at the list once; the errors are those of :meth:`execute`."""
        self._last_look = "the list could not be read"
        try:
            ids = self._wanted_ids()
            states = self._states(ids)
        except AssistantError as error:
            # Only another try of the task reads the key again.
            if not error.retryable or isinstance(error, AssistantAuthenticationError):
                raise
            self.log.warning("The documents cannot be looked at, the sensor goes on: %s", error)
            return PokeReturnValue(is_done=False)
        waiting = {one: states.get(one, "not listed") for one in ids if states.get(one) != "active"}
        counts = "".join(f", {count} {state}" for state, count in Counter(waiting.values()).most_common())
        named = f": {_named(waiting)}" if waiting else ""
        self._last_look = f"{len(ids) - len(waiting)} of {counted(len(ids), 'document')} in use{counts}{named}"
        self.log.info("%s.", self._last_look)
        failed = {one: state for one, state in waiting.items() if state == "failed"}
        if failed:
            raise AssistantDocumentsFailedError(
                f"{len(failed)} of {counted(len(ids), 'document')} failed on {self.hook.location()}: {_named(failed)}"
            )
        if waiting:
            return PokeReturnValue(is_done=False)
        return PokeReturnValue(is_done=True, xcom_value={"site_id": self.hook.resolve_site_id(), "documents": len(ids)})

    def _wanted_ids(self) -> list[str]:
        """Return the ids of the documents to wait for, without repetitions."""
        if self.document_ids is not None:
            return list(dict.fromkeys(self.document_ids))
        with Ledger.open() as ledger:
            known = ledger.read(ids_in_source, self.hook.site(), self.source_name)
        of_source = "" if self.source_name is None else f" of source {self.source_name!r}"
        if not known or None in known:
            what = "documents" if not known else f"id for {counted(known.count(None), 'document')}"
            raise AssistantInputError(
                f"the ledger has no {what}{of_source} on {self.hook.location()}",
                todo="Run the load before the sensor, and give its source_name. If the service returns no "
                "ids, give document_ids.",
                field="source_name",
            )
        return [document_id for document_id in dict.fromkeys(known) if document_id is not None]

    def _states(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the states of the documents that the list shows, by their ids."""
        # Without documents, the connection need not manage documents.
        if not ids:
            return {}
        wanted = set(ids)
        states: dict[str, str] = {}
        for document in self.hook.list_documents():
            if document.document_id in wanted:
                unknown_word = document.status if document.state == "other" else None
                states[document.document_id] = unknown_word or document.state
        if states and set(states.values()) == {"unknown"}:
            raise AssistantInputError(
                f"the list of documents of {self.hook.location()} shows no status, so nobody can see whether documents "
                "are in use",
                safe=NOTHING_CHANGED,
                todo="Set status_field in manage_documents of the connection; `airflow assistant documents check` "
                "shows what is understood.",
                field="manage_documents",
            )
        return states


def _named(documents: Mapping[str, str]) -> str:
    """Return documents and their states, for a message."""
    names = [f"{name!r} ({state})" for name, state in list(documents.items())[:NAMED]]
    if len(documents) > NAMED:
        names.append(f"and {len(documents) - NAMED} more")
    return ", ".join(names)
