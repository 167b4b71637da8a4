"""The provider's metadata for Airflow, importable without Airflow and most of the package."""

from __future__ import annotations

from typing import Any

from airflow_provider_assistant import __version__
from airflow_provider_assistant.hooks.extra import STANDARD_FIELDS, form_fields

PACKAGE = "airflow_provider_assistant"
# The same URL as in pyproject.toml. Airflow links to it and loads the logo from it.
DOCUMENTATION = "https://airflow-provider-assistant.readthedocs.io/"
MODULES = {
    "hooks": "assistant",
    "operators": "chat chat_batch documents evaluation feedback feedback_batch limits retention submit_chat",
    "sensors": "chat documents",
    "triggers": "chat chat_batch",
}
TRANSFERS = "ledger_to_parquet limits_to_parquet parquet_to_warehouse read_to_parquet statistics_to_parquet"
LINKS = "AssistantDataLink AssistantFindingsLink AssistantReportLink AssistantRequestLink"


def get_provider_info() -> dict[str, Any]:
    """Return the provider's metadata, in the format of Airflow's ``provider_info.schema.json``."""
    integration = {
        "integration-name": "Assistant",
        "external-doc-url": DOCUMENTATION,
        "logo": f"{DOCUMENTATION}en/stable/_static/logo.svg",
        "tags": ["service"],
    }
    connection_type = {
        "connection-type": "assistant",
        "hook-class-name": f"{PACKAGE}.hooks.assistant.AssistantHook",
        "hook-name": "Assistant",
        "ui-field-behaviour": STANDARD_FIELDS,
        "conn-fields": form_fields(),
    }
    assets = {
        "schemes": ["assistant"],
        "handler": f"{PACKAGE}.assets.sanitize_uri",
        "factory": f"{PACKAGE}.assets.assistant_asset",
        "to_openlineage_converter": f"{PACKAGE}.assets.convert_asset_to_openlineage",
    }
    info: dict[str, Any] = {
        "package-name": "airflow-provider-assistant",
        "name": "Assistant",
        "description": "A hosted assistant: load its knowledge base, chat, poll, export statistics and feedback.",
        "versions": [__version__],
        "integrations": [integration],
        "transfers": [
            {
                "source-integration-name": "Assistant",
                "target-integration-name": "Assistant",
                "python-module": f"{PACKAGE}.transfers.{module}",
            }
            for module in TRANSFERS.split()
        ],
        "extra-links": [f"{PACKAGE}.operators.links.{link}" for link in LINKS.split()],
        "asset-uris": [assets],
        "connection-types": [connection_type],
        "cli": [f"{PACKAGE}.cli.definition.get_cli_commands"],
        "config": {"assistant": {"description": "Options of the Assistant provider.", "options": _options()}},
    }
    for kind, modules in MODULES.items():
        names = [f"{PACKAGE}.{kind}.{module}" for module in modules.split()]
        info[kind] = [{"integration-name": "Assistant", "python-modules": names}]
    return info


def _options() -> dict[str, dict[str, Any]]:
    return {
        "ledger_conn_id": _option(
            "SQL connection of the ledger, the record of everything that was created at the service. Required if "
            "workers run on more than one machine. If empty, the ledger is the SQLite file assistant_ledger.db in "
            "AIRFLOW_HOME.",
            example="assistant_ledger",
        ),
        "lease_seconds": _option(
            "Time in seconds, from 5 to 3600, after which a load or chat batch that writes no heartbeat to the ledger "
            "counts as dead. Other runs then take over the rows that it had in flight.",
            kind="float",
            example="120",
            default="60",
        ),
        "ledger_file_is_shared": _option(
            "Whether all workers use the same SQLite file as their ledger. If False, tasks of a distributed executor, "
            "such as CeleryExecutor, fail instead of creating one ledger per machine.",
            kind="boolean",
            default="False",
        ),
        "findings_folder": _option(
            "Folder for the findings of tasks without findings_path: a local path or an object storage URL. Set it if "
            "AIRFLOW_HOME of a worker is deleted after a task, as in a pod. If empty, the folder is assistant_loads in "
            "AIRFLOW_HOME.",
            example="s3://aws_default@my-bucket/findings",
        ),
        "lake_path": _option(
            "Folder of the datasets, as in output_path of the exports and lake_path of evaluations: a local path or an "
            "object storage URL. Only the command airflow assistant erase reads it, which looks for a person there.",
            example="s3://aws_default@my-bucket/lake",
        ),
    }


def _option(description: str, *, kind: str = "string", example: str | None = None, default: str = "") -> dict[str, Any]:
    return {
        "description": description,
        "version_added": "0.1.0",
        "type": kind,
        "example": example,
        "default": default,
    }
