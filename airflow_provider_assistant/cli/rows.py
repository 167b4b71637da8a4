"""Open the rows of a file by the arguments of a command. Shared by several commands."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from os import getpid
from os.path import abspath
from typing import Any, NamedTuple

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.api.payloads import Payload, QADocument, TextDocument
from airflow_provider_assistant.api.replies import CreatedDocument
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.ledger import Kind, RunRef, Scope
from airflow_provider_assistant.loading.fields import columns_to_read, mapping_of
from airflow_provider_assistant.loading.rows import TableRows
from airflow_provider_assistant.tables import read_rows


class DocumentKind(NamedTuple):
    """
    Kind of document that a row becomes.

    :param call: Function that returns the call for a site and a document.
    """

    kind: Kind
    payload: type[Payload]
    call: Callable[[str, Any], Call[CreatedDocument]]


KINDS = {
    "qa": DocumentKind("qa", QADocument, endpoints.create_qa_document),
    "text": DocumentKind("text", TextDocument, endpoints.create_text_document),
}


def csv_options(args: argparse.Namespace) -> dict[str, Any]:
    """
    Return the format of files that the arguments contain.

    :raises AssistantInputError: An option does not look like ``NAME=VALUE``.
    """
    options: dict[str, Any] = dict(pairs("--csv-option", args.csv_option, may_be_empty=True))
    if args.encoding:
        options["encoding"] = args.encoding
    if "header" in options:
        options["header"] = False if options["header"] == "none" else options["header"].split(",")
    if "null_texts" in options:
        options["null_texts"] = options["null_texts"].split(",")
    return options


def rows_of(file: str, args: argparse.Namespace, site_id: str) -> TableRows:
    """
    Return the rows of a file as the load operators read it, so that they have the same keys and content hashes.

    :param file: Path, glob, folder or object storage URL.
    :raises AssistantInputError: The arguments do not fit a document.
    """
    kind = KINDS[args.kind]
    constants = pairs("--constant", args.constant)
    columns = mapping_of(kind.payload, pairs("--column", args.column), constants)
    key_columns = args.key or []
    group_columns = args.group or []
    selected = columns_to_read(kind.payload, columns, [*key_columns, *group_columns])
    return TableRows(
        read_rows(file, selected, csv_options=csv_options(args), allow_empty=args.allow_empty),
        payload=kind.payload,
        columns=columns,
        constants=constants,
        key_columns=key_columns,
        group_columns=group_columns,
        call=lambda document: kind.call(site_id, document),
        allow_empty=args.allow_empty,
    )


def document_scope(hook: AssistantHook, args: argparse.Namespace) -> Scope:
    """Return the scope of the ledger to which the rows belong."""
    return Scope(hook.site(), KINDS[args.kind].kind, args.namespace)


def source_name(args: argparse.Namespace) -> str:
    """Return the name of the source in the ledger: ``--source-name``, else the absolute path or URL of the file."""
    if args.source_name:
        return str(args.source_name)
    file = str(args.file).removeprefix("file://")
    if "://" not in file:
        # Path.resolve() would follow links, such as one to the newest export.
        return abspath(file)  # noqa: PTH100
    protocol, _, path = file.rstrip("/").partition("://")
    # Before an at sign is the connection.
    host, slash, path_in_host = path.partition("/")
    return f"{protocol}://{host.rpartition('@')[2]}{slash}{path_in_host}"


def command_run() -> RunRef:
    """
    Return the run that the ledger records for a command, with a new id. Call it once per command.

    A command has no task instance: the ledger records these names instead.
    """
    run_id = f"cli__{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}__{getpid()}"
    return RunRef(dag_id="airflow assistant", run_id=run_id, task_id="load", map_index=-1)


def pairs(flag: str, given: Sequence[str] | None, *, may_be_empty: bool = False) -> dict[str, str]:
    """
    Return the values of a repeatable argument ``NAME=VALUE``.

    :param flag: The argument, for messages.
    :param may_be_empty: Whether a value may be empty.
    :raises AssistantInputError: A value has another form, or a name is repeated.
    """
    value_by_name: dict[str, str] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not (name and equals and (value or may_be_empty)):
            raise AssistantInputError(f"{flag} must look like NAME=VALUE, not {text!r}", field=flag)
        if name in value_by_name:
            raise AssistantInputError(f"{flag} names {name} twice", field=flag)
        value_by_name[name] = value
    return value_by_name
