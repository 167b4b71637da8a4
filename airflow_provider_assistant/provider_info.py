"""What Airflow discovers about this provider, without importing the rest of it."""

from __future__ import annotations

from typing import Any

from airflow_provider_assistant import __version__

# The same address as in pyproject.toml: Airflow shows it, and the logo lies there.
DOCUMENTATION = "https://airflow-provider-assistant.readthedocs.io/"


def get_provider_info() -> dict[str, Any]:
    """Return the provider's metadata (Airflow's ``provider_info.schema.json``)."""
    package = "airflow_provider_assistant"
    return {
        "package-name": "airflow-provider-assistant",
        "name": "Assistant",
        "description": "A hosted assistant: load its knowledge base, chat, poll, export statistics and feedback.",
        "versions": [__version__],
        "integrations": [
            {
                "integration-name": "Assistant",
                "external-doc-url": DOCUMENTATION,
                "logo": f"{DOCUMENTATION}en/stable/_static/logo.svg",
                "tags": ["service"],
            }
        ],
        "hooks": [{"integration-name": "Assistant", "python-modules": [f"{package}.hooks.assistant"]}],
        "operators": [
            {
                "integration-name": "Assistant",
                "python-modules": [
                    f"{package}.operators.{module}"
                    for module in (
                        *("ask", "chat", "documents", "evaluation", "feedback", "operations", "statistics"),
                        "warehouse",
                    )
                ],
            }
        ],
        "sensors": [{"integration-name": "Assistant", "python-modules": [f"{package}.sensors.chat"]}],
        "triggers": [
            {
                "integration-name": "Assistant",
                "python-modules": [f"{package}.triggers.{module}" for module in ("batch", "chat")],
            }
        ],
        "extra-links": [
            f"{package}.operators.links.{link}"
            for link in ("AssistantDataLink", "AssistantReportLink", "AssistantRequestLink")
        ],
        "asset-uris": [
            {
                "schemes": ["assistant"],
                "handler": f"{package}.assets.sanitize_uri",
                "factory": f"{package}.assets.assistant_asset",
                "to_openlineage_converter": f"{package}.assets.convert_asset_to_openlineage",
            }
        ],
        "task-decorators": [
            {"name": name, "class-name": f"{package}.decorators.{name}_task"}
            for name in ("assistant_ask", "assistant_qa")
        ],
        "connection-types": [_connection_type(f"{package}.hooks.assistant.AssistantHook")],
        "cli": [f"{package}.cli.definition.get_cli_commands"],
        "config": _configuration(),
    }


def _connection_type(hook_class_name: str) -> dict[str, Any]:
    return {
        "connection-type": "assistant",
        "hook-class-name": hook_class_name,
        "hook-name": "Assistant",
        "ui-field-behaviour": {
            "hidden-fields": ["schema", "login", "port"],
            "relabeling": {"host": "Base URL", "password": "API key"},
            "placeholders": {"host": "https://assistant.example.com/api/v1"},
        },
        "conn-fields": {
            "tenant_id": _field("Tenant", "Workspace that limits are read from.", "string"),
            "site_id": _field("Site", "Website or chatbot used where an operator names none.", "string"),
            "timeout": _field(
                "Timeout (s)", "Seconds until an answer is complete; 30 if empty.", "number", minimum=0.1
            ),
            "retries": _field("Retries", "Repetitions of one request at most; 4 if empty.", "integer", minimum=0),
            "max_concurrency": _field(
                "Max concurrency", "Requests in flight at most; 32 if empty.", "integer", minimum=1
            ),
            "verify": {
                "label": "Verify TLS",
                "description": "Verify the service's certificate.",
                "schema": {"type": ["boolean", "null"], "default": True},
            },
            "ca_bundle": _field("CA bundle", "Path of the certificates to verify with.", "string"),
            "max_response_bytes": _field(
                "Max response (bytes)", "Largest body of an answer; 16777216 if empty.", "integer", minimum=1024
            ),
            "complete_words": _field(
                "Status words: complete",
                "Further words, by commas, that mean an async chat is complete.",
                "string",
            ),
            "failed_words": _field(
                "Status words: failed",
                "Further words, by commas, that mean an async chat has failed.",
                "string",
            ),
        },
    }


def _field(label: str, description: str, kind: str, **rules: float) -> dict[str, Any]:
    return {"label": label, "description": description, "schema": {"type": [kind, "null"], **rules}}


def _configuration() -> dict[str, Any]:
    return {
        "assistant": {
            "description": "Options of the Assistant provider.",
            "options": {
                "ledger_conn_id": {
                    "description": (
                        "SQL connection of the ledger, the record of what was created at the service. Workers on "
                        "more than one machine need one. If empty, the ledger is assistant_ledger.db in "
                        "AIRFLOW_HOME."
                    ),
                    "version_added": "0.1.0",
                    "type": "string",
                    "example": "assistant_ledger",
                    "default": "",
                },
            },
        }
    }
