"""
The extra of an ``assistant`` connection: one model for the values, the form and the table in the documentation.

Airflow reads the form in every process, so this module imports nothing of Airflow and little of this package.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator


def _no_flag(value: Any) -> Any:
    # Pydantic takes true for 1.
    if isinstance(value, bool):
        raise ValueError("must be a number")  # noqa: TRY004 (pydantic expects it)
    return value


def _words(value: Any) -> Any:
    """Return the words of a text such as ``done, finished`` or ``["done"]``, because the form has a text field."""
    return re.findall(r"""[^\s,;"'\[\]]+""", value) if isinstance(value, str) else value


# At most a day: asyncio and sockets fail far beyond it.
_Seconds: TypeAlias = Annotated[float, Field(ge=0.1, le=86_400, allow_inf_nan=False), BeforeValidator(_no_flag)]
_Retries: TypeAlias = Annotated[int, Field(ge=0, le=100), BeforeValidator(_no_flag)]
_InFlight: TypeAlias = Annotated[int, Field(ge=1, le=10_000), BeforeValidator(_no_flag)]
_Words: TypeAlias = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(_words)]
# What the form shows of Airflow's own fields, in the format of ``ui-field-behaviour``.
STANDARD_FIELDS: dict[str, Any] = {
    "hidden-fields": ["schema", "login", "port"],
    "relabeling": {"host": "Base URL", "password": "API key"},
    "placeholders": {"host": "https://assistant.example.com/api/v1"},
}
# Names in the form that do not follow from those of the fields.
_TITLES = {
    "timeout": "Timeout (s)",
    "chat_timeout": "Chat timeout (s)",
    "verify": "Verify TLS",
    "ca_bundle": "CA bundle",
    "client_cert": "Client certificate",
    "complete_words": "Status words: complete",
    "failed_words": "Status words: failed",
}


class ConnectionExtra(BaseModel):
    """The fields in the extra of a connection. A field that is empty has its default."""

    model_config = ConfigDict(frozen=True, str_strip_whitespace=True, coerce_numbers_to_str=True)

    tenant_id: str | None = Field(None, description="Tenant of operators without tenant_id.")
    site_id: str | None = Field(None, description="Site of operators without site_id.")
    service_name: str | None = Field(
        None,
        max_length=100,
        pattern=r"^[^\x00-\x1f\x7f]+$",
        description="Short name of the service, which identifies its sites in the ledger and is the column service of "
        "all datasets: it tells staging from production, and stays the same when the address changes. Default: the "
        "host of the base URL.",
    )
    timeout: _Seconds = Field(
        30.0, description="Longest time in seconds from the end of a request to the last byte of its response."
    )
    chat_timeout: _Seconds = Field(
        90.0, description="The same for a sync chat (POST …/chat), whose response is the answer."
    )
    retries: _Retries = Field(4, description="Maximum number of retries per request after a 5xx or a missing response.")
    max_concurrency: _InFlight = Field(
        32, description="Maximum number of requests in flight of a task, or of a whole triggerer."
    )
    verify: bool = Field(True, description="Whether to verify the certificate of the service.")
    ca_bundle: str | None = Field(None, description="Path of the trusted CA certificates: a file in PEM format.")
    client_cert: str | None = Field(
        None, description="Path of the client certificate in PEM format, for a service that requires one."
    )
    client_key: str | None = Field(
        None, description="Path of its private key, without a password. Default: the file of the certificate."
    )
    complete_words: _Words = Field((), description="Further status words of a complete async chat.")
    failed_words: _Words = Field((), description="Further status words of a failed async chat.")
    manage_documents: Any = Field(
        None,
        description="Whether tasks may list, activate, deactivate and delete documents: true, or their routes as "
        "JSON. Default: they may not.",
    )

    @model_validator(mode="before")
    @classmethod
    def _drop_empty(cls, extra: dict[str, Any]) -> dict[str, Any]:
        # The connection form sends an empty string for an empty field; pasted text may end in a line break.
        stripped = {name: value.strip() if isinstance(value, str) else value for name, value in extra.items()}
        return {name: value for name, value in stripped.items() if value not in ("", None)}


def title_of(name: str) -> str:
    """Return the name of a field in the form."""
    return _TITLES.get(name) or name.removesuffix("_id").replace("_", " ").capitalize()


def form_fields() -> dict[str, dict[str, Any]]:
    """Return the extra fields of the connection form, in the format of Airflow's ``conn-fields``."""
    fields = {}
    for name, schema in ConnectionExtra.model_json_schema()["properties"].items():
        kind = schema.get("type")
        rules = {rule: schema[rule] for rule in ("minimum", "maximum") if rule in schema}
        if kind == "boolean":
            # An unchecked box means false.
            rules["default"] = schema["default"]
        elif kind not in {"integer", "number"}:
            kind = "string"
        description = schema["description"]
        if "minimum" in rules:
            description += f" Default: {schema['default']:g}."
        fields[name] = {
            "label": title_of(name),
            "description": description,
            "schema": {"type": [kind, "null"], **rules},
        }
    return fields


def form_widgets() -> dict[str, Any]:
    """Return the extra fields as WTForms fields, for the connection form of Airflow 3.1."""
    from wtforms import BooleanField, IntegerField, StringField

    # Airflow 3.1 supports only these types and passwords, so a number of seconds is a text field.
    kinds = {"boolean": BooleanField, "integer": IntegerField}
    widgets = {}
    for name, field in form_fields().items():
        schema = field["schema"]
        widget = kinds.get(schema["type"][0], StringField)
        widgets[name] = widget(field["label"], description=field["description"], default=schema.get("default"))
    return widgets
