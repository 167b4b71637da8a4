"""Sensor that waits until documents are in use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from itertools import islice
from typing import Any, ClassVar

from airflow.providers.common.compat.sdk import (
    AirflowSensorTimeout,
    BaseSensorOperator,
    Context,
    PokeReturnValue,
)

from airflow_provider_assistant import parameters
from airflow_provider_assistant.api.document_routes import is_missing_route
from airflow_provider_assistant.api.errors import is_transient
from airflow_provider_assistant.api.site_documents import SiteDocument
from airflow_provider_assistant.exceptions import (
    NOTHING_CHANGED,
    AssistantAPIError,
    AssistantConnectionError,
    AssistantDocumentsFailedError,
    AssistantError,
    AssistantInputError,
    AssistantLedgerError,
    AssistantTimeoutError,
)
from airflow_provider_assistant.failures import FailureContext, explained
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.hooks.task_ledger import ledger_location
from airflow_provider_assistant.hooks.task_parameters import Checks, check_given, check_rendered, naming_task
from airflow_provider_assistant.ledger import Ledger
from airflow_provider_assistant.ledger.queries import ids_in_source
from airflow_provider_assistant.parameters import checked
from airflow_provider_assistant.sensors.base import check_waits, skipped_softly, start_of_wait
from airflow_provider_assistant.texts import counted
from airflow_provider_assistant.triggers.deferral import DEFERRAL_GRACE, is_deferrable, restore_attributes

# Maximum number of documents that a message names.
NAMED = 20
CHECK = "`airflow assistant documents check` shows what is understood."


@dataclass(slots=True)
class _Look:
    """
    What the list shows of the documents.

    :param ready: Number of documents that are in use.
    :param waiting: State and status of the others, by their ids.
    """

    ready: int = 0
    waiting: dict[str, str] = field(default_factory=dict)
    states: Counter[str] = field(default_factory=Counter)

    def names(self) -> str:
        """Return the documents that are not in use, for a message."""
        names = [f"{name!r} ({state})" for name, state in islice(self.waiting.items(), NAMED)]
        if len(self.waiting) > NAMED:
            names.append(f"and {len(self.waiting) - NAMED} more")
        return ", ".join(names)

    def __str__(self) -> str:
        if not self.waiting:
            return f"{counted(self.ready, 'document')} in use"
        states = ", ".join(f"{count} {state}" for state, count in self.states.most_common())
        total = self.ready + len(self.waiting)
        return f"{self.ready} of {counted(total, 'document')} in use, {states}: {self.names()}"


class AssistantDocumentsReadySensor(BaseSensorOperator):
    """
    Wait until documents are in use: the list of the site shows each of them as active and ready.

    The connection must have ``manage_documents``, see :meth:`.AssistantHook.list_documents`. The
    documents are those of the rows that are in their source, as the ledger knows them, or
    ``document_ids``. Each look reads the list of the site, on a worker. Transient errors of the
    service and of the ledger are logged, and the sensor goes on.

    A document that the service could not process ends the wait with
    :class:`~airflow_provider_assistant.exceptions.AssistantDocumentsFailedError`. If ``timeout``
    passes, Airflow's ``AirflowSensorTimeout`` names the documents that are not in use, with their
    states. A draft counts as one of them: somebody may activate it. Airflow retries neither.

    .. seealso::
        For more information on how to use this sensor, take a look at the guide:
        :doc:`/load/equal-site`

    :param source_name: Name of a source in the ledger, as in the load: ``dag_id.task_id`` for a
        load without ``source_name``. Default: None, all documents of the site in the ledger.
    :param document_ids: Ids of the documents to wait for, instead of those in the ledger. An empty
        list succeeds at once. Default: None.
    :param assistant_conn_id: Airflow connection of type ``assistant``. Default:
        ``assistant_default``.
    :param site_id: Site of the documents. Default: None, the connection's.
    :param deferrable: Whether to free the worker slot between two looks. Default: None, Airflow's
        ``[operators] default_deferrable``.
    :param ledger_conn_id: SQL connection of the ledger. Default: that of the assistant connection,
        or else of Airflow's configuration.
    :param poke_interval: Shortest time between two looks, in seconds or as a timedelta. The time
        grows with the wait, up to ``max_poke_interval``. Default: 30.
    :param max_poke_interval: Longest time between two looks, in seconds or as a timedelta.
        Default: 600.

    Airflow's own parameters of sensors: ``timeout``, the longest total wait, by default 7 days;
    ``mode``, ``poke`` or ``reschedule`` if the sensor is not deferrable; ``soft_fail``, whether to
    skip the task instead of failing it. ``exponential_backoff`` changes nothing, because the time
    between two looks grows without it.
    """

    template_fields: Sequence[str] = (
        "assistant_conn_id",
        "site_id",
        "source_name",
        "document_ids",
        "ledger_conn_id",
    )
    parameter_checks: ClassVar[Checks] = {
        "source_name": parameters.text,
        "document_ids": parameters.text_list,
        "assistant_conn_id": parameters.text,
        "site_id": parameters.text,
        "deferrable": parameters.flag,
        "ledger_conn_id": parameters.text,
        "poke_interval": parameters.interval,
        "max_poke_interval": parameters.interval,
    }
    ui_color = "#e4e9fb"

    def __init__(
        self,
        *,
        source_name: str | None = None,
        document_ids: Sequence[str] | None = None,
        assistant_conn_id: str = AssistantHook.default_conn_name,
        site_id: str | None = None,
        deferrable: bool | None = None,
        ledger_conn_id: str | None = None,
        poke_interval: float | timedelta = 30.0,
        max_poke_interval: float | timedelta = 600.0,
        **kwargs: Any,
    ) -> None:
        # Makes task.output["documents"] return that item of the result.
        kwargs.setdefault("multiple_outputs", True)
        # Airflow's own errors about these parameters name neither the parameter nor the task.
        task_id = kwargs.get("task_id")
        poke_interval = checked("poke_interval", poke_interval, parameters.interval, task_id)
        check_waits(kwargs)
        with naming_task(task_id):
            super().__init__(poke_interval=poke_interval, **kwargs)
        # Airflow would apply it only on workers, and to the time that has grown.
        self.exponential_backoff = False
        self.source_name = source_name
        self.document_ids = document_ids
        self.assistant_conn_id = assistant_conn_id
        self.site_id = site_id
        self.deferrable = is_deferrable(deferrable)
        self.ledger_conn_id = ledger_conn_id
        self.max_poke_interval = checked("max_poke_interval", max_poke_interval, parameters.interval, task_id)
        check_given(self)
        # Time of the first look, in seconds since the epoch.
        self._started = 0.0
        self._shortest_interval = self.poke_interval
        # None if the list could not be read.
        self._last_look: _Look | None = None
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

        :param context: Airflow's context of the task.
        :return: ``site_id``, and ``documents``: the number of documents in use.
        :raises AssistantDocumentsFailedError: The service could not process a document.
        :raises AirflowSensorTimeout: Documents were not in use within ``timeout``.
        :raises AssistantInputError: The connection does not manage documents, the list shows no
            status, or the ledger knows none of the documents.
        :raises AssistantAPIError: The service refused to list the documents.
        """
        check_rendered(self, context)
        with skipped_softly(self):
            self._started = start_of_wait(self, context) or self.hook.client.now()
            if self.deferrable:
                return self._look_or_defer(context)
            return self._wait_on_worker(context)

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
        Look again after a deferral.

        :param context: Airflow's context of the task.
        :param event: Payload of the trigger's event.
        :param started: Time of the first look, in seconds since the epoch. Default: None, now:
            Airflow's ``dag.test()`` loses it.
        :param rendered: Values of the template fields at the first look. Default: None.
        :return: The same as :meth:`execute`.
        :raises AssistantError: The same errors as :meth:`execute`.
        """
        restore_attributes(self, {"rendered": rendered})
        check_rendered(self, context)
        self._started = started or self.hook.client.now()
        return self._look_or_defer(context)

    def poke(self, context: Context) -> PokeReturnValue:  # noqa: ARG002
        """
        Look at the list once.

        :param context: Airflow's context of the task.
        :return: ``is_done``, and the result as ``xcom_value`` once all documents are in use.
        :raises AssistantError: The same errors as :meth:`execute`.
        """
        self._started = self._started or self.hook.client.now()
        self._last_look = self._look()
        # Airflow's loop reads the attribute before each wait.
        self.poke_interval = self._next_interval()
        if self._last_look is None or self._last_look.waiting:
            return PokeReturnValue(is_done=False)
        result = {"site_id": self.hook.resolve_site_id(), "documents": self._last_look.ready}
        return PokeReturnValue(is_done=True, xcom_value=result)

    def failure_context(self, context: Context) -> FailureContext:  # noqa: ARG002
        """
        Return what the sensor was waiting for, for the log of a failure.

        :param context: Airflow's context of the task.
        """
        doing = f"wait until documents are in use on {self.hook.location()}"
        return FailureContext(doing, "The documents stay as they are: a sensor only reads.")

    # -- waiting -------------------------------------------------------------------------------

    def _wait_on_worker(self, context: Context) -> Any:
        try:
            return super().execute(context)
        except AirflowSensorTimeout:
            reason = self._not_ready()
            raise AirflowSensorTimeout(str(reason)) from reason

    def _look_or_defer(self, context: Context) -> Any:
        looked = self.poke(context)
        if looked:
            return looked.xcom_value
        if self.poke_interval <= 0:
            reason = self._not_ready()
            raise AirflowSensorTimeout(str(reason)) from reason
        from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger

        wait = timedelta(seconds=self.poke_interval)
        rendered = {name: getattr(self, name) for name in self.template_fields}
        self.defer(
            trigger=TimeDeltaTrigger(wait),
            method_name="execute_complete",
            kwargs={"started": self._started, "rendered": rendered},
            # A safeguard against a triggerer that never sends the event.
            timeout=wait + timedelta(seconds=DEFERRAL_GRACE),
        )
        raise AssertionError("unreachable: defer() raises")

    def _next_interval(self) -> float:
        """Return the time to the next look: as long as the wait so far, within its bounds."""
        elapsed = self.hook.client.now() - self._started
        interval: float = min(max(elapsed, self._shortest_interval), self.max_poke_interval)
        # The last look comes at the timeout.
        return min(interval, max(self.timeout - elapsed, 0.0))

    def _not_ready(self) -> AssistantError:
        """Return the reason of a timeout."""
        text = str(self._last_look) if self._last_look else "the list could not be read"
        return AssistantError(
            f"Not all documents were in use within {self.timeout:.0f} s: {text}",
            todo="Activate the drafts, and look at the service for what is processed. Then clear "
            "the sensor. If processing always takes longer, raise its timeout.",
        )

    # -- looking -------------------------------------------------------------------------------

    def _look(self) -> _Look | None:
        """Return what the list shows; None, with a warning, if it cannot be read at the moment."""
        try:
            document_ids = self._wanted_ids()
            shown = self._shown(document_ids)
        except (AssistantAPIError, AssistantConnectionError, AssistantTimeoutError) as error:
            if is_missing_route(error):
                raise self._no_list(error) from error
            if not is_transient(error):
                raise
            self.log.warning("The list cannot be read, the sensor goes on: %s", error)
            return None
        except AssistantLedgerError as error:
            if not error.retryable:
                raise
            self.log.warning("The ledger cannot be read, the sensor goes on: %s", error)
            return None
        look = _looked(document_ids, shown)
        self.log.info("%s.", look)
        self._check(look, shown)
        return look

    def _wanted_ids(self) -> list[str]:
        """Return the ids of the documents to wait for, without repetitions."""
        if self.document_ids is not None:
            return list(dict.fromkeys(self.document_ids))
        with Ledger.open(ledger_location(self.hook, self.ledger_conn_id)) as ledger:
            known = ledger.read(ids_in_source, self.hook.site(), self.source_name)
        ids = [document_id for document_id in dict.fromkeys(known) if document_id is not None]
        without_id = known.count(None)
        of_source = "" if self.source_name is None else f" of source {self.source_name!r}"
        if without_id:
            raise AssistantInputError(
                f"the ledger has no id for {counted(without_id, 'document')}{of_source} on "
                f"{self.hook.location()}, so that the list of the site cannot show its status",
                todo="The service returned no id when it created them. Do not use this sensor, or give document_ids.",
                field="source_name",
            )
        if not ids:
            raise AssistantInputError(
                f"the ledger has no documents{of_source} on {self.hook.location()}",
                todo="Run the load before the sensor, and give its source_name, which is "
                "dag_id.task_id by default. Both need the same ledger.",
                field="source_name",
            )
        return ids

    def _shown(self, document_ids: Sequence[str]) -> dict[str, SiteDocument]:
        """Return the documents that the list shows, by their ids."""
        wanted = set(document_ids)
        # Without documents, the connection need not manage documents.
        if not wanted:
            return {}
        shown = {}
        for document in self.hook.list_documents():
            if document.document_id in wanted:
                shown[document.document_id] = document
        return shown

    def _no_list(self, error: AssistantError) -> AssistantError:
        return AssistantInputError(
            f"the documents of {self.hook.location()} cannot be listed: {error}",
            safe=NOTHING_CHANGED,
            todo=f"Describe the route in manage_documents of the connection (list.path). {CHECK}",
            field="manage_documents",
        )

    def _check(self, look: _Look, shown: dict[str, SiteDocument]) -> None:
        """
        Check what waiting cannot change.

        :raises AssistantError: A document failed, or the list shows no status.
        """
        if shown and all(document.state == "unknown" for document in shown.values()):
            raise AssistantInputError(
                f"the list of documents of {self.hook.location()} shows no status, so nobody can "
                "see whether documents are in use",
                safe=NOTHING_CHANGED,
                todo=f"Set list.status in manage_documents of the connection. {CHECK}",
                field="manage_documents",
            )
        failed = [name for name, document in shown.items() if document.state == "failed"]
        if failed:
            only_failed = _looked(failed, shown)
            raise AssistantDocumentsFailedError(
                f"{len(failed)} of {counted(look.ready + len(look.waiting), 'document')} failed "
                f"on {self.hook.location()}: {only_failed.names()}"
            )


def _looked(document_ids: Sequence[str], shown: dict[str, SiteDocument]) -> _Look:
    look = _Look()
    for document_id in document_ids:
        document = shown.get(document_id)
        if document is None:
            look.states["not listed"] += 1
            look.waiting[document_id] = "not listed"
        elif document.is_in_use:
            look.ready += 1
        else:
            look.states[document.state] += 1
            look.waiting[document_id] = f"{document.state}: {document.status or 'no status'}"
    return look
