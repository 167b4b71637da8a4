"""Libraries of the extra ``evaluation``: asked for when they are needed, not when a DAG file is read."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from airflow_provider_assistant.exceptions import AssistantInputError


def needs(module: str) -> Any:
    """
    Return a module of a library of the extra.

    :param module: Its full name, such as ``rapidfuzz.fuzz``.
    :raises AssistantInputError: It is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        raise AssistantInputError(
            f"{library} is not installed ({error}): pip install 'airflow-provider-assistant[evaluation]'"
        ) from error
