"""Sensor that waits until documents are in use."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from typing import Any

from airflow.providers.common.compat.sdk import AirflowSensorTimeout, BaseSensorOperator, Context, PokeReturnValue

from airflow_provider_assistant import parameters
from airflow_provider_assistant.exceptions import (
    NOTHING_CHANGED,
    AssistantDocumentsFailedError,
    AssistantError,
    AssistantInputError,
)
from airflow_provider_assistant.failures import FailureContext, explained
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.hooks.task_parameters import check_given, check_rendered, naming_task
from airflow_provider_assistant.ledger import Ledger
from airflow_provider_assistant.ledger.queries import ids_in_source
from airflow_provider_assistant.parameters import checked
from airflow_provider_assistant.sensors.base import check_waits, skipped_softly
from airflow_provider_assistant.texts import counted
from airflow_provider_assistant.triggers.deferral import DEFERRAL_GRACE, is_deferrable, restore_attributes

# Maximum number of documents that a message names.
NAMED = 20


class AssistantDocumentsReadySensor(BaseSensorOperator):
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
    :param assistant_conn_id: Airflow connection of type ``assistant``. Default: ``assistant_default``.
    :param site_id: Site of the documents. Default: None, the connection's.
    :param deferrable: Whether to free the worker slot between two looks. Default: None, Airflow's ``[operators]
        default_deferrable``.
    :param poke_interval: Time between two looks, in seconds or as a timedelta. Default: 60.

    Airflow's own parameters of sensors: ``timeout``, the longest total wait, by default 7 days; ``mode``, ``poke`` or
    ``reschedule``, and ``exponential_backoff`` with ``max_wait``, if the sensor is not deferrable; ``soft_fail``,
    whether to skip the task instead of failing it.
    """

    template_fields: Sequence[str] = ("assistant_conn_id", "site_id", "source_name", "document_ids")
    ui_color = "#e4e9fb"

    def __init__(
        self,
        *,
        source_name: str | None = None,
        document_ids: Sequence[str] | None = None,
        assistant_conn_id: str = AssistantHook.default_conn_name,
        site_id: str | None = None,
        deferrable: bool | None = None,
        poke_interval: float | timedelta = 60.0,
        **kwargs: Any,
    ) -> None:
        # Makes task.output["documents"] return that item of the result.
        kwargs.setdefault("multiple_outputs", True)
        task_id = kwargs.get("task_id")
        poke_interval = checked("poke_interval", poke_interval, parameters.interval, task_id)
        check_waits(kwargs)
        with naming_task(task_id):
            super().__init__(poke_interval=poke_interval, **kwargs)
        self.source_name = source_name
        self.document_ids = document_ids
        self.assistant_conn_id = assistant_conn_id
        self.site_id = site_id
        self.deferrable = is_deferrable(deferrable)
        check_given(self)
        self._last_look = "the list could not be read"
        if source_name is not None and document_ids is not None:
            raise AssistantInputError(
                f"{parameters.of_task(task_id)}source_name and document_ids exclude each other",
                todo="Give one of them.",
                field="document_ids",
            )

    @cached_property
    def hook(self) -> AssistantHook:
        """Hook of the sensor's connection and site."""
        return AssistantHook(self.assistant_conn_id, site_id=self.site_id)

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
        check_rendered(self, context)
        with skipped_softly(self):
            if self.deferrable:
                return self._look_or_defer(context, time.time())
            try:
                return super().execute(context)
            except AirflowSensorTimeout:
                raise self._timed_out() from None

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
        return self._look_or_defer(context, started or time.time())

    def _look_or_defer(self, context: Context, started: float) -> Any:
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
            if not error.retryable:
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
