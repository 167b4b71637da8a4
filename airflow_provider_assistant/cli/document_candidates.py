"""Descriptions of the routes that change documents, likeliest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

from airflow_provider_assistant.api.document_routes import DeleteRoute, Method, StatusRoute
from airflow_provider_assistant.api.document_state import status_fields
from airflow_provider_assistant.api.site_documents import SiteDocument, value_at

SINGLE = "/m2m/sites/{site_id}/documents/{document_id}"
BULK_STATUS = StatusRoute().path
BULK_DELETE = DeleteRoute().path
IDS = ("document_ids", "ids", "documentIds")


class _Target(NamedTuple):
    method: Method
    path: str


class _Values(NamedTuple):
    """
    The status in a body.

    :param field: Name of the field.
    :param active: Value that activates.
    :param inactive: Value that deactivates.
    """

    field: str
    active: Any
    inactive: Any


STATUS_TARGETS = (
    _Target("PATCH", BULK_STATUS),
    _Target("PATCH", SINGLE),
    _Target("POST", BULK_STATUS),
    _Target("PUT", BULK_STATUS),
    _Target("PUT", SINGLE),
    _Target("POST", SINGLE),
)
# There is no request without an id in its path or body: it might concern every document.
DELETE_TARGETS = (_Target("POST", BULK_DELETE), _Target("DELETE", SINGLE))
VALUES = (
    _Values("status", "active", "draft"),
    _Values("status", "active", "inactive"),
    _Values("status", "published", "draft"),
)


def status_routes(
    configured: StatusRoute, shown: SiteDocument, status_path: str | None = None
) -> Iterator[StatusRoute]:
    """
    Yield descriptions of the route that activates and deactivates, each once.

    :param configured: That of the connection, which comes first.
    :param shown: A document in the list: a body may have the fields and words of the list.
    :param status_path: Field of the list with the status; None for the usual ones.
    """
    targets = _unique([_Target(configured.method, configured.path), *STATUS_TARGETS])
    values = [_Values(configured.status, configured.active, configured.inactive)]
    values = _unique([*values, *VALUES, *_values_of(shown, status_path)])
    names = _unique([configured.ids, *IDS])
    for target, name, value in _likeliest_first(targets, names, values):
        yield StatusRoute(
            method=target.method,
            path=target.path,
            ids=name,
            batch=configured.batch,
            status=value.field,
            active=value.active,
            inactive=value.inactive,
        )


def delete_routes(configured: DeleteRoute) -> Iterator[DeleteRoute]:
    """
    Yield descriptions of the route that deletes, each once.

    :param configured: That of the connection, which comes first.
    """
    targets = _unique([_Target(configured.method, configured.path), *DELETE_TARGETS])
    names = _unique([configured.ids, *IDS])
    for target, name, _ in _likeliest_first(targets, names, [None]):
        yield DeleteRoute(method=target.method, path=target.path, ids=name, batch=configured.batch)


def _values_of(shown: SiteDocument, status_path: str | None) -> Iterator[_Values]:
    """Yield values with the fields of the list: flags, and words."""
    paths = status_fields(shown.raw) if status_path is None else [status_path]
    for path in paths:
        name = path.rpartition(".")[2]
        if isinstance(value_at(shown.raw, path), bool):
            is_negative = name.endswith(("draft", "archived", "disabled"))
            yield _Values(name, not is_negative, is_negative)
            continue
        for values in VALUES:
            yield values._replace(field=name)
        if shown.state == "active":
            yield _Values(name, shown.status, "draft")
            yield _Values(name, shown.status, "inactive")


def _likeliest_first(
    targets: Sequence[_Target], names: Sequence[str], values: Sequence[Any]
) -> list[tuple[_Target, str, Any]]:
    """Return all combinations, those near the beginnings of the sequences first."""
    positions = product(range(len(targets)), range(len(names)), range(len(values)))
    combinations = []
    for target, name, value in sorted(positions, key=sum):
        # A request for one document has no list of ids.
        if name == 0 or "{document_id}" not in targets[target].path:
            combinations.append((targets[target], names[name], values[value]))
    return combinations


def _unique(values: Sequence[Any]) -> list[Any]:
    """Return the values without repetitions; ``1`` and ``True`` are different."""
    unique: dict[str, Any] = {}
    for value in values:
        unique.setdefault(repr(value), value)
    return list(unique.values())
