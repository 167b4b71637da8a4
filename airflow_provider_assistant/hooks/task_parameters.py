"""
Check the parameters of operators and sensors: at parse time where their value is known, after rendering otherwise.

A name has the same check in all classes. A constructor ends with :func:`check_given`, and ``execute`` begins with
:func:`check_rendered`: a parameter that was given and renders to nothing is an error before any side effect.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Any, NamedTuple, TypeAlias

from airflow.providers.common.compat.sdk import BaseOperator, Context

from airflow_provider_assistant import parameters
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.loading.options import OPTIONS
from airflow_provider_assistant.parameters import Check, checked
from airflow_provider_assistant.storage.opening import check_folder

Checks: TypeAlias = Mapping[str, Check]

_NAMES_BY_CHECK: dict[Check, str] = {
    parameters.anything: "answers expectations files judge source",
    parameters.count: "days max_concurrency repeat",
    parameters.csv_options: "csv_options",
    parameters.day: "date",
    parameters.flag: "allow_empty allow_mass_change deferrable",
    parameters.folder: "lake_path output_path",
    parameters.interval: "poke_interval poll_interval",
    parameters.names: "gate group_columns key_columns refusal_phrases scorers",
    parameters.path: "allowed_root database findings_path scores",
    parameters.seconds: "timeout",
    parameters.text: (
        "assistant_conn_id baseline conn_id feedback message name namespace pass_if "
        "path request_id response_language schema session session_id site_id source_name tenant_id turn user_email"
    ),
    parameters.text_list: "baselines datasets document_ids evaluations",
    parameters.text_map: "columns constants list_keys rules",
    parameters.timezone: "timezone",
    parameters.tolerated: "max_failed max_rejected",
}
CHECK_BY_NAME: dict[str, Check] = {name: check for check, names in _NAMES_BY_CHECK.items() for name in names.split()}
CHECK_BY_NAME |= {name: parameters.choice(*option.choices) for name, option in OPTIONS.items() if option.choices}


class Parameter(NamedTuple):
    """The check of a parameter of a class, and whether it may be None."""

    check: Check
    is_optional: bool


@functools.cache
def parameters_of(kind: type[BaseOperator]) -> Mapping[str, Parameter]:
    """
    Return the parameters that the constructors of this package take, by name.

    A class whose parameter differs from that of others has its check in ``parameter_checks``.
    """
    found: dict[str, Parameter] = {}
    for base in reversed(kind.__mro__):
        if "__init__" not in vars(base) or not base.__module__.startswith("airflow_provider_assistant."):
            continue
        checks: Checks = CHECK_BY_NAME | vars(base).get("parameter_checks", {})
        for name, parameter in inspect.signature(vars(base)["__init__"]).parameters.items():
            if name in checks:
                found[name] = Parameter(checks[name], is_optional=parameter.default is None)
    return found


def check_given(task: BaseOperator) -> None:
    """
    Check the parameters whose value is known when the DAG is parsed, and convert them to the types that are used.

    Parameters that the constructor of a subclass is yet to set are not checked.
    :raises AssistantInputError: A parameter is invalid or empty.
    """
    # The parameters as they are in the DAG file, for check_rendered.
    given: dict[str, Any] = vars(task).setdefault("given_parameters", {})
    later: set[str] = vars(task).setdefault("later_parameters", set())
    for name, (check, is_optional) in parameters_of(type(task)).items():
        if name in given or name not in vars(task):
            continue
        value = getattr(task, name)
        if isinstance(value, PurePath):
            # Airflow does not render path objects.
            value = str(value)
        if name in task.template_fields and is_template(value):
            later.add(name)
        elif value is not None or not is_optional:
            value = checked(name, value, check, task.task_id)
        setattr(task, name, value)
        given[name] = value


def is_given_later(task: BaseOperator, name: str) -> bool:
    """Return whether the value of a parameter was known only at run time: a template, or an output of a task."""
    return name in vars(task)["later_parameters"]


def check_rendered(task: BaseOperator, context: Context) -> None:
    """
    Check the parameters that Airflow has rendered, and convert them to the types that are used.

    :raises AssistantInputError: A parameter is invalid, or it was given and is empty. Nothing was sent.
    """
    for name, (check, _) in parameters_of(type(task)).items():
        given, value = vars(task)["given_parameters"][name], getattr(task, name)
        if name in task.template_fields:
            value = _not_native(task, given, value, context)
        if is_given_later(task, name):
            if isinstance(given, str) and value == "None":
                # The text of a template without a value.
                value = None
            try:
                value = checked(name, value, check, task.task_id)
            except AssistantInputError as error:
                if not isinstance(given, str):
                    raise
                raise AssistantInputError(str(error), todo=f"Its template is {given!r}.", field=name) from None
        setattr(task, name, value)
        if check is parameters.folder:
            check_folder(value, name)


def _not_native(task: BaseOperator, given: Any, rendered: Any, context: Context) -> Any:
    """Return the text of what Airflow rendered as a native object, such as ``"1.10"`` as the number 1.1."""
    dag: Any = task.get_dag() if task.has_dag() else None
    if dag is None or not dag.render_template_as_native_obj or not isinstance(given, str | Mapping | list | tuple):
        return rendered
    if not is_template(given):
        return given
    if isinstance(given, str) and not isinstance(rendered, int | float):
        # A text, or an object such as rows.
        return rendered
    # The environment that Airflow uses in a DAG without native objects.
    environment = dag.get_template_env(force_sandboxed=True)

    def text(value: Any) -> Any:
        if isinstance(value, str):
            return environment.from_string(value).render(context)
        if isinstance(value, Mapping):
            return {name: text(item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [text(item) for item in value]
        return task.render_template(value, context)

    return text(given)


def is_template(value: Any) -> bool:
    """Return whether a value is known only at run time: it has Jinja in it, or is an output of another task."""
    if isinstance(value, str | PurePath):
        return any(mark in str(value) for mark in ("{{", "{%", "{#"))
    if isinstance(value, Mapping):
        return any(map(is_template, value.values()))
    if isinstance(value, list | tuple):
        return any(map(is_template, value))
    # An output of another task refers to it. Airflow calls a function to get its value.
    return hasattr(value, "iter_references") or callable(value)


@contextlib.contextmanager
def naming_task(task_id: str | None) -> Iterator[None]:
    """
    Name the task in the errors about its arguments.

    :raises AssistantInputError: Replaces an error without the task, and a ValueError of Airflow.
    """
    try:
        yield
    except AssistantInputError as error:
        raise replace(error, happened=f"{parameters.of_task(task_id)}{error.happened}") from None
    except ValueError as error:
        raise AssistantInputError(f"{parameters.of_task(task_id)}{error}") from None
