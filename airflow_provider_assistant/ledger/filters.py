"""
Which attempts a query concerns: words for their lists, and the values that a person or a task selects by.

Superseded, stale, doubled and draft are conditions over attempts, and never stored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from http import HTTPStatus
from typing import Literal, TypeAlias

import sqlalchemy as sa

from airflow_provider_assistant.api.document_state import DEFAULT_WORDS
from airflow_provider_assistant.ledger.schema import (
    DOCUMENT_KINDS,
    HAS_OTHER_STATUS,
    IS_OPEN,
    IS_REPEATED,
    IS_UNRESOLVED,
    MAY_BE_MORE,
    UNRESOLVED,
    Kind,
    RunRef,
    attempts,
    is_in,
)
from airflow_provider_assistant.ledger.scopes import Site

# Lists of attempts that a person can ask for.
Which: TypeAlias = Literal[
    "created", "unresolved", "doubled", "superseded", "stale", "draft", "rejected", "failed", "open"
]

_c = attempts.c
_IS_DOCUMENT = is_in(_c.kind, DOCUMENT_KINDS)
_IS_CREATED = _c.state == sa.literal_column("'created'")


def _other(*conditions: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    return sa.exists().where(*conditions).correlate(attempts)


def _of_row(other: sa.FromClause) -> sa.ColumnElement[bool]:
    """Return the condition that another attempt is for the same row of the same source."""
    return sa.and_(other.c.scope == _c.scope, other.c.key == _c.key, other.c.source == _c.source)


def _has_later(*states: str, has_other_content: bool = False) -> sa.ColumnElement[bool]:
    """Return the condition that the row has a later attempt with one of these states."""
    later = attempts.alias()
    conditions = [_of_row(later), later.c.number > _c.number, later.c.state.in_(states)]
    if has_other_content:
        conditions.append(later.c.content_hash.is_distinct_from(_c.content_hash))
    return _other(*conditions)


def _may_be_twice() -> sa.ColumnElement[bool]:
    """Return the condition that something else may exist besides the document of a created attempt."""
    before, between, twin = attempts.alias(), attempts.alias(), attempts.alias()
    is_between = sa.exists().where(
        between.c.scope == _c.scope,
        between.c.key == _c.key,
        between.c.state == "created",
        between.c.number > before.c.number,
        between.c.number < _c.number,
    )
    # An attempt before an earlier document was counted with that one.
    is_unresolved_before = _other(
        before.c.scope == _c.scope,
        before.c.key == _c.key,
        before.c.number < _c.number,
        before.c.state.in_(UNRESOLVED),
        ~is_between.correlate(attempts, before),
    )
    has_twin = _other(
        _of_row(twin),
        twin.c.number < _c.number,
        twin.c.state == "created",
        twin.c.content_hash == _c.content_hash,
        twin.c.remote_id.is_distinct_from(_c.remote_id),
    )
    # A service that refuses repetitions (409) has only one.
    has_one = _c.http_status == sa.literal_column(str(HTTPStatus.CONFLICT.value))
    # Only a later attempt of a key has one before it.
    may_be_more = MAY_BE_MORE | (IS_REPEATED & (is_unresolved_before | has_twin))
    return sa.and_(may_be_more, sa.or_(_c.http_status.is_(None), ~has_one))


def is_latest_document() -> sa.ColumnElement[bool]:
    """Return the condition that an attempt is the latest document of its row."""
    return _IS_DOCUMENT & _IS_CREATED & ~_has_later("created")


def has_unresolved() -> sa.ColumnElement[bool]:
    """Return the condition that the row has an attempt without an outcome that is later than its latest document."""
    unresolved, document = attempts.alias(), attempts.alias()
    has_document = sa.exists().where(
        document.c.scope == unresolved.c.scope,
        document.c.key == unresolved.c.key,
        document.c.source == unresolved.c.source,
        document.c.number > unresolved.c.number,
        document.c.state == "created",
    )
    return _other(
        _of_row(unresolved),
        unresolved.c.number > _c.number,
        unresolved.c.state.in_(UNRESOLVED),
        ~has_document.correlate(unresolved),
    )


def _is_needed_elsewhere() -> sa.ColumnElement[bool]:
    """Return the condition that the document is that of another row: the latest of its key, and not gone."""
    other, later = attempts.alias(), attempts.alias()
    is_replaced = sa.exists().where(
        later.c.scope == other.c.scope,
        later.c.key == other.c.key,
        later.c.source == other.c.source,
        later.c.number > other.c.number,
        later.c.state == "created",
        later.c.content_hash.is_distinct_from(other.c.content_hash),
    )
    return _other(
        other.c.remote_id == _c.remote_id,
        other.c.service == _c.service,
        other.c.site_id == _c.site_id,
        other.c.state == "created",
        other.c.gone_at.is_(None),
        sa.or_(other.c.scope != _c.scope, other.c.key != _c.key, other.c.number != _c.number),
        ~is_replaced.correlate(other),
    )


def condition_of(which: Which) -> sa.ColumnElement[bool]:
    """
    Return the condition of a list.

    - ``created``: documents, chat requests and ratings that exist.
    - ``unresolved``: the outcome is not known, and no later attempt has the key.
    - ``doubled``: documents and others that may exist twice, because of an attempt whose outcome is not known.
    - ``superseded``: documents whose row has other content now.
    - ``stale``: documents whose row is gone from its source.
    - ``draft``: documents that the service does not use, according to its word.
    - ``rejected``, ``failed``: the latest attempt of the key did not create anything.
    - ``open``: chat requests that the service accepted and whose end is not recorded.
    """
    if which in {"rejected", "failed"}:
        return (_c.state == which) & ~_has_later("created", "rejected", "failed", *UNRESOLVED)
    return _LISTS[which]()


def _superseded() -> sa.ColumnElement[bool]:
    is_outdated = _has_later("created", has_other_content=True)
    later = attempts.alias()
    # Few keys have several attempts: these come first.
    several = sa.select(later.c.scope, later.c.key).where(later.c.number > sa.literal_column("1"))
    is_candidate = sa.tuple_(_c.scope, _c.key).in_(several)
    return _IS_DOCUMENT & _IS_CREATED & is_candidate & is_outdated & ~_is_needed_elsewhere()


def _stale() -> sa.ColumnElement[bool]:
    is_latest = ~_has_later("created", has_other_content=True)
    return _IS_DOCUMENT & _IS_CREATED & _c.gone_at.is_not(None) & is_latest & ~_is_needed_elsewhere()


def _draft() -> sa.ColumnElement[bool]:
    word = sa.func.lower(_c.status)
    for separator in " _-":
        word = sa.func.replace(word, separator, "")
    in_use = DEFAULT_WORDS.active | DEFAULT_WORDS.processing
    return _IS_DOCUMENT & _IS_CREATED & HAS_OTHER_STATUS & word.not_in(sorted(in_use)) & ~_has_later("created")


_LISTS: dict[str, Callable[[], sa.ColumnElement[bool]]] = {
    "created": lambda: _IS_CREATED,
    "unresolved": lambda: IS_UNRESOLVED & ~_has_later("created", *UNRESOLVED),
    "doubled": lambda: _IS_CREATED & _may_be_twice(),
    "superseded": _superseded,
    "stale": _stale,
    "draft": _draft,
    "open": lambda: IS_OPEN,
}


def _is_of(run: RunRef, table: sa.FromClause) -> sa.ColumnElement[bool]:
    return sa.and_(*(table.c[name].is_not_distinct_from(value) for name, value in run.columns().items()))


def _is_superseded_by(run: RunRef) -> sa.ColumnElement[bool]:
    newer = attempts.alias()
    is_newer = _other(_of_row(newer), newer.c.number > _c.number, newer.c.state == "created", _is_of(run, newer))
    # A run changes few rows of a large source: these come first.
    rows = sa.select(newer.c.scope, newer.c.key).where(newer.c.state == "created", _is_of(run, newer))
    return sa.tuple_(_c.scope, _c.key).in_(rows) & is_newer


@dataclass(frozen=True, slots=True)
class Filter:
    """
    Select attempts.

    :param which: List of :func:`condition_of`. Default: None, all.
    :param dag_ids: Only those of these DAGs. None for all, also those without a DAG.
    :param label_part: Only those whose label contains this text, in upper or lower case.
    :param run: Only those of this task instance, by any of its tries.
    :param superseded_by: Only those for whose row this task instance created a later document.
    :param remote_ids: Only those with one of these ids.
    :param ids: Only these attempts: scope, key and number of each.
    :param keys: Only those whose key begins with one of these texts.
    """

    which: Which | None = None
    kinds: Collection[Kind] = ()
    site: Site | None = None
    site_id: str | None = None
    source: str | None = None
    scope: str | None = None
    dag_ids: frozenset[str] | None = None
    label_part: str | None = None
    run: RunRef | None = None
    superseded_by: RunRef | None = None
    remote_ids: Collection[str] | None = None
    ids: Collection[tuple[str, str, int]] | None = None
    keys: Collection[str] = ()

    def conditions(self) -> list[sa.ColumnElement[bool]]:
        """Return the conditions on the table of attempts."""
        conditions = [condition_of(self.which)] if self.which else []
        for name in ("site_id", "source", "scope"):
            value = getattr(self, name)
            if value is not None:
                conditions.append(_c[name] == value)
        if self.kinds:
            conditions.append(_c.kind.in_(sorted(self.kinds)))
        if self.site:
            conditions.append(self.site.of(attempts))
        if self.dag_ids is not None:
            conditions.append(_c.dag_id.in_(sorted(self.dag_ids)))
        if self.label_part:
            conditions.append(_c.label.icontains(self.label_part, autoescape=True))
        if self.run:
            conditions.append(_is_of(self.run, attempts))
        if self.superseded_by:
            conditions.append(_is_superseded_by(self.superseded_by))
        return conditions + self._of_identity()

    def _of_identity(self) -> list[sa.ColumnElement[bool]]:
        """Return the conditions that name single attempts."""
        conditions: list[sa.ColumnElement[bool]] = []
        if self.remote_ids is not None:
            conditions.append(_c.remote_id.in_(sorted(self.remote_ids)))
        if self.ids is not None:
            conditions.append(sa.tuple_(_c.scope, _c.key, _c.number).in_(sorted(self.ids)))
        if self.keys:
            prefixes = [_c.key.startswith(key, autoescape=True) for key in sorted(self.keys)]
            conditions.append(sa.or_(*prefixes))
        return conditions
