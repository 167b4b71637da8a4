"""
Build the connection form for Airflow 3.1, which calls the hook for it.

Airflow 3.2 and later read the form from :mod:`airflow_provider_assistant.provider_info`. This module converts the same
declaration, so that both forms have the same fields.
"""

from __future__ import annotations

from typing import Any

from airflow_provider_assistant.provider_info import get_provider_info


def widgets() -> dict[str, Any]:
    """
    Return the fields of the extra as WTForms fields, by name.

    The form does not validate values: an invalid one is an error when a task uses the connection.
    """
    from wtforms import BooleanField, IntegerField, StringField

    # Airflow 3.1 supports only these field types and passwords, so a number of seconds is a text field.
    kinds = {"boolean": BooleanField, "integer": IntegerField, "number": StringField, "string": StringField}
    return {
        name: kinds[field["schema"]["type"][0]](
            field["label"], description=field["description"], default=field["schema"].get("default")
        )
        for name, field in _declared()["conn-fields"].items()
    }


def behaviour() -> dict[str, Any]:
    """Return Airflow's ``ui_field_behaviour``: ``hidden_fields``, ``relabeling`` and ``placeholders``."""
    return {name.replace("-", "_"): value for name, value in _declared()["ui-field-behaviour"].items()}


def _declared() -> dict[str, Any]:
    (declared,) = get_provider_info()["connection-types"]
    return dict(declared)
