"""Open the rows of a file by the arguments of a command. Shared by several commands."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from os import getpid
from os.path import abspath
from typing import Any, NamedTuple

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.call import Call
from airflow_provider_assistant.api.payloads import Payload
from airflow_provider_assistant.api.replies import CreatedDocument
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.ledger import DocumentScope, RunRef
from airflow_provider_assistant.loading.columns import ColumnSelection
from airflow_provider_assistant.loading.field_columns import mapping_of, wanted_columns
from airflow_provider_assistant.loading.fingerprints import RowFingerprint, check_count, groups_of
from airflow_provider_assistant.loading.groups import SeenGroups
from airflow_provider_assistant.loading.rows import DataframeRows
from airflow_provider_assistant.loading.sources import open_source
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator, AssistantLoadTextOperator


class DocumentKind(NamedTuple):
    """
    Kind of document that a row becomes.

    :param endpoint: Path of the route below the site, such as ``documents/qa``.
    :param call: Function that returns the call for a site and a document.
    """

    payload: type[Payload]
    endpoint: str
    call: Callable[[str, Any], Call[CreatedDocument]]


KINDS = {
    "qa": DocumentKind(
        payload=AssistantLoadQAOperator.payload,
        endpoint=AssistantLoadQAOperator.endpoint,
        call=endpoints.create_qa_document,
    ),
    "text": DocumentKind(
        payload=AssistantLoadTextOperator.payload,
        endpoint=AssistantLoadTextOperator.endpoint,
        call=endpoints.create_text_document,
    ),
}


def csv_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options of the format that the arguments contain."""
    header = args.header
    if header is not None:
        header = False if header == "none" else header.split(",")
    options = {
        "format": args.format,
        "delimiter": args.delimiter,
        "encoding": args.encoding,
        "quote": args.quote,
        "escape": args.escape,
        "header": header,
        "skip_lines": args.skip_lines,
        "null_texts": args.null_text,
        "skip_blanks_after_delimiter": args.skip_blanks,
    }
    return {name: value for name, value in options.items() if value is not None}


@contextlib.contextmanager
def rows_of(file: str, args: argparse.Namespace, site_id: str) -> Iterator[DataframeRows]:
    """
    Open a file like the load operators, so that its rows have the same keys and content hashes.

    :param file: Path, glob, folder or object storage URL.
    :return: The rows, while the ``with`` block is open.
    :raises AssistantInputError: The file does not exist, or a column is missing.
    """
    kind = KINDS[args.kind]
    constants = pairs("--constant", args.constant)
    columns = mapping_of(kind.payload, pairs("--column", args.column), constants)
    key_columns = args.key or []
    # Not every command has --group.
    group_columns = getattr(args, "group", None) or []
    read_columns = wanted_columns(kind.payload, columns, [*key_columns, *group_columns])
    with open_source(file, read_columns, csv_options=csv_options(args), allow_empty=args.allow_empty) as source:
        yield DataframeRows(
            source,
            payload=kind.payload,
            columns=columns,
            constants=constants,
            key_columns=key_columns,
            group_columns=group_columns,
            call=lambda document: kind.call(site_id, document),
            allow_empty=args.allow_empty,
        )


def document_scope(hook: AssistantHook, args: argparse.Namespace) -> DocumentScope:
    """Return the scope of the ledger to which the rows belong."""
    return DocumentScope(hook.site(), KINDS[args.kind].endpoint, args.namespace)


def gone_groups(file: str, args: argparse.Namespace) -> Sequence[int]:
    """
    Return the keys of the groups that a file names. Only its group columns are read.

    :raises AssistantInputError: The file does not exist or has no rows, a column is missing, or a row names no group.
    """
    group_columns = tuple(args.group)
    seen_groups = SeenGroups()
    read_columns = ColumnSelection(text=(), any=group_columns)
    with open_source(file, read_columns, csv_options=csv_options(args), allow_empty=args.allow_empty) as source:
        row_count = 0
        for batch in source.batches():
            row_count += len(batch)
            groups, problems = groups_of(batch.columns, group_columns)
            problems |= batch.problems_of(group_columns)
            for position, problem in problems.items():
                raise AssistantInputError(f"{batch.place(position)}: {problem}", field="file")
            # Only the groups count: these rows have no keys.
            fingerprints = [RowFingerprint("", "", group) for group in groups]
            seen_groups.add(fingerprints)
        check_count(row_count, args.allow_empty)
    return seen_groups.complete()


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


def this_run() -> RunRef:
    """Return the run that the ledger records for this command. Its id is unique."""
    # A command has no task instance: the ledger records these names instead.
    run_id = f"cli__{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}__{getpid()}"
    return RunRef(dag_id="airflow assistant", run_id=run_id, task_id="load", map_index=-1)


def pairs(flag: str, given: Sequence[str] | None) -> dict[str, str]:
    """
    Return the values of a repeatable argument ``NAME=VALUE``.

    :param flag: The argument, for messages.
    :raises AssistantInputError: A value has another form, or a name is repeated.
    """
    value_by_name: dict[str, str] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise AssistantInputError(f"{flag} must look like NAME=VALUE, not {text!r}", field=flag)
        if name in value_by_name:
            raise AssistantInputError(f"{flag} names {name} twice", field=flag)
        value_by_name[name] = value
    return value_by_name
