"""Airflow assets of an assistant, with URIs of the form ``assistant://host/site/kind``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args
from urllib.parse import SplitResult, quote

from airflow.providers.common.compat.sdk import Asset

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.observability.lineage import dataset_name

if TYPE_CHECKING:
    from airflow.providers.common.compat.openlineage.facet import Dataset

AssetKind: TypeAlias = Literal["documents", "chat", "feedback", "statistics"]
FORM = "assistant://host/site/kind, such as assistant://assistant.example.com/help/documents"


def assistant_asset(
    host: str, site: str, kind: AssetKind = "documents", *, extra: dict[str, Any] | None = None
) -> Asset:
    """
    Return the asset of a part of a site, for ``outlets`` and ``schedule``.

    :param host: Host of the service, with a port if it is not 443, as in the connection's base URL.
    :param kind: ``documents`` (written by loads), ``chat`` (questions), ``feedback`` (ratings) or ``statistics`` (read
        by exports). Default: ``documents``.
    :param extra: Extra of the asset. The extra of its events contains the counts. Default: none.
    :raises AssistantInputError: The kind is unknown, the site is empty, or the host is not a host name.
    """
    return Asset(uri=site_uri(host, site, kind), extra=extra)


def site_uri(host: str, site: str, kind: AssetKind) -> str:
    """Return the URI of a part of a site, such as ``assistant://assistant.example.com/help/documents``."""
    if not host or set(host) & set("/@?# "):
        raise AssistantInputError(
            "host must be a host name with an optional port, such as assistant.example.com, without scheme, user or "
            "path",
            field="host",
        )
    if not site:
        raise AssistantInputError("site must be the id of a site", field="site")
    if kind not in get_args(AssetKind):
        raise AssistantInputError(f"kind must be {', '.join(get_args(AssetKind))}, not {kind!r}", field="kind")
    return f"assistant://{_normal_host(host)}/{quote(site, safe='')}/{kind}"


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """Return the normalized form of an asset URI. Airflow calls this for every asset with the scheme ``assistant``."""
    if "@" in uri.netloc or uri.query:
        raise ValueError(f"an assistant's asset has neither user, key nor query: {FORM}")
    path = [part for part in uri.path.split("/") if part]
    if not uri.hostname or not path:
        raise ValueError(f"an assistant's asset names a host and a site: {FORM}")
    return uri._replace(netloc=_normal_host(uri.netloc), path="/" + "/".join(path))


def convert_asset_to_openlineage(asset: Asset, lineage_context: Any) -> Dataset:  # noqa: ARG001
    """Return the OpenLineage dataset of an asset, the same that loads and exports report. Airflow calls this."""
    from airflow.providers.common.compat.openlineage.facet import Dataset

    namespace, name = dataset_name(asset.uri)
    return Dataset(namespace=namespace, name=name)


def _normal_host(host: str) -> str:
    return host.lower().removesuffix(":443")
