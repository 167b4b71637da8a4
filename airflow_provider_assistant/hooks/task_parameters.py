"""
Check the parameters of operators and sensors: at parse time where their value is known, after rendering otherwise.

A class lists the checks of the parameters that its constructor takes in ``parameter_checks``. Its constructor ends with
:func:`check_given`, and ``execute`` begins with :func:`check_rendered`.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, TypeAlias

from airflow.providers.common.compat.sdk import BaseOperator, Context

from airflow_provider_assistant import parameters
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.parameters import Check, checked
from airflow_provider_assistant.storage.paths import check_folder

Checks: TypeAlias = Mapping[str, Check]

# Checks of parameters that are text, or may consist of texts.
TEXTS = {
    parameters.prose,
    parameters.text,
    parameters.path,
    parameters.folder,
    parameters.day,
    parameters.names,
    parameters.text_list,
    parameters.text_map,
    parameters.query,
    parameters.csv_options,
    parameters.anything,
}


@dataclass(frozen=True, slots=True)
class _Parameter:
    """The check of a parameter, and whether it may be None."""

    check: Check
    is_optional: bool


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


def check_given(task: BaseOperator) -> None:
    """
    Check the parameters whose value is known when the DAG is parsed, and convert them to the types that are used.

    Parameters that the constructor of a subclass is yet to set are not checked.
    :raises AssistantInputError: A parameter is invalid or empty.
    """
    # The parameters as they are in the DAG file, for check_rendered.
    given: dict[str, Any] = vars(task).setdefault("given_parameters", {})
    for name, parameter in _parameters_of(type(task)).items():
        if name not in vars(task) or name in given:
            continue
        value = getattr(task, name)
        if value is None and parameter.is_optional:
            continue
        is_later = name in task.template_fields and is_template(value)
        if is_later and isinstance(value, PurePath):
            # Airflow does not render path objects.
            value = str(value)
            setattr(task, name, value)
        # Other values contain no template: check_rendered only needs that they were given.
        given[name] = value if isinstance(value, str | Mapping | list | tuple) else ...
        if is_later:
            vars(task).setdefault("later_parameters", set()).add(name)
        else:
            setattr(task, name, checked(name, value, parameter.check, task.task_id))


def is_given_later(task: BaseOperator, name: str) -> bool:
    """Return whether the value of a parameter was known only at run time: a template, or an output of a task."""
    return name in vars(task).get("later_parameters", ())


def check_rendered(task: BaseOperator, context: Context) -> None:
    """
    Check all parameters after Airflow has rendered the templates, and convert them to the types that are used.

    :raises AssistantInputError: A parameter is invalid, or it was given and is empty. Nothing was sent.
    """
    for name, parameter in _parameters_of(type(task)).items():
        given = vars(task)["given_parameters"].get(name)
        value = getattr(task, name)
        if given is None and value is None and parameter.is_optional:
            continue
        if parameter.check in TEXTS:
            value = _as_text(task, given, value, context)
        is_rendered = isinstance(given, str) and is_template(given)
        if is_rendered and value == "None":
            # The text of a template without a value.
            value = None
        try:
            setattr(task, name, checked(name, value, parameter.check, task.task_id))
        except AssistantInputError as error:
            if not is_rendered:
                raise
            raise AssistantInputError(str(error), todo=f"Its template is {given!r}.", field=name) from None
        if parameter.check is parameters.folder:
            check_folder(getattr(task, name), name)


def _as_text(task: BaseOperator, given: Any, rendered: Any, context: Context) -> Any:
    """Return the text of what Airflow rendered as a native object, such as ``"1.10"`` as the number 1.1."""
    if isinstance(given, Mapping) and isinstance(rendered, Mapping):
        return {name: _as_text(task, given.get(name), item, context) for name, item in rendered.items()}
    are_lists = isinstance(given, list | tuple) and isinstance(rendered, list | tuple)
    if are_lists and len(given) == len(rendered):
        texts = []
        for given_item, rendered_item in zip(given, rendered, strict=True):
            texts.append(_as_text(task, given_item, rendered_item, context))
        return texts
    if not isinstance(given, str) or isinstance(rendered, str) or rendered is None:
        return rendered
    if not is_template(given):
        return given
    if not isinstance(rendered, int | float) or not task.has_dag():
        return rendered
    # The environment that Airflow uses in a DAG without native objects.
    environment = task.get_dag().get_template_env(force_sandboxed=True)  # type: ignore[union-attr]  # it has a DAG
    return environment.from_string(given).render(context)


@functools.cache
def _parameters_of(kind: type[BaseOperator]) -> Mapping[str, _Parameter]:
    """Return the parameters of a class of tasks and of its bases, by name."""
    parameter_by_name: dict[str, _Parameter] = {}
    # From the outermost base to the class itself, whose checks replace those of its bases.
    for base in reversed(kind.__mro__):
        checks: Checks = vars(base).get("parameter_checks", {})
        for name, check in checks.items():
            default = inspect.signature(base.__init__).parameters[name].default  # type: ignore[misc]  # the class's own
            parameter_by_name[name] = _Parameter(check, is_optional=default is None)
    return parameter_by_name


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
