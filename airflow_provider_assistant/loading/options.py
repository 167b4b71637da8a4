"""The options of a load, defined once: operators and the command line take them from here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, get_args

OnAmbiguous: TypeAlias = Literal["retry", "skip"]
OnChange: TypeAlias = Literal["create", "replace", "skip", "fail"]
OnMissing: TypeAlias = Literal["list", "deactivate", "delete", "ignore"]
MissingIn: TypeAlias = Literal["source", "groups"]
# Longest pause that a load waits out after a 429, in seconds.
MAX_BACKOFF = 300.0


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """
    Options of a load.

    :param on_ambiguous: What to do with a row that an earlier attempt may have created: ``retry`` (default) sends it
        again and lists it as possibly duplicated, ``skip`` lists it without sending it. If the connection describes the
        list of documents and it shows that of the row, the row counts as created.
    :param on_change: What to do with a key whose content has changed: ``create`` (default) creates another document and
        lists the superseded one; ``replace`` creates another document and then deactivates and deletes the superseded
        one; ``skip`` does not send the row; ``fail`` stops the load before its first request.
    :param on_missing: What to do with documents whose row is gone from the source: ``list`` (default) lists them as
        stale; ``deactivate`` and ``delete`` remove them from use once the whole source is loaded; ``ignore`` does not
        look for them. Use ``ignore`` if the source contains only new rows.
    :param missing_in: Where to look for rows that are gone: in the whole ``source`` (default), or only in the
        ``groups`` that it contains, which needs ``group_columns``.
    :param allow_mass_change: Whether a load may replace, or remove, more than half of the source's documents. Default:
        False; such a load fails before its first request.
    :param max_rejected: Number of rejected rows that the load tolerates: a count, or a fraction below 1. Default: 0.
        All other rows are loaded in any case.
    """

    on_ambiguous: OnAmbiguous = "retry"
    on_change: OnChange = "create"
    on_missing: OnMissing = "list"
    missing_in: MissingIn = "source"
    allow_mass_change: bool = False
    max_rejected: float = 0

    @property
    def removal(self) -> Literal["deactivate", "delete"] | None:
        """How documents whose row is gone are removed from use; None if they are not."""
        if self.on_missing in {"deactivate", "delete"}:
            return self.on_missing
        return None

    @property
    def removes(self) -> bool:
        """Whether the load removes documents, for which the connection needs ``manage_documents``."""
        return self.on_change == "replace" or self.removal is not None


class Option(NamedTuple):
    """
    An option of a load on the command line.

    :param help: Its meaning.
    :param choices: Its values. Empty for a flag or a number.
    """

    help: str
    choices: tuple[str, ...] = ()


OPTIONS: Mapping[str, Option] = {
    "on_ambiguous": Option(
        "row that an earlier attempt may have created: send it again, or skip it", get_args(OnAmbiguous)
    ),
    "on_change": Option(
        "key whose content has changed: create another document, replace the document, skip the row, or stop the load",
        get_args(OnChange),
    ),
    "on_missing": Option(
        "documents of this source whose row is gone: list them, deactivate or delete them, or ignore them",
        get_args(OnMissing),
    ),
    "missing_in": Option(
        "where to look for rows that are gone: in the whole source, or in the groups that it contains",
        get_args(MissingIn),
    ),
    "allow_mass_change": Option("allow replacing or removing more than half of the source's documents"),
    "max_rejected": Option("rejected rows to tolerate: a count, or a fraction"),
}
# The default of every option.
DEFAULTS = LoadOptions()
