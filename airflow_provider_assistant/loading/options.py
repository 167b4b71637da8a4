"""The options of a load, defined once: operators, decorators and the command line take them from here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

OnAmbiguous: TypeAlias = Literal["retry", "skip", "fail"]
OnChange: TypeAlias = Literal["create", "replace", "skip", "fail"]
OnMissing: TypeAlias = Literal["stale", "group", "deactivate", "deactivate_group", "delete", "delete_group", "ignore"]
OnLimit: TypeAlias = Literal["show", "fail", "fit", "ignore"]
# Formats of files of rows.
FORMATS = ("csv", "tsv", "json lines", "json", "parquet")


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """
    Options of a load.

    :param max_concurrency: Maximum number of requests in flight.
    :param max_backoff: Longest pause that the load waits out after a 429, in seconds. Default: 300.
    :param on_ambiguous: What to do with a row that an earlier attempt may have created: ``retry`` (default) sends it
        again and lists it as possibly duplicated, ``skip`` lists it without sending it, ``fail`` stops the load. If the
        connection describes the list of documents and it shows that of the row, the row counts as created.
    :param on_change: What to do with a key whose content has changed: ``create`` (default) creates another document and
        lists the superseded one; ``replace`` creates another document and then deactivates and deletes the superseded
        one; ``skip`` does not send the row; ``fail`` stops the load.
    :param on_missing: What to do with documents whose row is gone from the source: ``stale`` (default) lists them;
        ``deactivate`` and ``delete`` remove them from use once the whole source is loaded; ``ignore`` does not look for
        them. ``group``, ``deactivate_group`` and ``delete_group``, for rows only, do the same for those in the groups
        that the source contains, and need ``group_columns``. Use ``ignore`` if the source contains only new rows.
    :param activate: Whether to activate the documents of the source that are not known to be in use. Default: False.
    :param ready_timeout: Longest wait in seconds until new documents are in use, before outdated ones are removed.
        Default: 600.
    :param max_removals_per_minute: Maximum number of documents to deactivate or delete per minute. Default: None, no
        limit.
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
    :param strict: Whether a source of which something was left out that could hide lost content, such as a page without
        text, fails before the first request. Default: False, it is a warning, and in the findings.
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
    activate: bool = False
    ready_timeout: float = 600.0
    max_removals_per_minute: float | None = None
    strict: bool = False

    @property
    def removal(self) -> Literal["deactivate", "delete"] | None:
        """How documents whose row is gone are removed from use; None if they are not."""
        if self.on_missing in {"deactivate", "deactivate_group"}:
            return "deactivate"
        if self.on_missing in {"delete", "delete_group"}:
            return "delete"
        return None

    @property
    def missing_in(self) -> Literal["source", "groups"] | None:
        """Where to look for documents whose row is gone; None if the load does not look for them."""
        if self.on_missing == "ignore":
            return None
        return "groups" if self.on_missing in OF_GROUPS.values() else "source"

    @property
    def changes_site(self) -> bool:
        """Whether the load changes documents that exist, for which the connection needs ``manage_documents``."""
        return self.activate or self.on_change == "replace" or self.removal is not None


# What a task does that reads only a part of its source: it cannot tell what is missing from the whole.
OF_GROUPS: Mapping[OnMissing, OnMissing] = {
    "stale": "group",
    "deactivate": "deactivate_group",
    "delete": "delete_group",
}


@dataclass(frozen=True, slots=True)
class Option:
    """
    An option of a load that users set.

    :param help: Its meaning, for the command line.
    :param choices: Its values. Empty for a flag, a text or a number.
    :param is_number: Whether it is a number although its default is None.
    """

    help: str
    choices: tuple[str, ...] = ()
    is_number: bool = False


OPTIONS: Mapping[str, Option] = {
    "on_ambiguous": Option(
        "row that an earlier attempt may have created: send it again, skip it, or stop the load",
        get_args(OnAmbiguous),
    ),
    "on_change": Option(
        "key whose content has changed: create another document, replace the document, skip the row, or stop the load",
        get_args(OnChange),
    ),
    "on_missing": Option(
        "documents of this source whose row is gone from the file: list them as stale, deactivate or delete them, do "
        "so only for those of the groups in the file, or ignore them",
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
    "strict": Option("fail if something is left out of the source that could hide lost content"),
    "max_rejected": Option("rejected rows to tolerate: a count, or a fraction"),
    "activate": Option("activate the documents of this source that are not known to be in use"),
    "ready_timeout": Option("seconds to wait until new documents are in use, before outdated ones are removed"),
    "max_removals_per_minute": Option("documents to deactivate or delete per minute at most", is_number=True),
}
# The default of every option.
DEFAULTS = LoadOptions(max_concurrency=1)
