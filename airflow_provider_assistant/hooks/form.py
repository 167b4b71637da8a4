"""
The connection form for Airflow 3.1, which asks the hook for it.

From Airflow 3.2 on it is read from :mod:`airflow_provider_assistant.provider_info` alone, of which this is a
translation.
"""

from __future__ import annotations

from typing import Any

from airflow_provider_assistant.provider_info import get_provider_info


def widgets() -> dict[str, Any]:
    """Return the fields of the extra as WTForms fields; a bad value is an error when the connection is used."""
    from wtforms import BooleanField, IntegerField, StringField

    # Airflow 3.1 knows these kinds and passwords only, so seconds are typed as text.
    kinds = {"boolean": BooleanField, "integer": IntegerField, "number": StringField, "string": StringField}
    return {
        name: kinds[field["schema"]["type"][0]](
            field["label"], description=field["description"], default=field["schema"].get("default")
        )
        for name, field in _declared()["conn-fields"].items()
    }


def behaviour() -> dict[str, Any]:
    """Return which of Airflow's own fields are hidden, and how the others are called."""
    return {name.replace("-", "_"): value for name, value in _declared()["ui-field-behaviour"].items()}


def _declared() -> dict[str, Any]:
    (declared,) = get_provider_info()["connection-types"]
    return dict(declared)
