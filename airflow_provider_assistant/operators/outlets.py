"""Tell the outlets of a task its result: each kind of asset gets an event with it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from airflow.providers.common.compat.sdk import Asset, AssetAlias, Context
from airflow.sdk import AssetAll, AssetAny
from airflow.sdk.definitions.asset import AssetRef

from airflow_provider_assistant.observability.lineage import dataset_name

log = logging.getLogger(__name__)


def single_outlets(outlets: Iterable[Any]) -> Iterator[Any]:
    """Return the outlets one by one: Airflow itself ignores those in lists and in expressions such as ``a & b``."""
    for outlet in outlets:
        if isinstance(outlet, AssetAll | AssetAny):
            yield from single_outlets(outlet.objects)
        elif isinstance(outlet, list | tuple | set):
            yield from single_outlets(outlet)
        else:
            yield outlet


def tell_outlets(context: Context, outlets: Iterable[Any], result: Mapping[str, Any], written: Iterable[str]) -> None:
    """
    Set the result of a task as the extra of the events of its outlets.

    :param written: URIs of what the task wrote; they become the assets of an alias.
    """
    for outlet in outlets:
        if isinstance(outlet, AssetAlias):
            for uri in dict.fromkeys(written):
                context["outlet_events"][outlet].add(Asset(uri=uri), extra=dict(result))
        elif isinstance(outlet, Asset | AssetRef):
            try:
                context["outlet_events"][outlet].extra = dict(result)
            except Exception as error:  # noqa: BLE001 (Airflow's errors differ; what the task did is done)
                log.warning("%r gets no event, because Airflow does not know it: %s", outlet, error)


def asset_uri_of(written: str) -> str:
    """
    Return the URI that a file, folder or table has as an asset of Airflow.

    :param written: As in :class:`.LineageDataset`.
    """
    namespace, name = dataset_name(written)
    if namespace == "file":
        return f"file://{name}"
    if urlsplit(namespace).scheme == "postgres":
        # Airflow's form: host, database, schema and table.
        name = name.replace(".", "/")
    return f"{namespace}/{name}"
