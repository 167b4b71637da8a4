"""Options of a load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

OnAmbiguous: TypeAlias = Literal["retry", "skip", "fail"]
OnChange: TypeAlias = Literal["create", "skip", "fail"]
OnMissing: TypeAlias = Literal["stale", "group", "ignore"]
OnLimit: TypeAlias = Literal["show", "fail", "fit", "ignore"]


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """
    Options of a load.

    :param max_concurrency: Maximum number of requests in flight.
    :param max_backoff: Longest pause that the load waits out after a 429, in seconds. Default: 300.
    :param on_ambiguous: What to do with an ambiguous row: ``retry`` sends it again, ``skip`` does not send it, and
        ``fail`` stops the load. Default: ``retry``.
    :param on_change: What to do with a key whose content hash has changed: ``create`` creates another document,
        ``skip`` does not send the row, and ``fail`` stops the load. Default: ``create``.
    :param adopt: Whether to take over keys that belong to other sources. Default: False.
    :param allow_mass_change: Whether the load may replace, or leave stale, more than half of the source's documents.
        Default: False.
    :param on_limit: What to do if the load would create more documents than the tenant's limits allow: ``show`` logs
        the limits and goes on, ``fail`` stops it before its first request, ``fit`` creates as many as there is room
        for; with ``ignore``, the limits are not read. Default: ``show``.
    :param limits_field: Path of the limit of documents in the tenant's limits, such as ``limits.documents``, see
        :func:`.limits.document_limits`. Default: None, where it usually is.
    """

    max_concurrency: int
    max_backoff: float = 300.0
    on_ambiguous: OnAmbiguous = "retry"
    on_change: OnChange = "create"
    adopt: bool = False
    allow_mass_change: bool = False
    on_limit: OnLimit = "show"
    limits_field: str | None = None
