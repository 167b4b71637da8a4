"""Assets of an assistant: ``assistant://host/site/kind``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args
from urllib.parse import SplitResult, quote

from airflow.providers.common.compat.sdk import Asset

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.lineage import dataset_name

if TYPE_CHECKING:
    from airflow.providers.common.compat.openlineage.facet import Dataset

Kind: TypeAlias = Literal["documents", "chat", "feedback", "statistics"]
FORM = "assistant://host/site/kind, such as assistant://assistant.example.com/help/documents"
HTTPS_PORT = ":443"


def assistant_asset(host: str, site: str, kind: Kind = "documents", *, extra: dict[str, Any] | None = None) -> Asset:
    """
    Return the asset that stands for a part of a site: for ``outlets`` and ``schedule``.

    :param host: The service's host, with its port if it has one, as in the connection's base URL.
    :param site: The site.
    :param kind: ``documents``, what loads write; ``chat``, what is asked; ``feedback``, ratings; or ``statistics``,
        what exports read.
    :param extra: Extra of the asset itself. That of its events are the counts.
    :raises AssistantInputError: There is no such part, or the host is a URL.
    """
    return Asset(uri=site_uri(host, site, kind), extra=extra)


def site_uri(host: str, site: str, kind: Kind) -> str:
    """Return the URI of a part of a site; the parameters are those of :func:`assistant_asset`."""
    if not host or set(host) & set("/@?# "):
        raise AssistantInputError(
            "host must be a host name, with its port if it has one, such as assistant.example.com: no URL, no user, "
            "no path",
            field="host",
        )
    if not site:
        raise AssistantInputError("site must be the id of a site", field="site")
    if kind not in get_args(Kind):
        raise AssistantInputError(f"kind must be {', '.join(get_args(Kind))}, not {kind!r}", field="kind")
    return f"assistant://{_normal_host(host)}/{quote(site, safe='')}/{kind}"


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """
    Return a URI in the one form by which Airflow knows the asset.

    :param uri: A URI with scheme ``assistant``, split.
    :raises ValueError: It names no host or no site, or has a user or a query.
    """
    if "@" in uri.netloc or uri.query:
        raise ValueError(f"an assistant's asset has neither user, key nor query: {FORM}")
    path = [part for part in uri.path.split("/") if part]
    if not uri.hostname or not path:
        raise ValueError(f"an assistant's asset names a host and a site: {FORM}")
    return uri._replace(netloc=_normal_host(uri.netloc), path="/" + "/".join(path))


def convert_asset_to_openlineage(asset: Asset, lineage_context: Any) -> Dataset:  # noqa: ARG001
    """
    Return the dataset by which OpenLineage knows an asset: that of the facets of loads and exports.

    :param asset: An asset with scheme ``assistant``.
    :param lineage_context: What Airflow passes; the URI says it all.
    """
    from airflow.providers.common.compat.openlineage.facet import Dataset

    namespace, name = dataset_name(asset.uri)
    return Dataset(namespace=namespace, name=name)


def _normal_host(host: str) -> str:
    return host.lower().removesuffix(HTTPS_PORT)
