"""From the arguments that say which rows a file has to rows; shared by loading them and by looking for them."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from os import getpid
from typing import Any, NamedTuple

from airflow_provider_assistant.api import endpoints
from airflow_provider_assistant.api.models import Payload
from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.ledger import RunRef
from airflow_provider_assistant.loading.rows import DataframeRows, mapping_of, wanted_columns
from airflow_provider_assistant.loading.source import open_source
from airflow_provider_assistant.operators.documents import AssistantLoadQAOperator, AssistantLoadTextOperator


class Kind(NamedTuple):
    """What a row becomes."""

    payload: type[Payload]
    endpoint: str
    call: Any


KINDS = {
    "qa": Kind(AssistantLoadQAOperator.payload, AssistantLoadQAOperator.endpoint, endpoints.create_qa_document),
    "text": Kind(AssistantLoadTextOperator.payload, AssistantLoadTextOperator.endpoint, endpoints.create_text_document),
}


@contextlib.contextmanager
def rows_of(file: str, args: argparse.Namespace, site_id: str) -> Iterator[DataframeRows]:
    """
    Open a file as the load operators do, so that its rows have the same keys and contents.

    :raises AssistantInputError: There is no such file, or it has not the columns.
    """
    kind = KINDS[args.kind]
    constants = _pairs("--constant", args.constant)
    columns = mapping_of(kind.payload, _pairs("--column", args.column), constants)
    keys = args.key or []
    csv_options = {"delimiter": args.delimiter, "encoding": args.encoding, "quote": args.quote}
    options: dict[str, Any] = {"csv_options": csv_options, "allow_empty": args.allow_empty}
    with open_source(file, wanted_columns(kind.payload, columns, keys), **options) as source:
        yield DataframeRows(
            source,
            payload=kind.payload,
            columns=columns,
            constants=constants,
            key_columns=keys,
            call=lambda document: kind.call(site_id, document),
            allow_empty=args.allow_empty,
        )


def source_name(args: argparse.Namespace) -> str:
    """Return the source's name in the ledger."""
    return str(args.source_name or args.file.rstrip("/").rpartition("/")[2] or args.file)


def this_run() -> RunRef:
    """Return what the ledger calls this command: no task, and not the same twice."""
    return RunRef("airflow assistant", f"cli__{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}__{getpid()}", "load", -1)


def _pairs(flag: str, given: Sequence[str] | None) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise AssistantInputError(f"{flag} must look like NAME=VALUE, not {text!r}", field=flag)
        if name in pairs:
            raise AssistantInputError(f"{flag} names {name} twice", field=flag)
        pairs[name] = value
    return pairs
