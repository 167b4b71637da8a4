"""The options of a load, defined once: operators, decorators and the command line take them from here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

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
    :param on_ambiguous: What to do with a row that an earlier attempt may have created: ``retry`` (default) sends it
        again and lists it as possibly duplicated, ``skip`` lists it without sending it, ``fail`` stops the load.
    :param on_change: What to do with a key whose content has changed: ``create`` (default) creates another document and
        lists the superseded one, because the API can neither update nor delete; ``skip`` does not send the row;
        ``fail`` stops the load.
    :param on_missing: What to do with documents whose row is gone from the source: ``stale`` (default) lists them,
        because the API cannot delete them; ``group``, for rows only, lists those in the groups that the source
        contains, and needs ``group_columns``; ``ignore`` does not look for them. Use ``ignore`` if the source contains
        only new rows.
    :param adopt: Whether to take over keys that belong to another source. Default: False; a load that would replace
        documents of another source fails before its first request.
    :param allow_mass_change: Whether a load may replace, or mark as stale, more than half of the source's documents
        (and at least 50). Default: False; such a load fails before its first request.
    :param on_limit: What to do if the load would create more documents than the tenant's limits allow. The limits are
        read once, before the first row is sent, if the tenant is known. ``show`` (default) logs them and goes on;
        ``fail`` fails before the first row is sent; ``fit`` creates as many as there is room for, in the order of the
        source, skips the others and lists them; ``ignore`` does not read the limits. Limits that cannot be read or
        understood do not stop a load.
    :param limits_field: Path of the limit of documents in the tenant's limits, such as ``limits.documents``. It has
        fields such as ``limit`` and ``used``, or ``remaining``, or is the number that is left. Default: None, where it
        usually is.
    :param max_rejected: Number of rejected rows that the load tolerates: a count, or a fraction below 1. Default: 0.
        All other rows are loaded in any case.
    """

    max_concurrency: int
    max_backoff: float = 300.0
    on_ambiguous: OnAmbiguous = "retry"
    on_change: OnChange = "create"
    on_missing: OnMissing = "stale"
    adopt: bool = False
    allow_mass_change: bool = False
    on_limit: OnLimit = "show"
    limits_field: str | None = None
    max_rejected: float = 0


@dataclass(frozen=True, slots=True)
class Option:
    """
    An option of a load that users set.

    :param help: Its meaning, for the command line.
    :param choices: Its values. Empty for a flag or a number.
    """

    help: str
    choices: tuple[str, ...] = ()


OPTIONS: Mapping[str, Option] = {
    "on_ambiguous": Option(
        "row that an earlier attempt may have created: send it again, skip it, or stop the load",
        get_args(OnAmbiguous),
    ),
    "on_change": Option(
        "key whose content has changed: create another document, skip the row, or stop the load",
        get_args(OnChange),
    ),
    "on_missing": Option(
        "documents of this source whose row is gone from the file: list them as stale, list only those of the groups "
        "in the file, or ignore them",
        get_args(OnMissing),
    ),
    "adopt": Option("take over keys that belong to another source"),
    "allow_mass_change": Option("allow replacing, or marking as stale, more than half of the source's documents"),
    "on_limit": Option(
        "more documents than the tenant's limits allow: show it and go on, send none, send those that fit, or do not "
        "read the limits",
        get_args(OnLimit),
    ),
    "limits_field": Option("path of the limit of documents in the tenant's limits, such as limits.documents"),
    "max_rejected": Option("rejected rows to tolerate: a count, or a fraction"),
}
# The default of every option.
DEFAULTS = LoadOptions(max_concurrency=1)
