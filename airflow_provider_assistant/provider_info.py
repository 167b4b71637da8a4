"""The provider's metadata for Airflow, importable without Airflow and most of the package."""

from __future__ import annotations

from typing import Any

from airflow_provider_assistant import __version__
from airflow_provider_assistant.hooks.extra import STANDARD_FIELDS, form_fields

# The same URL as in pyproject.toml. Airflow links to it and loads the logo from it.
DOCUMENTATION = "https://airflow-provider-assistant.readthedocs.io/"


def get_provider_info() -> dict[str, Any]:
    """
    Return the provider's metadata.

    :return: Mapping in the format of Airflow's ``provider_info.schema.json``.
    """
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
                        "chat",
                        "chat_batch",
                        "documents",
                        "evaluation",
                        "feedback",
                        "feedback_batch",
                        "limits",
                        "submit_chat",
                    )
                ],
            }
        ],
        "transfers": [
            {
                "source-integration-name": "Assistant",
                "target-integration-name": "Assistant",
                "python-module": f"{package}.transfers.{module}",
            }
            for module in (
                "ledger_to_parquet",
                "limits_to_parquet",
                "parquet_to_iceberg",
                "parquet_to_warehouse",
                "read_to_parquet",
                "statistics_to_parquet",
            )
        ],
        "sensors": [
            {
                "integration-name": "Assistant",
                "python-modules": [f"{package}.sensors.{module}" for module in ("chat", "documents")],
            }
        ],
        "triggers": [
            {
                "integration-name": "Assistant",
                "python-modules": [f"{package}.triggers.{module}" for module in ("chat", "chat_batch")],
            }
        ],
        "extra-links": [
            f"{package}.operators.links.{link}"
            for link in ("AssistantDataLink", "AssistantFindingsLink", "AssistantReportLink", "AssistantRequestLink")
        ],
        "asset-uris": [
            {
                "schemes": ["assistant"],
                "handler": f"{package}.assets.sanitize_uri",
                "factory": f"{package}.assets.assistant_asset",
                "to_openlineage_converter": f"{package}.assets.convert_asset_to_openlineage",
            }
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
        "ui-field-behaviour": STANDARD_FIELDS,
        "conn-fields": form_fields(),
    }


def _configuration() -> dict[str, Any]:
    return {
        "assistant": {
            "description": "Options of the Assistant provider.",
            "options": {
                "ledger_conn_id": {
                    "description": (
                        "SQL connection of the ledger, the record of everything that was created at the service. "
                        "Required if workers run on more than one machine. If empty, the ledger is the SQLite file "
                        "assistant_ledger.db in AIRFLOW_HOME."
                    ),
                    "version_added": "0.1.0",
                    "type": "string",
                    "example": "assistant_ledger",
                    "default": "",
                },
                "lease_seconds": {
                    "description": (
                        "Time in seconds, from 5 to 3600, after which a load or chat batch that writes no heartbeat to "
                        "the ledger counts as dead. Other runs then take over the rows that it had in flight."
                    ),
                    "version_added": "0.1.0",
                    "type": "float",
                    "example": "120",
                    "default": "60",
                },
                "ledger_file_is_shared": {
                    "description": (
                        "Whether all workers use the same SQLite file as their ledger. If False, tasks of a "
                        "distributed executor, such as CeleryExecutor, fail instead of creating one ledger per machine."
                    ),
                    "version_added": "0.1.0",
                    "type": "boolean",
                    "example": None,
                    "default": "False",
                },
                "findings_folder": {
                    "description": (
                        "Folder for the findings of tasks without findings_path: a local path or an object storage "
                        "URL. Set it if AIRFLOW_HOME of a worker is deleted after a task, as in a pod. If empty, the "
                        "folder is assistant_loads in AIRFLOW_HOME."
                    ),
                    "version_added": "0.1.0",
                    "type": "string",
                    "example": "s3://aws_default@my-bucket/findings",
                    "default": "",
                },
                "lake_path": {
                    "description": (
                        "Folder of the datasets, as in output_path of the exports and lake_path of evaluations: a "
                        "local path or an object storage URL. Only the API server reads it, for the trends on the "
                        "page Assistant. If empty, the page shows no evaluations, statistics and limits."
                    ),
                    "version_added": "0.1.0",
                    "type": "string",
                    "example": "s3://aws_default@my-bucket/lake",
                    "default": "",
                },
            },
        }
    }
