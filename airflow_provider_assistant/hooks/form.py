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
    field_class_by_type = {
        "boolean": BooleanField,
        "integer": IntegerField,
        "number": StringField,
        "string": StringField,
    }
    widget_by_name = {}
    for name, declaration in _declared()["conn-fields"].items():
        schema = declaration["schema"]
        # The second type is null, because each field may be empty.
        field_class = field_class_by_type[schema["type"][0]]
        widget_by_name[name] = field_class(
            declaration["label"],
            description=declaration["description"],
            default=schema.get("default"),
        )
    return widget_by_name


def behaviour() -> dict[str, Any]:
    """Return Airflow's ``ui_field_behaviour``: ``hidden_fields``, ``relabeling`` and ``placeholders``."""
    declared_behaviour = _declared()["ui-field-behaviour"]
    return {name.replace("-", "_"): value for name, value in declared_behaviour.items()}


def _declared() -> dict[str, Any]:
    """Return the declaration of the provider's only connection type."""
    (connection_type,) = get_provider_info()["connection-types"]
    return dict(connection_type)
