"""Open the rows of a file by the arguments of a command. Shared by several commands."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from os import getpid
from os.path import abspath
from typing import Any

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.payloads import Payload, QADocument, TextDocument
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.ledger import RunRef, Scope
from airflow_provider_assistant.loading.fields import columns_to_read, mapping_of
from airflow_provider_assistant.loading.rows import TableRows
from airflow_provider_assistant.tables import read_rows

# What a row becomes, and the call that creates it on a site.
KINDS: dict[str, tuple[type[Payload], Callable[[str, Any], Any]]] = {
    "qa": (QADocument, endpoints.create_qa_document),
    "text": (TextDocument, endpoints.create_text_document),
}


def csv_options(args: argparse.Namespace) -> dict[str, Any]:
    """
    Return the format of files that the arguments contain.

    :raises AssistantInputError: An option does not look like ``NAME=VALUE``.
    """
    options: dict[str, Any] = dict(pairs("--csv-option", args.csv_option, may_be_empty=True))
    if args.encoding:
        options["encoding"] = args.encoding
    for name in {"header", "null_texts"} & set(options):
        options[name] = options[name].split(",")
    if options.get("header") == ["none"]:
        options["header"] = False
    return options


def rows_of(args: argparse.Namespace, site_id: str) -> TableRows:
    """
    Return the rows of the file as the load operators read it, so that they have the same keys and content hashes.

    :raises AssistantInputError: The arguments do not fit a document.
    """
    payload, call = KINDS[args.kind]
    constants = pairs("--constant", args.constant)
    columns = mapping_of(payload, pairs("--column", args.column), constants)
    keys, groups = args.key or [], args.group or []
    selected = columns_to_read(payload, columns, [*keys, *groups])
    return TableRows(
        read_rows(args.file, selected, csv_options=csv_options(args), allow_empty=args.allow_empty),
        payload=payload,
        columns=columns,
        constants=constants,
        key_columns=keys,
        group_columns=groups,
        call=partial(call, site_id),
        allow_empty=args.allow_empty,
    )


def document_scope(hook: AssistantHook, args: argparse.Namespace) -> Scope:
    """Return the scope of the ledger to which the rows belong."""
    return Scope(hook.site(), args.kind, args.namespace)


def source_name(args: argparse.Namespace) -> str:
    """Return the name of the source in the ledger: ``--source-name``, else the absolute path or URL of the file."""
    if args.source_name:
        return str(args.source_name)
    file = str(args.file).removeprefix("file://")
    if "://" not in file:
        # Path.resolve() would follow links, such as one to the newest export.
        return abspath(file)  # noqa: PTH100
    protocol, _, path = file.rstrip("/").partition("://")
    host, *names = path.split("/")
    # Before an at sign is the connection.
    return "/".join([f"{protocol}://{host.rpartition('@')[2]}", *names])


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
