"""Import libraries of the extra ``evaluation`` on first use, not when a DAG file is parsed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from airflow_provider_assistant.exceptions import AssistantInputError


def check_extra() -> None:
    """Raise like :func:`require_extra` if a library is missing without which no evaluation works."""
    require_extra("numpy")


def require_extra(module: str) -> Any:
    """
    Import a module of a library of the extra ``evaluation``.

    :param module: Full name of the module, such as ``rapidfuzz.fuzz``.
    :raises AssistantInputError: The library is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        raise AssistantInputError(
            f"{library} is not installed ({error})",
            todo="Run pip install 'airflow-provider-assistant[evaluation]'.",
        ) from error
