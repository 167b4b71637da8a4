"""The base of the sensors: the same parameters, and the same end in every mode."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import cached_property
from typing import Any

from airflow.providers.common.compat.sdk import (
    AirflowNotFoundException,
    AirflowSensorTimeout,
    AirflowSkipException,
    BaseSensorOperator,
    Context,
)

from airflow_provider_assistant import parameters
from airflow_provider_assistant.exceptions import AssistantError
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.hooks.task_parameters import check_given, check_rendered, naming_task
from airflow_provider_assistant.parameters import checked
from airflow_provider_assistant.triggers.deferral import is_deferrable


class AssistantSensor(BaseSensorOperator):
    """
    Base of the sensors.

    :param assistant_conn_id: Airflow connection of type ``assistant``. Default: ``assistant_default``.
    :param site_id: The site. Default: that of the connection.
    :param deferrable: Whether to wait in the triggerer. Default: None, Airflow's ``[operators] default_deferrable``.
    :param poke_interval: Time between two polls, in seconds or as a timedelta. Default: 60.

    Airflow's own parameters of sensors: ``timeout``, the longest total wait, by default 7 days; ``mode``, ``poke`` or
    ``reschedule`` if the sensor is not deferrable; ``soft_fail``, whether to skip the task instead of failing it;
    ``exponential_backoff``, whether the time between two polls doubles, up to ``max_wait``.
    """

    template_fields: Sequence[str] = ("assistant_conn_id", "site_id")
    ui_color = "#e4e9fb"

    def __init__(
        self,
        *,
        assistant_conn_id: str = AssistantHook.default_conn_name,
        site_id: str | None = None,
        deferrable: bool | None = None,
        poke_interval: float | timedelta = 60.0,
        **kwargs: Any,
    ) -> None:
        # Makes task.output["request_id"] return that item of the result.
        kwargs.setdefault("multiple_outputs", True)
        # Airflow's own errors about these parameters name neither the parameter nor the task.
        task_id = kwargs.get("task_id")
        poke_interval = checked("poke_interval", poke_interval, parameters.interval, task_id)
        for name in ("timeout", "max_wait"):
            if kwargs.get(name) is not None:
                kwargs[name] = checked(name, kwargs[name], parameters.seconds, task_id)
        with naming_task(task_id):
            super().__init__(poke_interval=poke_interval, **kwargs)
        self.assistant_conn_id = assistant_conn_id
        self.site_id = site_id
        self.deferrable = is_deferrable(deferrable)
        check_given(self)

    @cached_property
    def hook(self) -> AssistantHook:
        """Hook of the sensor's connection and site."""
        return AssistantHook(self.assistant_conn_id, site_id=self.site_id)

    def _wait_in_any_mode(self, context: Context) -> Any:
        """
        Wait on the worker, or free its slot meanwhile.

        With ``soft_fail`` or ``never_fail``, every error that would fail the task skips it. Airflow itself does so when
        a deferred sensor resumes; in the other modes, it skips only for some errors.
        """
        check_rendered(self, context)
        with self._skipped_softly():
            if self.deferrable:
                return self._poke_or_defer(context)
            try:
                return super().execute(context)
            except (AirflowSensorTimeout, AirflowSkipException) as ended:
                if ended.__cause__:
                    raise
                # Airflow's own error of a timeout does not say what the sensor met.
                late = self._timed_out()
                raise type(ended)(str(late)) from late

    def _poke_or_defer(self, context: Context) -> Any:
        """Poke once, and return the result; if there is none yet, leave the others to the triggerer."""
        raise NotImplementedError

    def _timed_out(self) -> Exception:
        """Return the error of a wait that was too long, which says what the sensor met."""
        raise NotImplementedError

    @contextlib.contextmanager
    def _skipped_softly(self) -> Iterator[None]:
        try:
            yield
        except (AssistantError, AirflowSensorTimeout, AirflowNotFoundException) as error:
            if self.soft_fail or self.never_fail:
                raise AirflowSkipException(f"Skipped instead of failed: {error}") from error
            raise
